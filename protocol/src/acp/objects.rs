//! Objects in ACP results.

use super::events::TaskEvent;
use super::wire;
use crate::vocab::{Artifact, Message, Metadata, StreamState, TaskState, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A task's status: a [`TaskState`] under its name in ACP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskStatus(pub TaskState);

/// A stream's status: a [`StreamState`] under its name in ACP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamStatus(pub StreamState);

impl Serialize for TaskStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.acp())
    }
}

impl<'de> Deserialize<'de> for TaskStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let status = TaskState::from_acp(&name).map(Self);
        status.ok_or_else(|| de::Error::custom("unknown task status"))
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
        let status = StreamState::from_name(&name).map(Self);
        status.ok_or_else(|| de::Error::custom("unknown stream status"))
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
    /// Id of the task.
    pub task_id: String,
    /// State of the task.
    pub status: TaskStatus,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub updated_at: Option<Timestamp>,
    /// The assigned agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assigned_agent: Option<String>,
    /// Messages, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "wire::list")]
    pub messages: Option<Vec<Message>>,
    /// Artifacts, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "wire::list")]
    pub artifacts: Option<Vec<Artifact>>,
    /// The caller's metadata, plus `priority`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// A stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamObject {
    /// Id of the stream.
    pub stream_id: String,
    /// State of the stream.
    pub status: StreamStatus,
    /// Principals that may send and watch.
    pub participants: Vec<String>,
    /// Start time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// End time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<Timestamp>,
    /// The caller's metadata, plus the watch URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// A webhook subscription to a task's events.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionObject {
    /// Id of the subscription.
    pub subscription_id: String,
    /// Id of the task.
    pub task_id: String,
    /// Webhook URL.
    pub callback_url: String,
    /// Subscribed events.
    pub events: Vec<TaskEvent>,
    /// Creation time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Timestamp>,
    /// True while events are sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<bool>,
}
