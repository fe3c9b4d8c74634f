//! Results of the zone methods. Failures are JSON-RPC errors, or the `error` field of
//! `get_task_result`.

use crate::vocab::VerbatimJson;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Completion status of `execute_task`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecuteStatus {
    /// Completed, or waiting for an answer: see [`ExecuteResult::state`].
    Success,
    /// Still running; poll `get_task_result` for the result.
    Accepted,
}

/// The result of `execute_task`, and the `result` within that of `get_task_result`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecuteResult {
    /// Completion status.
    pub status: ExecuteStatus,
    /// `input_required` or `auth_required` if the text is a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Id of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Text of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_text: Option<String>,
    /// The request's correlation id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The request's channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The request's thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_ts: Option<String>,
    /// The text as `execution_response`, then each file as a `generated_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<ZoneArtifact>>,
    /// The first file again, for clients that read only this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_artifact: Option<ZoneArtifact>,
    /// Attachments that were skipped, with the reasons; the text mentions them too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Vec<SkippedAttachment>>,
}

impl ExecuteResult {
    /// Creates a result with the status only.
    pub const fn new(status: ExecuteStatus) -> Self {
        Self {
            status,
            state: None,
            task_id: None,
            response_text: None,
            correlation_id: None,
            channel: None,
            thread_ts: None,
            artifacts: None,
            file_artifact: None,
            skipped: None,
        }
    }
}

/// A text or file of the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneArtifact {
    /// Id, a UUID.
    pub artifact_id: String,
    /// `execution_response` or `generated_file`.
    pub name: String,
    /// Exactly one part.
    pub parts: Vec<ArtifactPart>,
}

impl ZoneArtifact {
    /// Name of the text artifact.
    pub const RESPONSE_NAME: &'static str = "execution_response";
    /// Name of file artifacts.
    pub const FILE_NAME: &'static str = "generated_file";
}

/// Content of an artifact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
pub enum ArtifactPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A file.
    File {
        /// Content in base64, shared by all references to the file.
        content_base64: SharedStr,
        /// File name.
        file_name: String,
        /// Media type.
        mime_type: String,
    },
}

/// Long text that is shared instead of copied.
///
/// ```
/// use interzone_protocol::zone::SharedStr;
///
/// let text = SharedStr::from("aGk=");
/// assert_eq!(&*text.clone(), "aGk=");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SharedStr(Arc<str>);

impl From<&str> for SharedStr {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for SharedStr {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl Deref for SharedStr {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SharedStr {
    /// Shows the size only: file contents must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes of text>", self.0.len())
    }
}

impl Serialize for SharedStr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SharedStr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// An attachment that was skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkippedAttachment {
    /// File name.
    pub name: String,
    /// The reason, a name of [`ErrorReason`](super::ErrorReason).
    pub error_code: String,
}

/// State of a task in `get_task_result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskResultStatus {
    /// Still running.
    Running,
    /// Finished; `result` is set.
    Completed,
    /// Failed; `error` is set.
    Failed,
}

/// The result of `get_task_result`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// State of the task.
    pub status: TaskResultStatus,
    /// Id of the task.
    pub task_id: String,
    /// Current activity in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// The result that `execute_task` would have returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ExecuteResult>,
    /// The error that `execute_task` would have returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ErrorObject>,
}

/// Outcome of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskOutcome {
    /// Still running, with its current activity.
    Running(Option<String>),
    /// Completed.
    Done(Box<ExecuteResult>),
    /// Failed.
    Failed(ErrorObject),
}

/// JSON-RPC error object inside the result of `get_task_result`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// Error code.
    pub code: i64,
    /// Error message.
    pub message: String,
    /// Details; `error_code` is always present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<VerbatimJson>,
}

/// The result of `cancel_task`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelResult {
    /// `canceled`.
    pub status: String,
    /// Id of the task.
    pub task_id: String,
}

/// The result of `interzone.feedback`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedbackResult {
    /// `kept`.
    pub status: String,
    /// Id of the task.
    pub task_id: String,
}
