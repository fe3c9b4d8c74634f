//! An answer as it grows, on its way into the log: not a write for each word, and none out of order.

use super::Run;
use crate::error::HubError;
use crate::event::EventBody;
use crate::hub::draft::Draft;
use interzone_protocol::vocab::Timestamp;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

/// How long growing text waits before it is written: about twenty writes a second.
pub(super) const TEXT_WAITS: Duration = Duration::from_millis(50);

/// How much growing text waits at most.
pub(super) const TEXT_BYTES: usize = 16 * 1024;

/// The answer as it grows.
pub(super) struct Growing {
    /// How many bytes are in the log.
    pub(super) written: u64,
    /// How many bytes there are in all.
    pub(super) length: u64,
    /// What is not.
    pub(super) waiting: String,
    /// Since when.
    pub(super) since: Timestamp,
}

impl Run {
    /// Writes the growing text that waits, if it has waited long enough. Whoever runs the agent calls
    /// this now and then, so that the last words do not wait for the next.
    ///
    /// # Errors
    /// The claim is lost, or the store did not do it.
    pub async fn tick(&self) -> Result<(), HubError> {
        let due = {
            let text = self.growing();
            !text.waiting.is_empty() && self.hub.now().since(text.since) >= TEXT_WAITS
        };
        if due { self.flush().await } else { Ok(()) }
    }

    /// Writes the growing text that waits. Whoever comes while it is being written waits for that:
    /// the log must have the pieces in their order.
    pub(super) async fn flush(&self) -> Result<(), HubError> {
        let _in_order = self.writing.lock().await;
        let grown = self.grown();
        if grown.delta.is_empty() {
            return Ok(());
        }
        let decide = |draft: &mut Draft| {
            draft_text(draft, &grown);
            Ok(())
        };
        self.write(decide).await?;
        self.is_written(&grown);
        Ok(())
    }

    /// The growing text that waits. It waits until it is written: whoever breaks this off loses nothing.
    /// If it was written all the same, it is written again at the same place, which watchers know by its
    /// offset.
    pub(super) fn grown(&self) -> Grown {
        let text = self.growing();
        Grown {
            run: self.item.claim,
            offset: text.written,
            delta: text.waiting.clone(),
        }
    }

    pub(super) fn is_written(&self, grown: &Grown) {
        let mut text = self.growing();
        text.written += u64::try_from(grown.delta.len()).unwrap_or(0);
        text.waiting.drain(..grown.delta.len());
    }

    pub(super) fn growing(&self) -> MutexGuard<'_, Growing> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Growing text on its way into the log.
pub(super) struct Grown {
    run: u64,
    offset: u64,
    delta: String,
}

pub(super) fn draft_text(draft: &mut Draft, grown: &Grown) {
    if !grown.delta.is_empty() {
        draft.event(EventBody::Text {
            run: grown.run,
            offset: grown.offset,
            delta: grown.delta.clone(),
        });
    }
}
