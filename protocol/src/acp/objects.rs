//! The objects that results carry.

use super::events::TaskEvent;
use crate::vocab::{Artifact, Message, Metadata, StreamState, TaskState, Timestamp, list_to};
use interzone_jsonrpc::write_string;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A task's status: a [`TaskState`] under its name in ACP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Status(pub TaskState);

/// A stream's status: a [`StreamState`] under its name in ACP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamStatus(pub StreamState);

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.acp())
    }
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = TaskState::from_acp(&name).map(Self);
        known.ok_or_else(|| de::Error::custom("unknown task status"))
    }
}

impl Serialize for StreamStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl<'de> Deserialize<'de> for StreamStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let known = StreamState::from_name(&name).map(Self);
        known.ok_or_else(|| de::Error::custom("unknown stream status"))
    }
}

impl StreamStatus {
    /// The name in ACP.
    pub const fn name(self) -> &'static str {
        self.0.name()
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskObject {
    /// Its id.
    pub task_id: String,
    /// Where it stands.
    pub status: Status,
    /// When it began.
    pub created_at: Timestamp,
    /// When it last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    /// Who does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_agent: Option<String>,
    /// What was said, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages: Option<Vec<Message>>,
    /// What was made, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<Artifact>>,
    /// What the caller attached, and `priority`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

impl TaskObject {
    /// Writes it as JSON at the end of `out`, as serde would. Most answers are one of these, and for serde
    /// they are many small pieces.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        out.extend_from_slice(b"{\"taskId\":");
        write_string(&self.task_id, out);
        out.extend_from_slice(b",\"status\":\"");
        out.extend_from_slice(self.status.0.acp().as_bytes());
        out.extend_from_slice(b"\",\"createdAt\":");
        self.created_at.write_to(out);
        if let Some(updated_at) = self.updated_at {
            out.extend_from_slice(b",\"updatedAt\":");
            updated_at.write_to(out);
        }
        if let Some(agent) = &self.assigned_agent {
            out.extend_from_slice(b",\"assignedAgent\":");
            write_string(agent, out);
        }
        if let Some(messages) = &self.messages {
            out.extend_from_slice(b",\"messages\":");
            list_to(out, messages, Message::write_to)?;
        }
        if let Some(artifacts) = &self.artifacts {
            out.extend_from_slice(b",\"artifacts\":");
            list_to(out, artifacts, |made, out| serde_json::to_writer(out, made))?;
        }
        if let Some(metadata) = &self.metadata {
            out.extend_from_slice(b",\"metadata\":");
            out.extend_from_slice(metadata.as_str().as_bytes());
        }
        out.push(b'}');
        Ok(())
    }
}

/// A stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamObject {
    /// Its id.
    pub stream_id: String,
    /// Where it stands.
    pub status: StreamStatus,
    /// Who may speak and listen.
    pub participants: Vec<String>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// What the caller attached, and where to attach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// A subscription to a task's events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionObject {
    /// Its id.
    pub subscription_id: String,
    /// Of which task.
    pub task_id: String,
    /// Where the events go.
    pub callback_url: String,
    /// Which events.
    pub events: Vec<TaskEvent>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// Whether events are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
}
