//! ACP agent card: public description of an agent.

use crate::vocab::Provider;
use serde::{Deserialize, Serialize};

/// Content of `/.well-known/agent.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    /// Name, 1 to 100 characters.
    pub name: String,
    /// Description, 1 to 500 characters.
    pub description: String,
    /// Version: three numbers.
    pub version: String,
    /// Endpoint URL (https).
    pub url: String,
    /// The organization that runs the agent.
    pub provider: Provider,
    /// Supported features.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// Supported authentication schemes and scopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// Skills; never an empty list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<CardSkill>>,
    /// Metadata for discovery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<CardMetadata>,
}

/// Features that an agent supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Streams.
    pub streaming: bool,
    /// Webhooks.
    pub push_notifications: bool,
    /// Files as input.
    pub file_upload: bool,
    /// Content other than text.
    pub multimodal: bool,
}

/// Authentication schemes and scopes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authentication {
    /// `oauth2`, `bearer` or `apikey`.
    pub schemes: Vec<String>,
    /// The defined scopes.
    pub scopes: Vec<String>,
}

/// A skill of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CardSkill {
    /// Lower-case letters, digits and hyphens.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Description for humans.
    pub description: String,
    /// Accepted media.
    pub input_modes: Vec<String>,
    /// Produced media.
    pub output_modes: Vec<String>,
}

/// Metadata for discovery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CardMetadata {
    /// Search tags.
    pub tags: Vec<String>,
}
