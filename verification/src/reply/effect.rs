//! One thing to do in Slack, as it waits in the outbox, and what a live reply has left there. How it is
//! done is not known here.

use crate::question::Question;
use crate::slack::ids::{ChannelId, TeamId, Ts, UserId};
use crate::texts::Language;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The channel of the outbox by which replies leave.
pub const POSTS: &str = "slack.post";

/// What of a live reply stands in Slack.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    pub(super) standing: Standing,
    /// As much of the text as Slack has taken.
    #[serde(default)]
    pub(super) said: String,
}

impl Left {
    /// Nothing stands there for certain.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Nobody can tell without looking.
    pub fn unknown() -> Self {
        Self {
            standing: Standing::Unknown,
            said: String::new(),
        }
    }
}

/// Not what was said.
impl fmt::Debug for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Left")
            .field("standing", &self.standing)
            .finish_non_exhaustive()
    }
}

/// In which form a live reply stands in Slack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "form", rename_all = "snake_case")]
pub(super) enum Standing {
    /// Not at all.
    #[default]
    Nothing,
    /// As a message that grows.
    Stream {
        ts: Ts,
        /// Whether it holds what was said and nothing else.
        sure: bool,
    },
    /// As a message that is changed.
    Post { ts: Ts },
    /// Nobody can tell without looking.
    Unknown,
}

/// Where a reply belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) team: TeamId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) enterprise: Option<TeamId>,
    pub(super) channel: ChannelId,
    pub(super) thread: Ts,
    /// The message that asked.
    pub(super) asked: Ts,
    /// The question's id.
    pub(super) question: String,
}

impl Place {
    pub(super) fn of(question: &Question) -> Self {
        Self {
            team: question.team.clone(),
            enterprise: question.enterprise.clone(),
            channel: question.channel.clone(),
            thread: question.thread.clone(),
            asked: question.ts.clone(),
            question: question.id.clone(),
        }
    }

    /// The group in which everything for this thread leaves in order.
    pub(super) fn group(&self) -> String {
        format!("post/{}/{}/{}", self.team, self.channel, self.thread)
    }

    /// The key of a text, by its number.
    pub(super) fn text_key(&self, number: usize) -> String {
        format!("{}/text/{number}", self.question)
    }
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ending {
    Answered,
    Failed,
    Stopped,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(super) enum Act {
    /// A text as a message of its own.
    Post { text: String, feedback: bool },
    /// A text in place of what the live reply has left.
    Finish {
        text: String,
        feedback: bool,
        left: Left,
    },
    /// A file.
    File {
        task: String,
        artifact: String,
        name: String,
    },
    /// The sign of how it ended, in place of the sign that it was received.
    React { ending: Ending },
    /// Words for one person alone.
    Tell {
        user: UserId,
        text: String,
        in_thread: bool,
        /// Whether nobody else is there anyway.
        alone: bool,
    },
}

/// One thing to do, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Effect {
    pub(super) place: Place,
    pub(super) language: Language,
    pub(super) act: Act,
}
