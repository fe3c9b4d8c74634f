//! What is told while an `execute_task` goes on, on the call itself.

use super::results::ZoneArtifact;
use serde::{Deserialize, Serialize};

/// The method of the notification.
pub const PROGRESS: &str = "task.progress";

/// Params of `task.progress`: one of status, text and artifact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskProgress {
    /// Which task.
    pub task_id: String,
    /// Counts the notifications of this call from one.
    pub sequence: u64,
    /// What the agent is doing, in its words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// What was added to the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_delta: Option<String>,
    /// A file that was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ZoneArtifact>,
}
