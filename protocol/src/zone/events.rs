//! Progress notifications sent on an `execute_task` call.

use super::results::ZoneArtifact;
use serde::{Deserialize, Serialize};

/// Method name of the progress notification.
pub const PROGRESS_METHOD: &str = "task.progress";

/// Params of `task.progress`: exactly one of status, text delta and artifact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskProgress {
    /// Id of the task.
    pub task_id: String,
    /// Number of the notification within this call, from 1.
    pub sequence: u64,
    /// Current activity in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Text appended to the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text_delta: Option<String>,
    /// A generated file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<ZoneArtifact>,
}
