//! The agent card: the zone's identity and its agents' skills. All endpoints serve the same card.

use crate::state::ExecutionState;
use interzone_hub::AgentInfo;
use interzone_protocol::acp::{AgentCard, Authentication, Capabilities, CardSkill, Scope};

/// Scopes a token can have.
pub(crate) fn scopes() -> Vec<String> {
    Scope::ALL
        .iter()
        .map(|scope| scope.name().to_owned())
        .collect()
}

/// Builds the card from the current agents, with the URL of this endpoint.
pub(crate) fn agent_card(zone: &ExecutionState, endpoint: &str) -> AgentCard {
    let operator = &zone.operator;
    let skills: Vec<CardSkill> = zone
        .hub
        .agents()
        .iter()
        .flat_map(|agent| skills_of(agent.info()))
        .collect();
    AgentCard {
        name: truncate_or_default(&operator.name, 100),
        description: truncate_or_default(&operator.description, 500),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        url: zone.absolute_url(endpoint),
        provider: operator.provider.clone(),
        capabilities: Some(Capabilities {
            streaming: true,
            push_notifications: true,
            file_upload: true,
            multimodal: true,
        }),
        authentication: Some(Authentication {
            schemes: vec!["oauth2".to_owned(), "bearer".to_owned()],
            scopes: scopes(),
        }),
        skills: Some(skills).filter(|skills| !skills.is_empty()),
        metadata: None,
    }
}

/// Returns an agent's skills. An agent without any is listed as one skill, so callers can address it.
fn skills_of(info: &AgentInfo) -> Vec<CardSkill> {
    let skill = |id: &str, name: &str, description: &str| CardSkill {
        id: slug(id),
        name: name.to_owned(),
        description: description.to_owned(),
        input_modes: modes(),
        output_modes: modes(),
    };
    if info.skills.is_empty() {
        return vec![skill(info.id.as_str(), &info.name, &info.description)];
    }
    info.skills
        .iter()
        .map(|listed| skill(&listed.id, &listed.name, &listed.description))
        .collect()
}

fn modes() -> Vec<String> {
    ["text", "data", "file", "image", "audio"]
        .map(str::to_owned)
        .to_vec()
}

/// Converts an id to the form that the card's schema requires.
fn slug(id: &str) -> String {
    let slug: String = id
        .chars()
        .map(|c| c.to_ascii_lowercase())
        .map(|c| {
            if c.is_ascii_lowercase() || c.is_ascii_digit() {
                c
            } else {
                '-'
            }
        })
        .collect();
    if slug.is_empty() {
        "agent".to_owned()
    } else {
        slug
    }
}

fn truncate_or_default(text: &str, max_chars: usize) -> String {
    let truncated: String = text.chars().take(max_chars).collect();
    if truncated.is_empty() {
        "Interzone".to_owned()
    } else {
        truncated
    }
}
