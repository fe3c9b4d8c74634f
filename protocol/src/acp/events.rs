//! What agents tell by themselves: params of `task.notification` and `stream.chunk`.

use super::objects::StreamStatus;
use crate::vocab::{Json, Message, Timestamp};
use serde::{Deserialize, Serialize};

/// What only those hear who watch: ACP has no words for it, so these are ours.
pub mod watched {
    /// The agent's answer grew: [`TaskText`](super::TaskText).
    pub const TASK_TEXT: &str = "interzone.task.text";
    /// The agent says what it is doing: [`TaskLine`](super::TaskLine).
    pub const TASK_STATUS: &str = "interzone.task.status";
    /// The stream moved to another state: [`StreamMove`](super::StreamMove).
    pub const STREAM_STATE: &str = "interzone.stream.state";
}

/// What may happen to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TaskEvent {
    /// Its status changed.
    StatusChange,
    /// A message was added.
    NewMessage,
    /// An artifact was made, or more of it.
    NewArtifact,
    /// It was completed.
    Completed,
    /// It failed.
    Failed,
}

impl TaskEvent {
    /// What a subscription gets that does not say.
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
    /// Which task.
    pub task_id: String,
    /// What happened.
    pub event: TaskEvent,
    /// When.
    pub timestamp: Timestamp,
    /// The task, message or artifact that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

/// Params of `stream.chunk`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamChunk {
    /// Which stream.
    pub stream_id: String,
    /// What was said, or a piece of it.
    pub chunk: Message,
    /// Its number in the stream, from one.
    pub sequence: u64,
    /// Whether it completes what was said. It does not end the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_last: Option<bool>,
}

/// Params of `interzone.task.text`: the agent's answer grew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskText {
    /// Which task.
    pub task_id: String,
    /// Which run of the agent it belongs to: each begins its answer anew.
    pub run: u64,
    /// How many bytes of the answer there were before.
    pub offset: u64,
    /// What was added.
    pub delta: String,
}

/// Params of `interzone.task.status`: what the agent says that it is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskLine {
    /// Which task.
    pub task_id: String,
    /// In the agent's words.
    pub text: String,
}

/// Params of `interzone.stream.state`: a stream moved to another state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamMove {
    /// Which stream.
    pub stream_id: String,
    /// Where it stands now.
    pub status: StreamStatus,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
