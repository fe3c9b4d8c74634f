//! What each method answers. Failures are not among it: they are JSON-RPC errors, or in
//! `get_task_result` the error that the task ended with.

use crate::vocab::Json;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// Whether what was asked is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecuteStatus {
    /// It is done, or waits for an answer: see [`ExecuteResult::state`].
    Success,
    /// It goes on; `get_task_result` tells what comes of it.
    Accepted,
}

/// The result of `execute_task`, and the `result` within that of `get_task_result`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecuteResult {
    /// Whether it is done.
    pub status: ExecuteStatus,
    /// `input_required` or `auth_required` if the text is a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The task that does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_text: Option<String>,
    /// The name that the request is found by, as it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The channel, as it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The thread, as it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_ts: Option<String>,
    /// The text as `execution_response`, then the files, each a `generated_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Vec<ZoneArtifact>>,
    /// The first file once more, for those who know no other place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_artifact: Option<ZoneArtifact>,
    /// What of the attachments was left out, and why; the text says it too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Vec<Skipped>>,
}

impl ExecuteResult {
    /// A result that says nothing but where the task stands.
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

/// A text or a file among the results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneArtifact {
    /// Its id, a UUID.
    pub artifact_id: String,
    /// `execution_response` or `generated_file`.
    pub name: String,
    /// One part.
    pub parts: Vec<ArtifactPart>,
}

impl ZoneArtifact {
    /// The name of the text.
    pub const RESPONSE: &'static str = "execution_response";
    /// The name of a file.
    pub const FILE: &'static str = "generated_file";
}

/// What an artifact holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    tag = "kind",
    rename_all = "lowercase",
    rename_all_fields = "camelCase"
)]
pub enum ArtifactPart {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A file.
    File {
        /// Its bytes in base64, shared by all who mention the file.
        content_base64: SharedText,
        /// Its name.
        file_name: String,
        /// Its media type.
        mime_type: String,
    },
}

/// A long text that several mention and nobody copies.
///
/// ```
/// use interzone_protocol::zone::SharedText;
///
/// let text = SharedText::from("aGk=");
/// assert_eq!(&*text.clone(), "aGk=");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct SharedText(Arc<str>);

impl From<&str> for SharedText {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for SharedText {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl Deref for SharedText {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SharedText {
    /// The size only: files do not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes of text>", self.0.len())
    }
}

impl Serialize for SharedText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SharedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

/// An attachment that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Its name.
    pub name: String,
    /// Why, as [`ErrorWord`](super::ErrorWord) spells it.
    pub error_code: String,
}

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskResultStatus {
    /// It goes on.
    Running,
    /// There is a result.
    Completed,
    /// There is an error.
    Failed,
}

/// The result of `get_task_result`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskResult {
    /// Where the task stands.
    pub status: TaskResultStatus,
    /// Which task.
    pub task_id: String,
    /// What it is doing, in its agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
    /// What `execute_task` would have answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ExecuteResult>,
    /// What `execute_task` would have failed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<WireFault>,
}

/// What came of a task.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskOutcome {
    /// It goes on, and this is what it is doing.
    Running(Option<String>),
    /// It is done.
    Done(Box<ExecuteResult>),
    /// It failed.
    Failed(WireFault),
}

/// An error object as `get_task_result` carries it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WireFault {
    /// The code.
    pub code: i64,
    /// In words.
    pub message: String,
    /// What else there is to it; `error_code` is always there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Json>,
}

/// The result of `cancel_task`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelResult {
    /// `canceled`.
    pub status: String,
    /// Which task.
    pub task_id: String,
}

/// The result of `interzone.feedback`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedbackResult {
    /// `kept`.
    pub status: String,
    /// Which task.
    pub task_id: String,
}
