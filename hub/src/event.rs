//! The log: every change of a task or stream is an event with a sequence number.

use crate::limits::size_of_parts;
use crate::packed::Packed;
use interzone_protocol::vocab::{
    Artifact, Message, PrincipalId, StreamId, StreamState, TaskId, TaskState, Timestamp,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A task.
    Task(TaskId),
    /// A stream.
    Stream(StreamId),
}

impl Subject {
    /// The one string that stores file the subject under: `t/` or `s/`, then the id.
    pub fn key(&self) -> String {
        match self {
            Self::Task(id) => format!("t/{id}"),
            Self::Stream(id) => format!("s/{id}"),
        }
    }

    /// The subject with this key.
    pub fn from_key(key: &str) -> Option<Self> {
        let (kind, id) = key.split_once('/')?;
        match kind {
            "t" => TaskId::new(id).ok().map(Self::Task),
            "s" => StreamId::new(id).ok().map(Self::Stream),
            _ => None,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(id) => write!(f, "task {id}"),
            Self::Stream(id) => write!(f, "stream {id}"),
        }
    }
}

/// One entry of a subject's log.
///
/// Sequence numbers begin at one and rise by one, without a gap, for each subject by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What it is about.
    pub subject: Subject,
    /// Its number in the subject's log.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// What happened.
    pub body: EventBody,
}

/// What happened.
///
/// This is also how events are stored: a change here must still read what older versions wrote.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventBody {
    /// The task was accepted, with this message.
    Created {
        /// What was asked.
        message: Packed<Message>,
    },
    /// The task moved from one state to another.
    State {
        /// The state it left.
        from: TaskState,
        /// The state it entered.
        to: TaskState,
        /// What is said about it: a question, a reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Packed<Message>>,
    },
    /// A message was added to the task.
    Message {
        /// Its place in the task's history, counted from zero.
        index: u32,
        /// The message.
        message: Packed<Message>,
    },
    /// An artifact was made, or more of it.
    Artifact {
        /// The artifact, or the parts added to it.
        artifact: Packed<Artifact>,
        /// Whether the parts are added to those it had.
        append: bool,
        /// Whether it is complete.
        last: bool,
    },
    /// The agent's answer grew.
    Text {
        /// Which run of the agent it belongs to: each begins its answer anew.
        #[serde(default)]
        run: u64,
        /// How many bytes of it there were before.
        offset: u64,
        /// What was added.
        delta: String,
    },
    /// The agent says what it is doing.
    Status {
        /// In its words.
        text: String,
    },
    /// Somebody said something on the stream, or a piece of something.
    Chunk {
        /// Who.
        from: PrincipalId,
        /// What.
        chunk: Packed<Message>,
        /// Whether it completes what was said.
        last: bool,
    },
    /// The stream moved from one state to another.
    StreamState {
        /// The state it left; none if it was just begun.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<StreamState>,
        /// The state it entered.
        to: StreamState,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

impl EventBody {
    /// About how many bytes it takes in memory: what was said, without contents that are kept apart.
    pub(crate) fn bytes(&self) -> usize {
        let of_message = |message: &Packed<Message>| size_of_parts(message.without_large().parts());
        match self {
            Self::Created { message }
            | Self::State {
                message: Some(message),
                ..
            }
            | Self::Message { message, .. }
            | Self::Chunk { chunk: message, .. } => of_message(message),
            Self::Artifact { artifact, .. } => size_of_parts(artifact.without_large().parts()),
            Self::Text { delta, .. } => delta.len(),
            Self::Status { text } => text.len(),
            Self::State { message: None, .. } | Self::StreamState { .. } => 0,
        }
    }

    /// As JSON text, as serde writes it. That a task was made is written by hand, for it is said of every task, beside
    /// its first message, whose text may be there already.
    ///
    /// # Errors
    /// None that is known: every event has a JSON form.
    pub fn to_text(
        &self,
        said: Option<(&Packed<Message>, &str)>,
    ) -> Result<String, serde_json::Error> {
        match self {
            Self::Created { message } => {
                let message = message.to_text_beside(said)?;
                Ok([r#"{"created":{"message":"#, &*message, "}}"].concat())
            }
            other => serde_json::to_string(other),
        }
    }

    /// A stable word for the kind of event; also the last segment of its topic.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Created { .. } => "created",
            Self::State { .. } => "state",
            Self::Message { .. } => "message",
            Self::Artifact { .. } => "artifact",
            Self::Text { .. } => "text",
            Self::Status { .. } => "status",
            Self::Chunk { .. } => "chunk",
            Self::StreamState { .. } => "stream_state",
        }
    }
}
