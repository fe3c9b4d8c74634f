//! Agent cards: one model, and the shapes of 1.0, of 0.3, and of both in one object.

mod security;
mod signature;
mod v03;

pub use security::{
    ApiKeyScheme, HttpAuthScheme, MutualTlsScheme, OAuthFlow, OAuthFlows, OAuthScheme,
    OpenIdConnectScheme, SecurityRequirement, SecurityScheme,
};
pub use signature::{CanonicalForm, ProtectedHeader, signing_input};

use super::field::{Field, ObjectReader};
use super::invalid_field::InvalidField;
use super::method::WireFormat;
use super::wire::WireObject;
use crate::vocab::Metadata;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use v03::CardV03;

/// Shape of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CardShape {
    /// 1.0.
    V1,
    /// 0.3.
    V03,
    /// 1.0 with the members of 0.3 added, for callers that do not name their version.
    Hybrid,
}

/// Public description of an agent.
///
/// Serializes as a card of 1.0, whose members it has.
///
/// ```
/// use interzone_protocol::a2a::{A2aAgentCard, AgentInterface, CardShape};
///
/// let card = A2aAgentCard {
///     name: "a".to_owned(),
///     supported_interfaces: vec![AgentInterface::json_rpc("https://a.example/a2a", "0.3")],
///     ..A2aAgentCard::default()
/// };
/// let v03 = serde_json::to_value(card.in_shape(CardShape::V03)).unwrap();
/// assert_eq!(v03["protocolVersion"], "0.3.0");
/// assert_eq!(v03["url"], "https://a.example/a2a");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct A2aAgentCard {
    /// Name.
    pub name: String,
    /// Description for humans.
    pub description: String,
    /// Where and how the agent is called, in order of preference.
    pub supported_interfaces: Vec<AgentInterface>,
    /// The organization that runs the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<AgentProvider>,
    /// Version of the agent.
    pub version: String,
    /// URL of the documentation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documentation_url: Option<String>,
    /// Supported features.
    pub capabilities: AgentCapabilities,
    /// Authentication schemes by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub security_schemes: BTreeMap<String, SecurityScheme>,
    /// Alternatives; a caller satisfies one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<SecurityRequirement>,
    /// Media types that every skill accepts.
    pub default_input_modes: Vec<String>,
    /// Media types that every skill produces.
    pub default_output_modes: Vec<String>,
    /// Skills.
    pub skills: Vec<AgentSkill>,
    /// Signatures of the members of 1.0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub signatures: Vec<AgentCardSignature>,
    /// URL of an icon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon_url: Option<String>,
}

/// An address of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInterface {
    /// URL.
    pub url: String,
    /// `JSONRPC`, `HTTP+JSON` or `GRPC`.
    pub protocol_binding: String,
    /// Version of A2A.
    pub protocol_version: String,
    /// Id of the agent, to be sent with every request.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tenant: String,
}

impl AgentInterface {
    /// Name of the JSON-RPC binding.
    pub const JSON_RPC: &'static str = "JSONRPC";
    /// Name of the REST binding.
    pub const HTTP_JSON: &'static str = "HTTP+JSON";

    /// An interface that speaks JSON-RPC.
    pub fn json_rpc(url: impl Into<String>, version: impl Into<String>) -> Self {
        Self::new(url, Self::JSON_RPC, version)
    }

    /// An interface that speaks REST.
    pub fn http_json(url: impl Into<String>, version: impl Into<String>) -> Self {
        Self::new(url, Self::HTTP_JSON, version)
    }

    fn new(url: impl Into<String>, binding: &str, version: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            protocol_binding: binding.to_owned(),
            protocol_version: version.into(),
            tenant: String::new(),
        }
    }
}

/// The organization that runs an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AgentProvider {
    /// Name.
    pub organization: String,
    /// Website.
    pub url: String,
}

/// Features that an agent supports. Absent and false mean the same, but differ in a signature.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCapabilities {
    /// Streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streaming: Option<bool>,
    /// Push notifications.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub push_notifications: Option<bool>,
    /// Supported extensions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<AgentExtension>,
    /// A card for authenticated callers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extended_agent_card: Option<bool>,
}

/// An extension of the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AgentExtension {
    /// URI.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uri: String,
    /// Description of its use.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The client must request it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Its parameters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Metadata>,
}

/// A skill of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSkill {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Description for humans and models.
    pub description: String,
    /// Keywords.
    pub tags: Vec<String>,
    /// Example prompts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub examples: Vec<String>,
    /// Accepted media types, instead of the defaults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input_modes: Vec<String>,
    /// Produced media types, instead of the defaults.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub output_modes: Vec<String>,
    /// Alternatives; a caller satisfies one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub security_requirements: Vec<SecurityRequirement>,
}

/// A signature of a card: a JWS with a detached payload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AgentCardSignature {
    /// The protected header as base64url.
    pub protected: String,
    /// The signature as base64url.
    pub signature: String,
    /// The unprotected header. Never trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<Metadata>,
}

impl A2aAgentCard {
    /// The card in a shape, ready for a serializer. A hybrid has the members of the card that
    /// [`readable_in_v03`](Self::readable_in_v03) returns, so it needs the signatures of that card.
    pub fn in_shape(&self, shape: CardShape) -> impl Serialize + '_ {
        ShapedCard { card: self, shape }
    }

    /// The card without what 0.3 cannot read: schemes with a device code flow, and requirements that name
    /// them.
    #[must_use]
    pub fn readable_in_v03(&self) -> Self {
        let mut card = self.clone();
        card.security_schemes
            .retain(|_, scheme| scheme.is_readable_in_v03());
        let is_readable = |requirement: &SecurityRequirement| {
            let mut names = requirement.0.keys();
            names.all(|name| {
                card.security_schemes.contains_key(name)
                    || !self.security_schemes.contains_key(name)
            })
        };
        card.security_requirements.retain(is_readable);
        for skill in &mut card.skills {
            skill.security_requirements.retain(is_readable);
        }
        card
    }
}

struct ShapedCard<'a> {
    card: &'a A2aAgentCard,
    shape: CardShape,
}

impl Serialize for ShapedCard<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.shape {
            CardShape::V1 => self.card.serialize(serializer),
            CardShape::V03 | CardShape::Hybrid => {
                let card = self.card.readable_in_v03();
                CardV03::new(&card, self.shape).serialize(serializer)
            }
        }
    }
}

/// Reads any shape: the members of 1.0 if there is a list of interfaces, else those of 0.3. Written in the
/// shape of the format's version.
impl WireObject for A2aAgentCard {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        let mut card = Self {
            name: object.text("name")?,
            description: object.text("description")?,
            supported_interfaces: object.list("supportedInterfaces")?,
            provider: object.optional("provider")?,
            version: object.text("version")?,
            documentation_url: present_text(&object, "documentationUrl")?,
            capabilities: object.optional("capabilities")?.unwrap_or_default(),
            security_schemes: security::read_schemes(&object)?,
            security_requirements: security::read_requirements(&object)?,
            default_input_modes: object.texts("defaultInputModes")?,
            default_output_modes: object.texts("defaultOutputModes")?,
            skills: object.list("skills")?,
            signatures: object.list("signatures")?,
            icon_url: present_text(&object, "iconUrl")?,
        };
        if card.supported_interfaces.is_empty() {
            v03::read_members(&object, &mut card)?;
        }
        Ok(card)
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let shape = match format {
            WireFormat::V1 => CardShape::V1,
            WireFormat::V03 | WireFormat::RestV03 => CardShape::V03,
        };
        self.in_shape(shape).serialize(serializer)
    }
}

/// The text of an optional field of the proto, which differs from absent even if it is empty.
fn present_text(object: &ObjectReader<'_, '_>, name: &str) -> Result<Option<String>, InvalidField> {
    object.field(name)?.map(|field| field.text()).transpose()
}

/// Implements [`WireObject`] for objects that are alike in every shape, and so are written by their derived
/// serializer.
macro_rules! read_alike {
    ($type:ident, |$object:ident| $read:expr) => {
        impl WireObject for $type {
            fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
                let $object = field.object()?;
                Ok($read)
            }

            fn write<S: Serializer>(
                &self,
                _: WireFormat,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                self.serialize(serializer)
            }
        }
    };
}
pub(in crate::a2a) use read_alike;

read_alike!(AgentInterface, |object| Self {
    url: object.text("url")?,
    protocol_binding: object.text("protocolBinding")?,
    protocol_version: object.text("protocolVersion")?,
    tenant: object.text("tenant")?,
});
read_alike!(AgentProvider, |object| Self {
    organization: object.text("organization")?,
    url: object.text("url")?,
});
read_alike!(AgentCapabilities, |object| Self {
    streaming: object.boolean("streaming")?,
    push_notifications: object.boolean("pushNotifications")?,
    extensions: object.list("extensions")?,
    extended_agent_card: object.boolean("extendedAgentCard")?,
});
read_alike!(AgentExtension, |object| Self {
    uri: object.text("uri")?,
    description: object.text("description")?,
    required: object.boolean("required")?.unwrap_or(false),
    params: object.metadata("params")?,
});
read_alike!(AgentSkill, |object| Self {
    id: object.text("id")?,
    name: object.text("name")?,
    description: object.text("description")?,
    tags: object.texts("tags")?,
    examples: object.texts("examples")?,
    input_modes: object.texts("inputModes")?,
    output_modes: object.texts("outputModes")?,
    security_requirements: security::read_requirements(&object)?,
});
read_alike!(AgentCardSignature, |object| Self {
    protected: object.text("protected")?,
    signature: object.text("signature")?,
    header: object.metadata("header")?,
});
