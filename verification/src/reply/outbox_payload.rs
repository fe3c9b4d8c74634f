//! Outbox payloads of Slack actions, and the persisted state of a live reply.

use crate::question::Question;
use crate::slack::ids::{ChannelId, TeamId, Ts, UserId};
use crate::texts::Language;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Outbox channel for Slack posts.
pub const POST_CHANNEL: &str = "slack.post";

/// State of a live reply in Slack.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveReplyState {
    #[serde(rename = "standing")]
    pub(super) posted_as: PostedAs,
    /// The part of the text that Slack has accepted.
    #[serde(default, rename = "said")]
    pub(super) accepted_text: String,
}

impl LiveReplyState {
    /// No message was posted.
    pub fn not_posted() -> Self {
        Self::default()
    }

    /// The state is unknown until the thread is read.
    pub fn unknown() -> Self {
        Self {
            posted_as: PostedAs::Unknown,
            accepted_text: String::new(),
        }
    }
}

/// Omits the text.
impl fmt::Debug for LiveReplyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveReplyState")
            .field("posted_as", &self.posted_as)
            .finish_non_exhaustive()
    }
}

/// The form in which a live reply was posted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "form", rename_all = "snake_case")]
pub(super) enum PostedAs {
    /// No message was posted.
    #[default]
    #[serde(rename = "nothing")]
    NotPosted,
    /// As a streaming message.
    Stream {
        ts: Ts,
        /// True if the message contains exactly the accepted text.
        #[serde(rename = "sure")]
        is_exact: bool,
    },
    /// As a message that is edited.
    Post { ts: Ts },
    /// Unknown until the thread is read.
    Unknown,
}

/// Channel, thread and question that a reply belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ReplyLocation {
    pub(super) team: TeamId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) enterprise: Option<TeamId>,
    pub(super) channel: ChannelId,
    pub(super) thread: Ts,
    /// Timestamp of the message with the question.
    #[serde(rename = "asked")]
    pub(super) question_ts: Ts,
    /// The question id.
    pub(super) question: String,
}

impl ReplyLocation {
    pub(super) fn from_question(question: &Question) -> Self {
        Self {
            team: question.team.clone(),
            enterprise: question.enterprise.clone(),
            channel: question.channel.clone(),
            thread: question.thread.clone(),
            question_ts: question.ts.clone(),
            question: question.id.clone(),
        }
    }

    /// Outbox group; entries of one thread are delivered in order.
    pub(super) fn outbox_group(&self) -> String {
        format!("post/{}/{}/{}", self.team, self.channel, self.thread)
    }

    /// Metadata key of the text message with this index.
    pub(super) fn text_key(&self, index: usize) -> String {
        format!("{}/text/{index}", self.question)
    }
}

/// Final status of a question, shown as a reaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FinalStatus {
    Answered,
    Failed,
    Stopped,
}

/// The action to perform.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum ActionKind {
    /// Posts a text as a new message.
    Post { text: String, feedback: bool },
    /// Replaces the live reply with the final text.
    #[serde(rename = "finish")]
    FinalizeLive {
        text: String,
        feedback: bool,
        #[serde(rename = "left")]
        live_state: LiveReplyState,
    },
    /// Uploads a file.
    File {
        task: String,
        artifact: String,
        name: String,
    },
    /// Replaces the "received" reaction with the final one.
    React { ending: FinalStatus },
    /// Posts a message visible to one user only.
    #[serde(rename = "tell")]
    Ephemeral {
        user: UserId,
        text: String,
        in_thread: bool,
        /// True in a direct message, where a normal message is equally private.
        #[serde(rename = "alone")]
        is_direct_message: bool,
    },
}

/// A Slack action with its location, as stored in the outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SlackAction {
    #[serde(rename = "place")]
    pub(super) location: ReplyLocation,
    pub(super) language: Language,
    #[serde(rename = "act")]
    pub(super) kind: ActionKind,
}
