//! Buffer for streamed answer text: coalesces deltas into fewer log writes and keeps their order.

use super::Run;
use crate::error::HubError;
use crate::event::EventBody;
use crate::hub::task_change::TaskChange;
use interzone_protocol::vocab::Timestamp;
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
            offset: text.flushed_bytes,
            delta: text.pending.clone(),
        }
    }

    pub(super) fn mark_flushed(&self, flushed: &PendingText) {
        let mut text = self.lock_text();
        text.flushed_bytes += u64::try_from(flushed.delta.len()).unwrap_or(0);
        text.pending.drain(..flushed.delta.len());
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
    offset: u64,
    delta: String,
}

pub(super) fn push_text_event(change: &mut TaskChange, pending: &PendingText) {
    if !pending.delta.is_empty() {
        change.push_event(EventBody::Text {
            run: pending.run,
            offset: pending.offset,
            delta: pending.delta.clone(),
        });
    }
}
