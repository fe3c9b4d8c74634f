//! How much of everything there may be. Every number can be configured; none can be absent.

use crate::error::HubError;
use crate::packed::HasParts;
use interzone_protocol::vocab::{Json, Members, Message, Metadata, Part};
use std::time::Duration;

/// The limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one message or artifact, contents included: a file of 25 MB in base64, and words.
    pub message_bytes: usize,
    /// Bytes of all messages of a task, or of all its artifacts, that are read at once.
    pub task_bytes: usize,
    /// Parts of one message or artifact.
    pub parts: usize,
    /// Messages of one task.
    pub messages: usize,
    /// Artifacts of one task.
    pub artifacts: usize,
    /// Bytes of metadata.
    pub metadata_bytes: usize,
    /// Participants of a stream.
    pub participants: usize,
    /// Push subscriptions of a task.
    pub pushes: usize,
    /// Patterns of a subscription.
    pub patterns: usize,
    /// Subscriptions of one principal.
    pub subscriptions: usize,
    /// Bytes of a signal.
    pub signal_bytes: usize,
    /// Tasks in one page of a list.
    pub page: usize,
    /// How often a task is begun again when its node dies, the first time included.
    pub attempts: u32,
    /// How long a stream may be silent before it is closed.
    pub stream_idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 36 * 1024 * 1024,
            task_bytes: 256 * 1024 * 1024,
            parts: 256,
            messages: 1_000,
            artifacts: 256,
            metadata_bytes: 64 * 1024,
            participants: 100,
            pushes: 32,
            patterns: 100,
            subscriptions: 1_000,
            signal_bytes: 10 * 1024 * 1024,
            page: 100,
            attempts: 3,
            stream_idle: Duration::from_secs(3_600),
        }
    }
}

impl Limits {
    /// The bytes that parts count for, contents included.
    pub fn bytes_of(parts: &[Part]) -> usize {
        size_of_parts(parts)
    }

    pub(crate) fn parts<T: HasParts>(&self, what: &'static str, value: &T) -> Result<(), HubError> {
        let parts = value.parts();
        if parts.len() > self.parts {
            return Err(HubError::TooMany {
                what: "parts",
                limit: self.parts,
            });
        }
        at_most(what, size_of_parts(parts), self.message_bytes)
    }

    /// All messages or artifacts of a task that were read so far.
    pub(crate) fn read(&self, bytes: usize) -> Result<(), HubError> {
        at_most("the task as a whole", bytes, self.task_bytes)
    }

    /// A message as a whole: its parts, what is attached to it, and what we do not know of it.
    pub(crate) fn message(&self, message: &Message) -> Result<(), HubError> {
        self.parts("the message", message)?;
        self.metadata(message.metadata())?;
        at_most(
            "what else is in the message",
            size_of(message.extra()),
            self.metadata_bytes,
        )
    }

    /// Why something ends, in somebody's words.
    pub(crate) fn reason(&self, reason: Option<&str>) -> Result<(), HubError> {
        at_most(
            "the reason",
            reason.map_or(0, str::len),
            self.metadata_bytes,
        )
    }

    /// What is kept for somebody else to read: where a push goes, how signals get there.
    pub(crate) fn about(&self, what: &'static str, about: Option<&Json>) -> Result<(), HubError> {
        at_most(
            what,
            about.map_or(0, |about| about.as_str().len()),
            self.metadata_bytes,
        )
    }

    pub(crate) fn metadata(&self, metadata: Option<&Metadata>) -> Result<(), HubError> {
        at_most(
            "metadata",
            metadata.map_or(0, |m| m.as_str().len()),
            self.metadata_bytes,
        )
    }

    pub(crate) fn signal(&self, body: &Json) -> Result<(), HubError> {
        at_most("a signal", body.as_str().len(), self.signal_bytes)
    }

    pub(crate) fn count(what: &'static str, count: usize, limit: usize) -> Result<(), HubError> {
        if count > limit {
            Err(HubError::TooMany { what, limit })
        } else {
            Ok(())
        }
    }
}

fn at_most(what: &'static str, bytes: usize, limit: usize) -> Result<(), HubError> {
    if bytes > limit {
        Err(HubError::TooLarge { what, limit })
    } else {
        Ok(())
    }
}

/// The bytes of parts, contents included.
pub(crate) fn size_of_parts(parts: &[Part]) -> usize {
    parts.iter().map(size_of_part).sum()
}

fn size_of_part(part: &Part) -> usize {
    part.content().map_or(0, |content| content.as_str().len())
        + part.filename().map_or(0, str::len)
        + part.media_type().map_or(0, str::len)
        + size_of(part.extra())
}

fn size_of(members: &Members) -> usize {
    members
        .iter()
        .map(|(name, value)| name.len() + value.as_str().len())
        .sum()
}
