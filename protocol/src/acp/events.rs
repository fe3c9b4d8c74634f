//! Notifications sent by agents and servers: params of `task.notification`, `stream.chunk` and the
//! Interzone extensions.

use super::objects::StreamStatus;
use super::wire;
use crate::vocab::{Message, Timestamp, VerbatimJson};
use serde::{Deserialize, Serialize};

/// Notifications sent only to watchers. Interzone extensions: ACP has none for these.
pub mod extension_methods {
    /// Text was appended to the agent's answer: [`TaskTextParams`](super::TaskTextParams).
    pub const TASK_TEXT: &str = "interzone.task.text";
    /// The agent reports its current activity: [`TaskStatusParams`](super::TaskStatusParams).
    pub const TASK_STATUS: &str = "interzone.task.status";
    /// The stream changed state: [`StreamStateParams`](super::StreamStateParams).
    pub const STREAM_STATE: &str = "interzone.stream.state";
}

/// Kind of a task event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TaskEvent {
    /// The status of the task changed.
    StatusChange,
    /// A message was added.
    NewMessage,
    /// An artifact was created or extended.
    NewArtifact,
    /// The task was completed.
    Completed,
    /// The task failed.
    Failed,
}

impl TaskEvent {
    /// Events that a subscription gets if it names none.
    pub const DEFAULT: [Self; 3] = [Self::StatusChange, Self::Completed, Self::Failed];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::StatusChange => "STATUS_CHANGE",
            Self::NewMessage => "NEW_MESSAGE",
            Self::NewArtifact => "NEW_ARTIFACT",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
        }
    }
}

/// Params of `task.notification`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskNotification {
    /// Id of the task.
    pub task_id: String,
    /// Kind of event.
    pub event: TaskEvent,
    /// Time of the event.
    pub timestamp: Timestamp,
    /// The task, message or artifact concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<VerbatimJson>,
}

/// Params of `stream.chunk`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamChunk {
    /// Id of the stream.
    pub stream_id: String,
    /// The message, or a piece of it.
    #[serde(with = "wire::message")]
    pub chunk: Message,
    /// Sequence number in the stream, from 1.
    pub sequence: u64,
    /// True if it completes the message. It does not end the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_last: Option<bool>,
}

/// Params of `interzone.task.text`: text was appended to the agent's answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskTextParams {
    /// Id of the task.
    pub task_id: String,
    /// Number of the agent's run; each run starts its answer from the beginning.
    pub run: u64,
    /// Length of the answer in bytes before the delta.
    pub offset: u64,
    /// The appended text.
    pub delta: String,
}

/// Params of `interzone.task.status`: the agent's current activity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatusParams {
    /// Id of the task.
    pub task_id: String,
    /// Progress text of the agent.
    pub text: String,
}

/// Params of `interzone.stream.state`: a stream changed state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamStateParams {
    /// Id of the stream.
    pub stream_id: String,
    /// The new state.
    pub status: StreamStatus,
    /// Reason for the change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
