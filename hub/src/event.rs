//! Event log: every change of a task or stream is an event with a sequence number.

use crate::limits::size_of_parts;
use crate::offload::Offloaded;
use interzone_protocol::vocab::{
    Artifact, Message, PrincipalId, StreamId, StreamState, TaskId, TaskState, Timestamp,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Subject of an event log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A task.
    Task(TaskId),
    /// A stream.
    Stream(StreamId),
}

impl Subject {
    /// Key under which stores index the subject: `t/` or `s/`, then the id.
    pub fn key(&self) -> String {
        match self {
            Self::Task(id) => format!("t/{id}"),
            Self::Stream(id) => format!("s/{id}"),
        }
    }

    /// Parses a key made by [`Subject::key`].
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

/// One entry of a subject's event log.
///
/// Sequence numbers are per subject, start at one and increase by one without gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The subject of the log.
    pub subject: Subject,
    /// Sequence number in the subject's log.
    pub seq: u64,
    /// Number of the event among those of its task that report progress of the task: creation is 1, and each further
    /// one is one more than the one before. Messages of callers have none, nor has an agent's message that only
    /// repeats what another event reports; nor have events of streams.
    pub generation: Option<u64>,
    /// Time of the event.
    pub at: Timestamp,
    /// Content of the event.
    pub body: EventBody,
}

/// Content of an event.
///
/// This is also the storage format: changes must stay able to read events written by older versions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventBody {
    /// The task was accepted, with this message.
    Created {
        /// The request.
        message: Offloaded<Message>,
    },
    /// The task changed its state.
    State {
        /// The previous state.
        from: TaskState,
        /// The new state.
        to: TaskState,
        /// Message that accompanies the change: a question, a reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<Offloaded<Message>>,
    },
    /// A message was added to the task.
    Message {
        /// Index in the task's history, from zero.
        index: u32,
        /// The message.
        message: Offloaded<Message>,
        /// True if it is the agent's complete answer to the first message, so that a caller that can do without a
        /// task needs only this message.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        direct: bool,
    },
    /// An artifact was created or extended.
    Artifact {
        /// The artifact, or the parts added to it.
        artifact: Offloaded<Artifact>,
        /// True if the parts are appended to the existing ones.
        append: bool,
        /// True if the artifact is complete.
        last: bool,
    },
    /// Text was appended to the agent's answer.
    Text {
        /// The agent run it belongs to: each run starts its answer from the beginning.
        #[serde(default)]
        run: u64,
        /// Index, in the task's history, of the message that began the turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        answers: Option<u32>,
        /// Byte offset at which the text is appended.
        offset: u64,
        /// The appended text.
        delta: String,
    },
    /// The agent reported progress.
    Status {
        /// The progress text.
        text: String,
    },
    /// A message, or a piece of one, was posted on the stream.
    Chunk {
        /// The author.
        from: PrincipalId,
        /// The content.
        chunk: Offloaded<Message>,
        /// True if it completes the message.
        last: bool,
    },
    /// The stream changed its state.
    StreamState {
        /// The previous state; `None` if it was just created.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<StreamState>,
        /// The new state.
        to: StreamState,
        /// The reason.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

impl EventBody {
    /// Approximate size in memory in bytes, without offloaded contents.
    pub(crate) fn approximate_bytes(&self) -> usize {
        let message_bytes = |message: &Offloaded<Message>| size_of_parts(message.inline().parts());
        match self {
            Self::Created { message }
            | Self::State {
                message: Some(message),
                ..
            }
            | Self::Message { message, .. }
            | Self::Chunk { chunk: message, .. } => message_bytes(message),
            Self::Artifact { artifact, .. } => size_of_parts(artifact.inline().parts()),
            Self::Text { delta, .. } => delta.len(),
            Self::Status { text } => text.len(),
            Self::State { message: None, .. } | Self::StreamState { .. } => 0,
        }
    }

    /// Stable name of the kind of event; also the last segment of its topic.
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
