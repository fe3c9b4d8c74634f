//! Buffer for streamed answer text: coalesces deltas into fewer log writes and keeps their order.

use super::Run;
use crate::error::HubError;
use crate::event::EventBody;
use crate::hub::task_change::TaskChange;
use interzone_protocol::vocab::{Message, PartKind, Timestamp};
use sha2::{Digest, Sha256};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

/// Interval after which buffered text is written: about twenty writes per second.
pub(super) const FLUSH_INTERVAL: Duration = Duration::from_millis(50);

/// Number of buffered bytes at which text is written at once.
pub(super) const MAX_PENDING_BYTES: usize = 16 * 1024;

/// Answer text with its not yet written part.
pub(super) struct TextBuffer {
    /// Number of bytes written to the log.
    pub(super) flushed_bytes: u64,
    /// Total number of bytes.
    pub(super) total_bytes: u64,
    /// Hash of the whole text.
    pub(super) digest: Sha256,
    /// Text that is not written yet.
    pub(super) pending: String,
    /// Time of the first pending delta.
    pub(super) pending_since: Timestamp,
}

impl Run {
    /// Writes the pending text if it is due. The worker calls this periodically, so that the last delta does not wait
    /// for another one.
    ///
    /// # Errors
    /// The claim is lost, or the store operation failed.
    pub async fn flush_if_due(&self) -> Result<(), HubError> {
        let is_due = {
            let text = self.lock_text();
            !text.pending.is_empty()
                && self.hub.now().duration_since(text.pending_since) >= FLUSH_INTERVAL
        };
        if is_due { self.flush().await } else { Ok(()) }
    }

    /// Writes the pending text. Concurrent calls wait: the log must contain the deltas in order.
    pub(super) async fn flush(&self) -> Result<(), HubError> {
        let _guard = self.flush_lock.lock().await;
        let pending = self.pending_text();
        if pending.delta.is_empty() {
            return Ok(());
        }
        let decide = |change: &mut TaskChange| {
            push_text_event(change, &pending);
            Ok(())
        };
        self.commit_change(decide).await?;
        self.mark_flushed(&pending);
        Ok(())
    }

    /// Returns a copy of the pending text. It stays pending until it is written, so a canceled flush loses nothing.
    /// If it was written nevertheless, it is written again with the same offset, by which watchers detect the
    /// duplicate.
    pub(super) fn pending_text(&self) -> PendingText {
        let text = self.lock_text();
        PendingText {
            run: self.work_item.claim,
            answers: self.message_index.get().copied(),
            offset: text.flushed_bytes,
            delta: text.pending.clone(),
        }
    }

    pub(super) fn mark_flushed(&self, flushed: &PendingText) {
        let mut text = self.lock_text();
        text.flushed_bytes += u64::try_from(flushed.delta.len()).unwrap_or(0);
        text.pending.drain(..flushed.delta.len());
    }

    /// Returns true if the run has streamed exactly the content of this message.
    pub(super) fn has_streamed(&self, message: &Message) -> bool {
        let [part] = message.parts() else {
            return false;
        };
        let text = part.as_text().filter(|_| part.kind() == PartKind::Text);
        let Some(text) = text else {
            return false;
        };
        let buffer = self.lock_text();
        buffer.total_bytes == u64::try_from(text.len()).unwrap_or(u64::MAX)
            && buffer.digest.clone().finalize() == Sha256::digest(text.as_bytes())
    }

    pub(super) fn lock_text(&self) -> MutexGuard<'_, TextBuffer> {
        self.text_buffer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Text about to be written to the log.
pub(super) struct PendingText {
    run: u64,
    answers: Option<u32>,
    offset: u64,
    delta: String,
}

/// Adds the text as events of at most [`MAX_PENDING_BYTES`] each, so that none is too large for a reader.
pub(super) fn push_text_event(change: &mut TaskChange, pending: &PendingText) {
    let (mut offset, mut rest) = (pending.offset, pending.delta.as_str());
    while !rest.is_empty() {
        let mut end = rest.len().min(MAX_PENDING_BYTES);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (delta, after) = rest.split_at(end);
        change.push_event(EventBody::Text {
            run: pending.run,
            answers: pending.answers,
            offset,
            delta: delta.to_owned(),
        });
        offset += u64::try_from(delta.len()).unwrap_or(0);
        rest = after;
    }
}
