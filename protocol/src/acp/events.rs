//! What agents tell by themselves: params of `task.notification` and `stream.chunk`.

use crate::vocab::{Json, Message, Timestamp};
use serde::{Deserialize, Serialize};

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
