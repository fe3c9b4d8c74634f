//! A question from Slack: asker, location, text and files.

use crate::slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};
use interzone_protocol::vocab::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// A question asked in Slack.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// UUID derived from the workspace, the channel and the message: the call id, and the key of all records of the
    /// question.
    pub id: String,
    /// Slack's event id; also the correlation id in logs.
    pub event_id: String,
    /// Workspace in which the app is installed.
    pub team: TeamId,
    /// Enterprise organisation in which the app is installed, if installed org-wide.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enterprise: Option<TeamId>,
    /// The asker's workspace according to the event; differs from `team` in channels shared by two companies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_team: Option<TeamId>,
    /// Channel.
    pub channel: ChannelId,
    /// Kind of conversation.
    #[serde(rename = "place")]
    pub conversation_kind: ConversationKind,
    /// Asker.
    pub user: UserId,
    /// Message.
    pub ts: Ts,
    /// Thread to answer in: the message's thread, or the one that it starts.
    pub thread: Ts,
    /// True if the thread existed before the message.
    pub in_thread: bool,
    /// Text without the mention of the bot.
    pub text: String,
    /// Number of characters before truncation, if the question is too long; then `text` is only its start.
    #[serde(default, rename = "too_long", skip_serializing_if = "Option::is_none")]
    pub original_chars: Option<usize>,
    /// Messages forwarded with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forwarded: Vec<ForwardedMessage>,
    /// Attached files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<SharedFile>,
    /// Time at which the event was received.
    pub asked_at: Timestamp,
}

/// Maximum characters stored of a question that is too long: enough to detect its language.
const MAX_EXCERPT_CHARS: usize = 200;

impl Question {
    /// Truncates a question with more characters than allowed. It will be refused, so only its start is stored.
    pub fn truncate(&mut self, limit: usize) {
        // Bytes are counted faster, and there are never fewer of them than characters.
        if self.text.len() <= limit {
            return;
        }
        let length = self.text.chars().count();
        if length > limit {
            self.original_chars = Some(length);
            self.text = self
                .text
                .chars()
                .take(MAX_EXCERPT_CHARS.min(limit))
                .collect();
            self.forwarded = Vec::new();
            self.files = Vec::new();
        }
    }

    /// Returns the asker's workspace, as far as the event names it.
    pub fn asker_team(&self) -> &TeamId {
        self.user_team.as_ref().unwrap_or(&self.team)
    }

    /// Derives the id of a question from its message.
    pub fn derive_id(team: &TeamId, channel: &ChannelId, ts: &Ts) -> String {
        let hash = Sha256::new()
            .chain_update(format!("{team}/{channel}/{ts}"))
            .finalize();
        let mut bytes = [0; 16];
        bytes
            .iter_mut()
            .zip(hash)
            .for_each(|(place, byte)| *place = byte);
        uuid::Builder::from_custom_bytes(bytes)
            .into_uuid()
            .to_string()
    }

    /// Returns the key of the thread, unique across workspaces.
    pub fn thread_key(&self) -> String {
        thread_key(&self.team, &self.channel, &self.thread)
    }
}

/// Returns the key of a thread, unique across workspaces.
pub fn thread_key(team: &TeamId, channel: &ChannelId, thread: &Ts) -> String {
    format!("{team}/{channel}/{thread}")
}

/// Omits the text and the file names.
impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("id", &self.id)
            .field("event_id", &self.event_id)
            .field("files", &self.files.len())
            .finish_non_exhaustive()
    }
}

/// Kind of a Slack conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConversationKind {
    /// Direct message.
    Im,
    /// Group direct message.
    Mpim,
    /// A private channel.
    Group,
    /// A public channel.
    Channel,
}

/// A message forwarded with a question.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardedMessage {
    /// Author's display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Message text.
    pub text: String,
}

impl fmt::Debug for ForwardedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForwardedMessage").finish_non_exhaustive()
    }
}

/// A file attached to a question, as described by the event.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedFile {
    /// Slack's file id.
    pub id: FileId,
    /// File name. Untrusted: never use it as a path.
    pub name: String,
    /// Declared media type.
    pub mimetype: String,
    /// Declared size in bytes.
    pub size: u64,
    /// Download URL; requires a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// True if `files.info` must be called first, as for files of another company.
    #[serde(default)]
    pub check_info: bool,
}

impl fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedFile")
            .field("id", &self.id)
            .field("mimetype", &self.mimetype)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncate_stores_only_the_start_of_a_long_question() {
        let mut question = crate::reply::tests::question();
        question.forwarded.push(ForwardedMessage {
            author: None,
            text: "x".repeat(4_000),
        });
        let original = question.clone();
        question.text = "あ".repeat(4_000);
        question.truncate(4_000);
        assert_eq!(
            question.text.chars().count(),
            4_000,
            "it is just short enough"
        );
        assert_eq!(
            (question.original_chars, question.forwarded.len()),
            (None, 1)
        );
        question.text = "あ".repeat(300_000);
        question.truncate(4_000);
        assert_eq!(question.original_chars, Some(300_000));
        assert_eq!(question.text, "あ".repeat(200));
        assert!(question.forwarded.is_empty() && question.files.is_empty());
        assert!(serde_json::to_string(&question).unwrap().len() < 2_000);
        assert_eq!((question.id, question.ts), (original.id, original.ts));
    }

    #[test]
    fn question_id_is_derived_from_the_message() {
        let (team, channel) = (TeamId::new("T1").unwrap(), ChannelId::new("C1").unwrap());
        let id = |ts: &str| Question::derive_id(&team, &channel, &Ts::new(ts).unwrap());
        assert_eq!(id("1.5"), id("1.5"));
        assert_ne!(id("1.5"), id("1.50"));
        assert_eq!(id("1.5").len(), 36);
        assert!(uuid::Uuid::try_parse(&id("1.5")).is_ok());
    }
}
