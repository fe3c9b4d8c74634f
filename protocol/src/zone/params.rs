//! Params of the zone methods.

use crate::vocab::{Secret, Timestamp};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// Params of `execute_task`.
///
/// ```
/// use interzone_protocol::zone::ExecuteTaskParams;
///
/// let params = ExecuteTaskParams::new("C1", "hello", "capability-1");
/// assert_eq!(
///     serde_json::to_string(&params)?,
///     r#"{"channel":"C1","text":"hello","bot_token":"capability-1"}"#
/// );
/// assert!(!format!("{params:?}").contains("capability-1"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecuteTaskParams {
    /// The Slack channel of the request.
    pub channel: String,
    /// The request's text; blank only together with attachments.
    pub text: String,
    /// Slack bot token, or a capability in its place.
    pub bot_token: BotToken,
    /// Id under which the request is logged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The Slack thread of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_ts: Option<String>,
    /// The Slack workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_id: Option<String>,
    /// The Slack user who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// Attached files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<Attachment>>,
    /// The task whose question this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Earlier messages of the thread, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Vec<ContextMessage>>,
    /// Number of agents that forwarded it, to stop forwarding loops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
}

impl ExecuteTaskParams {
    /// Creates params with the required fields only.
    pub fn new(
        channel: impl Into<String>,
        text: impl Into<String>,
        bot_token: impl Into<BotToken>,
    ) -> Self {
        Self {
            channel: channel.into(),
            text: text.into(),
            bot_token: bot_token.into(),
            correlation_id: None,
            thread_ts: None,
            team_id: None,
            user_id: None,
            attachments: None,
            task_id: None,
            context: None,
            hops: None,
        }
    }
}

/// A Slack token, or a capability in its place. Only serialization exposes it.
///
/// ```
/// use interzone_protocol::zone::BotToken;
///
/// assert!(!format!("{:?}", BotToken::from("xoxb-1")).contains("xoxb-1"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct BotToken(Secret);

impl BotToken {
    /// Returns true if the token is blank.
    pub fn is_blank(&self) -> bool {
        self.0.expose().trim().is_empty()
    }
}

impl From<String> for BotToken {
    fn from(token: String) -> Self {
        Self(token.into())
    }
}

impl From<&str> for BotToken {
    fn from(token: &str) -> Self {
        Self(token.into())
    }
}

impl Serialize for BotToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.expose())
    }
}

/// A file attached to a request: inline bytes or a download URL.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Id given by the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// File name, an untrusted label: never use it as a path.
    pub name: String,
    /// Declared media type.
    pub mimetype: String,
    /// Declared size in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Content in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_base64: Option<String>,
    /// Download URL that needs no further authentication.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presigned_url: Option<String>,
}

/// Omits the content and the URL, which grants access to the file.
impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment")
            .field("mimetype", &self.mimetype)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// An earlier message of the thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextMessage {
    /// Author's role: a user or the agent.
    pub role: ContextRole,
    /// The Slack user who wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Text of the message.
    pub text: String,
}

/// Author of a context message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContextRole {
    /// A human user.
    User,
    /// The agent.
    #[serde(alias = "agent")]
    Assistant,
}

/// Params of `get_task_result` and `cancel_task`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskIdParams {
    /// Id of the task.
    pub task_id: String,
}

/// Params of `interzone.feedback`. Replaces earlier feedback of the same user on the same task, unless
/// that is newer.
///
/// ```
/// use interzone_protocol::zone::{FeedbackParams, FeedbackVerdict};
///
/// let params: FeedbackParams =
///     serde_json::from_str(r#"{"task_id":"t1","user_id":"U1","verdict":"down","comment":null}"#)?;
/// assert_eq!(params.verdict, FeedbackVerdict::Down);
/// assert_eq!(params.comment, None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedbackParams {
    /// Id of the task.
    pub task_id: String,
    /// The user who gives the feedback.
    pub user_id: String,
    /// Thumbs up or down.
    pub verdict: FeedbackVerdict,
    /// Free-text comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// Time of the feedback; defaults to now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_at: Option<Timestamp>,
}

/// A user's rating of a task's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FeedbackVerdict {
    /// Helpful.
    Up,
    /// Not helpful.
    Down,
}
