//! The public agent card of A2A: what one agent of the zone can do, and how it is called.

use super::CALLS;
use crate::rpc::dialect::DialectMethod;
use crate::state::ExecutionState;
use interzone_hub::{AgentInfo, Skill};
use interzone_protocol::a2a::{
    A2aAgentCard, AgentCapabilities, AgentInterface, AgentProvider, AgentSkill, OAuthFlow,
    OAuthFlows, OAuthScheme, SecurityRequirement, SecurityScheme,
};
use std::collections::{BTreeMap, BTreeSet};

/// Name of the scheme by which programs get tokens.
const OAUTH_CLIENT: &str = "oauth_client";

/// Media types of an agent that names none: it gets whatever is sent.
const ANY_MODES: [&str; 2] = ["text/plain", "*/*"];

/// Builds the card of an agent whose call endpoint is at this path.
pub(crate) fn agent_card(zone: &ExecutionState, agent: &AgentInfo, path: &str) -> A2aAgentCard {
    let url = zone.absolute_url(path);
    let provider = &zone.operator.provider;
    let profile = &agent.profile;
    let version = profile.version.as_deref();
    A2aAgentCard {
        name: non_empty(&agent.name, &zone.operator.name),
        description: non_empty(&agent.description, &zone.operator.description),
        supported_interfaces: vec![
            AgentInterface::json_rpc(&url, "1.0"),
            AgentInterface::json_rpc(&url, "0.3"),
        ],
        provider: provider.website.clone().map(|url| AgentProvider {
            organization: provider.organization.clone(),
            url,
        }),
        version: version.unwrap_or(env!("CARGO_PKG_VERSION")).to_owned(),
        documentation_url: profile.documentation_url.clone(),
        capabilities: AgentCapabilities {
            streaming: Some(true),
            push_notifications: Some(false),
            extensions: Vec::new(),
            extended_agent_card: Some(false),
        },
        security_schemes: BTreeMap::from([(OAUTH_CLIENT.to_owned(), oauth_client(zone))]),
        security_requirements: vec![SecurityRequirement(BTreeMap::from([(
            OAUTH_CLIENT.to_owned(),
            scopes().into_iter().map(str::to_owned).collect(),
        )]))],
        default_input_modes: modes(&profile.input_modes),
        default_output_modes: modes(&profile.output_modes),
        skills: skills(agent),
        ..A2aAgentCard::default()
    }
}

fn non_empty(text: &str, default: &str) -> String {
    let text = if text.is_empty() { default } else { text };
    text.to_owned()
}

/// Scopes of all methods together.
fn scopes() -> BTreeSet<&'static str> {
    let scopes = CALLS.iter().flat_map(|call| call.info().scopes);
    scopes.map(|scope| scope.name()).collect()
}

fn oauth_client(zone: &ExecutionState) -> SecurityScheme {
    let scopes = scopes().into_iter();
    let flow = OAuthFlow {
        token_url: Some(zone.token_url.clone()),
        scopes: scopes
            .map(|scope| (scope.to_owned(), String::new()))
            .collect(),
        ..OAuthFlow::default()
    };
    SecurityScheme::OAuth2(Box::new(OAuthScheme {
        flows: OAuthFlows {
            client_credentials: Some(flow),
            ..OAuthFlows::default()
        },
        ..OAuthScheme::default()
    }))
}

fn modes(media_types: &[String]) -> Vec<String> {
    match media_types.is_empty() {
        true => ANY_MODES.map(str::to_owned).to_vec(),
        false => media_types.to_vec(),
    }
}

/// Returns the skills of an agent. One without any is listed as one skill.
fn skills(agent: &AgentInfo) -> Vec<AgentSkill> {
    let convert = |skill: &Skill| AgentSkill {
        id: skill.id.clone(),
        name: non_empty(&skill.name, &skill.id),
        description: non_empty(&skill.description, &skill.name),
        tags: match skill.tags.is_empty() {
            true => vec![agent.id.to_string()],
            false => skill.tags.clone(),
        },
        examples: skill.examples.clone(),
        input_modes: skill.input_modes.clone(),
        output_modes: skill.output_modes.clone(),
        ..AgentSkill::default()
    };
    if !agent.skills.is_empty() {
        return agent.skills.iter().map(convert).collect();
    }
    vec![convert(&Skill {
        id: agent.id.to_string(),
        name: agent.name.clone(),
        description: agent.description.clone(),
        tags: agent.profile.tags.clone(),
        examples: agent.profile.examples.clone(),
        ..Skill::default()
    })]
}
