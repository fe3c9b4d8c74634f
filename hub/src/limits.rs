//! Size and count limits. Every limit is configurable; none can be disabled.

use crate::error::HubError;
use crate::offload::HasParts;
use crate::task::SealedSecrets;
use interzone_protocol::vocab::{ExtraFields, Message, Metadata, Part, VerbatimJson};
use serde::Deserialize;
use std::time::Duration;

/// Size and count limits.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of one message or artifact, contents included: a 25 MB file in base64, plus text.
    #[serde(skip)]
    pub message_bytes: usize,
    /// Bytes of all messages, or all artifacts, of a task in one read.
    #[serde(skip)]
    pub task_bytes: usize,
    /// Parts of one message or artifact.
    #[serde(
        rename = "message_parts",
        deserialize_with = "interzone_options::positive"
    )]
    pub parts: usize,
    /// Messages of one task.
    #[serde(
        rename = "task_messages",
        deserialize_with = "interzone_options::positive"
    )]
    pub messages: usize,
    /// Artifacts of one task.
    #[serde(
        rename = "task_artifacts",
        deserialize_with = "interzone_options::positive"
    )]
    pub artifacts: usize,
    /// Bytes of metadata.
    #[serde(skip)]
    pub metadata_bytes: usize,
    /// Participants of a stream.
    #[serde(skip)]
    pub participants: usize,
    /// Push subscriptions of a task.
    #[serde(skip)]
    pub push_subscriptions: usize,
    /// Patterns of a subscription.
    #[serde(skip)]
    pub patterns: usize,
    /// Subscriptions of one principal.
    #[serde(skip)]
    pub subscriptions: usize,
    /// Bytes of a signal.
    #[serde(skip)]
    pub signal_bytes: usize,
    /// Tasks per page of a list.
    #[serde(skip)]
    pub page_size: usize,
    /// Maximum number of attempts when a task's node dies, including the first.
    #[serde(skip)]
    pub attempts: u32,
    /// Idle time after which a stream is closed.
    pub stream_idle_timeout: Duration,
    /// Time for which idempotency keys are remembered.
    #[serde(rename = "idempotency_keys")]
    pub idempotency_retention: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes: 36 * 1024 * 1024,
            task_bytes: 256 * 1024 * 1024,
            parts: 1_000,
            messages: 1_000,
            artifacts: 256,
            metadata_bytes: 64 * 1024,
            participants: 100,
            push_subscriptions: 32,
            patterns: 100,
            subscriptions: 1_000,
            signal_bytes: 10 * 1024 * 1024,
            page_size: 100,
            attempts: 3,
            stream_idle_timeout: Duration::from_secs(3_600),
            idempotency_retention: Duration::from_secs(24 * 3_600),
        }
    }
}

impl Limits {
    /// Size of parts in bytes, contents included.
    pub fn parts_size(parts: &[Part]) -> usize {
        size_of_parts(parts)
    }

    pub(crate) fn check_parts<T: HasParts>(
        &self,
        what: &'static str,
        value: &T,
    ) -> Result<(), HubError> {
        let parts = value.parts();
        if parts.len() > self.parts {
            return Err(HubError::TooMany {
                what: "parts",
                limit: self.parts,
            });
        }
        check_bytes(what, size_of_parts(parts), self.message_bytes)
    }

    /// Checks the size of all messages or artifacts of a task read so far.
    pub(crate) fn read(&self, bytes: usize) -> Result<(), HubError> {
        check_bytes("the complete task", bytes, self.task_bytes)
    }

    /// Checks a message: its parts, metadata and unknown fields.
    pub(crate) fn check_message(&self, message: &Message) -> Result<(), HubError> {
        self.check_parts("the message", message)?;
        self.check_metadata(message.metadata())?;
        let extensions = message.extensions().iter().map(String::len);
        let references = message.reference_task_ids().iter();
        let references = references.map(|id| id.as_str().len());
        check_bytes(
            "extensions and references of the message",
            extensions.chain(references).sum(),
            self.metadata_bytes,
        )?;
        check_bytes(
            "unknown fields of the message",
            size_of_extra(message.extra()),
            self.metadata_bytes,
        )
    }

    /// Checks the free-text reason of an end or cancellation.
    pub(crate) fn check_reason(&self, reason: Option<&str>) -> Result<(), HubError> {
        check_bytes(
            "the reason",
            reason.map_or(0, str::len),
            self.metadata_bytes,
        )
    }

    /// Checks opaque JSON kept for others: the target of a push subscription, the delivery of signals.
    pub(crate) fn check_target(
        &self,
        what: &'static str,
        target: Option<&VerbatimJson>,
    ) -> Result<(), HubError> {
        check_bytes(
            what,
            target.map_or(0, |target| target.as_str().len()),
            self.metadata_bytes,
        )
    }

    /// Checks the encrypted secrets of a push subscription.
    pub(crate) fn check_secrets(&self, secrets: Option<&SealedSecrets>) -> Result<(), HubError> {
        check_bytes(
            "the secrets of a push subscription",
            secrets.map_or(0, |secrets| secrets.as_str().len()),
            self.metadata_bytes,
        )
    }

    pub(crate) fn check_metadata(&self, metadata: Option<&Metadata>) -> Result<(), HubError> {
        check_bytes(
            "metadata",
            metadata.map_or(0, |m| m.as_str().len()),
            self.metadata_bytes,
        )
    }

    pub(crate) fn check_signal(&self, body: &VerbatimJson) -> Result<(), HubError> {
        check_bytes("a signal", body.as_str().len(), self.signal_bytes)
    }

    pub(crate) fn check_count(
        what: &'static str,
        count: usize,
        limit: usize,
    ) -> Result<(), HubError> {
        if count > limit {
            Err(HubError::TooMany { what, limit })
        } else {
            Ok(())
        }
    }
}

fn check_bytes(what: &'static str, bytes: usize, limit: usize) -> Result<(), HubError> {
    if bytes > limit {
        Err(HubError::TooLarge { what, limit })
    } else {
        Ok(())
    }
}

/// Size of parts in bytes, contents included.
pub(crate) fn size_of_parts(parts: &[Part]) -> usize {
    parts.iter().map(size_of_part).sum()
}

fn size_of_part(part: &Part) -> usize {
    part.content().map_or(0, |content| content.as_str().len())
        + part.filename().map_or(0, str::len)
        + part.media_type().map_or(0, str::len)
        + part.url().map_or(0, str::len)
        + part
            .metadata()
            .map_or(0, |metadata| metadata.as_str().len())
        + size_of_extra(part.extra())
}

fn size_of_extra(fields: &ExtraFields) -> usize {
    fields
        .iter()
        .map(|(name, value)| name.len() + value.as_str().len())
        .sum()
}
