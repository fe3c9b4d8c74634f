//! What each method takes.

use crate::vocab::Timestamp;
use serde::{Deserialize, Serialize};
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
    /// The channel that it was asked in.
    pub channel: String,
    /// What was asked; blank only beside attachments.
    pub text: String,
    /// What stands for the right to post, or that right itself.
    pub bot_token: BotToken,
    /// By which name the request is found again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The thread that it was asked in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_ts: Option<String>,
    /// The workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team_id: Option<String>,
    /// Who asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The files that go with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachments: Option<Vec<Attachment>>,
    /// The task that asked back, and that this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// What was said in the thread before, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Vec<ContextMessage>>,
    /// How often it was passed on from agent to agent, so that it does not go on for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<u32>,
}

impl ExecuteTaskParams {
    /// Params with nothing but what must be there.
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

/// A token of Slack, or a capability in its place. It goes over the wire and nowhere else: it cannot be
/// printed.
///
/// ```
/// use interzone_protocol::zone::BotToken;
///
/// assert_eq!(format!("{:?}", BotToken::from("xoxb-1")), "[hidden]");
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BotToken(String);

impl BotToken {
    /// Whether there is nothing in it.
    pub fn is_blank(&self) -> bool {
        self.0.trim().is_empty()
    }
}

impl From<String> for BotToken {
    fn from(token: String) -> Self {
        Self(token)
    }
}

impl From<&str> for BotToken {
    fn from(token: &str) -> Self {
        Self(token.to_owned())
    }
}

impl fmt::Debug for BotToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// A file that goes with a request: its bytes, or where they can be fetched.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its id, as the sender counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its name, a label from outside: never use it as a path.
    pub name: String,
    /// Its media type, as declared.
    pub mimetype: String,
    /// Its size in bytes, as declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Its bytes in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_base64: Option<String>,
    /// Where it can be fetched without further proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presigned_url: Option<String>,
}

/// Neither the bytes nor the address, which opens the file to whoever has it.
impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attachment")
            .field("mimetype", &self.mimetype)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

/// Something that was said before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextMessage {
    /// Whether a person or the agent said it.
    pub role: ContextRole,
    /// Who said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What was said.
    pub text: String,
}

/// Who said something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ContextRole {
    /// A person.
    User,
    /// The agent.
    #[serde(alias = "agent")]
    Assistant,
}

/// Params of `get_task_result` and `cancel_task`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskIdParams {
    /// Which task.
    pub task_id: String,
}

/// Params of `interzone.feedback`. What somebody says takes the place of what the same user said of the same
/// task before, unless that is newer.
///
/// ```
/// use interzone_protocol::zone::{FeedbackParams, Verdict};
///
/// let params: FeedbackParams =
///     serde_json::from_str(r#"{"task_id":"t1","user_id":"U1","verdict":"down","comment":null}"#)?;
/// assert_eq!(params.verdict, Verdict::Down);
/// assert_eq!(params.comment, None);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedbackParams {
    /// Which task.
    pub task_id: String,
    /// Who says so.
    pub user_id: String,
    /// Whether it was of use.
    pub verdict: Verdict,
    /// What else they say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// When they said it; without it, now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_at: Option<Timestamp>,
}

/// What somebody thinks of what came of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It was of use.
    Up,
    /// It was not.
    Down,
}
