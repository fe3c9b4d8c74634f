//! Agent card of 0.3, and the card that has the members of both versions.

use super::security::{OAuthFlows, SecurityRequirement, SecurityScheme};
use super::{
    A2aAgentCard, AgentCapabilities, AgentCardSignature, AgentInterface, AgentProvider, AgentSkill,
    CardShape,
};
use crate::a2a::field::ObjectReader;
use crate::a2a::invalid_field::InvalidField;
use crate::a2a::version::A2aVersion;
use crate::a2a::wire::non_empty;
use serde::Serialize;
use std::collections::BTreeMap;

/// The version as 0.3 cards write it.
const PROTOCOL_VERSION: &str = "0.3.0";

/// A card with the members of 0.3, in a hybrid with those of 1.0 too.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CardV03<'a> {
    protocol_version: &'static str,
    name: &'a str,
    description: &'a str,
    url: &'a str,
    preferred_transport: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    additional_interfaces: Vec<InterfaceV03<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    supported_interfaces: Option<&'a [AgentInterface]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a AgentProvider>,
    version: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    documentation_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icon_url: Option<&'a str>,
    capabilities: AgentCapabilities,
    #[serde(skip_serializing_if = "Option::is_none")]
    supports_authenticated_extended_card: Option<bool>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    security_schemes: BTreeMap<&'a str, SchemeV03<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    security_requirements: Option<&'a [SecurityRequirement]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    security: Vec<&'a BTreeMap<String, Vec<String>>>,
    default_input_modes: &'a [String],
    default_output_modes: &'a [String],
    skills: Vec<SkillV03<'a>>,
    #[serde(skip_serializing_if = "<[AgentCardSignature]>::is_empty")]
    signatures: &'a [AgentCardSignature],
}

#[derive(PartialEq, Eq, Serialize)]
struct InterfaceV03<'a> {
    url: &'a str,
    transport: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SkillV03<'a> {
    id: &'a str,
    name: &'a str,
    description: &'a str,
    tags: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    examples: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    input_modes: &'a [String],
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    output_modes: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    security_requirements: Option<&'a [SecurityRequirement]>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    security: Vec<&'a BTreeMap<String, Vec<String>>>,
}

/// A scheme with its `type`, in a hybrid with the wrapper of 1.0 too.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct SchemeV03<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    location: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheme: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bearer_format: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flows: Option<&'a OAuthFlows>,
    #[serde(rename = "oauth2MetadataUrl", skip_serializing_if = "Option::is_none")]
    metadata_url: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open_id_connect_url: Option<&'a str>,
    #[serde(flatten)]
    v1: Option<&'a SecurityScheme>,
}

impl<'a> SchemeV03<'a> {
    fn new(scheme: &'a SecurityScheme) -> Self {
        let (r#type, description) = match scheme {
            SecurityScheme::ApiKey(scheme) => ("apiKey", &scheme.description),
            SecurityScheme::HttpAuth(scheme) => ("http", &scheme.description),
            SecurityScheme::OAuth2(scheme) => ("oauth2", &scheme.description),
            SecurityScheme::OpenIdConnect(scheme) => ("openIdConnect", &scheme.description),
            SecurityScheme::MutualTls(scheme) => ("mutualTLS", &scheme.description),
        };
        let view = Self {
            r#type,
            description: non_empty(description),
            ..Self::default()
        };
        match scheme {
            SecurityScheme::ApiKey(scheme) => Self {
                location: Some(&scheme.location),
                name: Some(&scheme.name),
                ..view
            },
            SecurityScheme::HttpAuth(scheme) => Self {
                scheme: Some(&scheme.scheme),
                bearer_format: non_empty(&scheme.bearer_format),
                ..view
            },
            SecurityScheme::OAuth2(scheme) => Self {
                flows: Some(&scheme.flows),
                metadata_url: non_empty(&scheme.metadata_url),
                ..view
            },
            SecurityScheme::OpenIdConnect(scheme) => Self {
                open_id_connect_url: Some(&scheme.open_id_connect_url),
                ..view
            },
            SecurityScheme::MutualTls(_) => view,
        }
    }
}

fn requirements_v03(requirements: &[SecurityRequirement]) -> Vec<&BTreeMap<String, Vec<String>>> {
    requirements
        .iter()
        .map(|requirement| &requirement.0)
        .collect()
}

impl<'a> CardV03<'a> {
    pub(super) fn new(card: &'a A2aAgentCard, shape: CardShape) -> Self {
        let is_hybrid = shape == CardShape::Hybrid;
        let interfaces = interfaces_v03(&card.supported_interfaces);
        let first = interfaces.first();
        let hybrid_list = |list: &'a [SecurityRequirement]| {
            Some(list).filter(|list| is_hybrid && !list.is_empty())
        };
        let skills = card.skills.iter().map(|skill: &'a AgentSkill| SkillV03 {
            id: &skill.id,
            name: &skill.name,
            description: &skill.description,
            tags: &skill.tags,
            examples: &skill.examples,
            input_modes: &skill.input_modes,
            output_modes: &skill.output_modes,
            security_requirements: hybrid_list(&skill.security_requirements),
            security: requirements_v03(&skill.security_requirements),
        });
        let schemes = card.security_schemes.iter().map(|(name, scheme)| {
            let view = SchemeV03 {
                v1: Some(scheme).filter(|_| is_hybrid),
                ..SchemeV03::new(scheme)
            };
            (name.as_str(), view)
        });
        Self {
            protocol_version: PROTOCOL_VERSION,
            name: &card.name,
            description: &card.description,
            url: first.map_or("", |interface| interface.url),
            preferred_transport: first.map_or(AgentInterface::JSON_RPC, |first| first.transport),
            additional_interfaces: interfaces,
            supported_interfaces: is_hybrid.then_some(card.supported_interfaces.as_slice()),
            provider: card.provider.as_ref(),
            version: &card.version,
            documentation_url: card.documentation_url.as_deref(),
            icon_url: card.icon_url.as_deref(),
            capabilities: AgentCapabilities {
                extended_agent_card: card.capabilities.extended_agent_card.filter(|_| is_hybrid),
                ..card.capabilities.clone()
            },
            supports_authenticated_extended_card: card.capabilities.extended_agent_card,
            security_schemes: schemes.collect(),
            security_requirements: hybrid_list(&card.security_requirements),
            security: requirements_v03(&card.security_requirements),
            default_input_modes: &card.default_input_modes,
            default_output_modes: &card.default_output_modes,
            skills: skills.collect(),
            // 0.3 has no canonical form, so only a hybrid, which has the signed members, is signed.
            signatures: if is_hybrid { &card.signatures } else { &[] },
        }
    }
}

/// Interfaces of 0.3, or all if there are none of 0.3.
fn interfaces_v03(interfaces: &[AgentInterface]) -> Vec<InterfaceV03<'_>> {
    let is_v03 = |interface: &&AgentInterface| {
        A2aVersion::parse(&interface.protocol_version) == Some(A2aVersion::V03)
    };
    let has_v03 = interfaces.iter().any(|interface| is_v03(&interface));
    let mut views = Vec::new();
    for interface in interfaces
        .iter()
        .filter(|interface| !has_v03 || is_v03(interface))
    {
        let view = InterfaceV03 {
            url: &interface.url,
            transport: &interface.protocol_binding,
        };
        if !views.contains(&view) {
            views.push(view);
        }
    }
    views
}

/// Reads the members that only 0.3 has.
pub(super) fn read_members(
    object: &ObjectReader<'_, '_>,
    card: &mut A2aAgentCard,
) -> Result<(), InvalidField> {
    let version = object.optional_text("protocolVersion")?;
    let version = version.unwrap_or_else(|| A2aVersion::V03.name().to_owned());
    let transport = object.optional_text("preferredTransport")?;
    let interface = |url, binding| AgentInterface {
        url,
        protocol_binding: binding,
        protocol_version: version.clone(),
        tenant: String::new(),
    };
    if let Some(url) = object.optional_text("url")? {
        let transport = transport.unwrap_or_else(|| AgentInterface::JSON_RPC.to_owned());
        card.supported_interfaces.push(interface(url, transport));
    }
    if let Some(field) = object.field("additionalInterfaces")? {
        let additional = field.list(|field| {
            let object = field.object()?;
            Ok(interface(object.text("url")?, object.text("transport")?))
        })?;
        for interface in additional {
            if !card.supported_interfaces.contains(&interface) {
                card.supported_interfaces.push(interface);
            }
        }
    }
    card.capabilities.extended_agent_card = object.boolean("supportsAuthenticatedExtendedCard")?;
    Ok(())
}
