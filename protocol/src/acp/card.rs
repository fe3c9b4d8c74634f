//! The agent card of ACP, which tells who an agent is before anybody may ask it anything.

use serde::{Deserialize, Serialize};

/// What `/.well-known/agent.json` holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCard {
    /// Its name, 1 to 100 characters.
    pub name: String,
    /// What it does, 1 to 500 characters.
    pub description: String,
    /// Its version: three numbers.
    pub version: String,
    /// Where it is called: https.
    pub url: String,
    /// Who runs it.
    pub provider: Provider,
    /// What it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// How callers prove who they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<Authentication>,
    /// What it is good at; never an empty list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<CardSkill>>,
    /// How it is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<CardMetadata>,
}

/// Who runs an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    /// Their name.
    pub organization: String,
    /// Their mail address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contact: Option<String>,
    /// Their page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website: Option<String>,
}

/// What an agent can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Streams.
    pub streaming: bool,
    /// Webhooks.
    pub push_notifications: bool,
    /// Files as input.
    pub file_upload: bool,
    /// More than text.
    pub multimodal: bool,
}

/// How callers prove who they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Authentication {
    /// `oauth2`, `bearer` or `apikey`.
    pub schemes: Vec<String>,
    /// The scopes there are.
    pub scopes: Vec<String>,
}

/// What an agent is good at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CardSkill {
    /// Lower-case letters, digits and hyphens.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// What it is, for people.
    pub description: String,
    /// What it takes.
    pub input_modes: Vec<String>,
    /// What it gives.
    pub output_modes: Vec<String>,
}

/// How an agent is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CardMetadata {
    /// Words to find it by.
    pub tags: Vec<String>,
}
