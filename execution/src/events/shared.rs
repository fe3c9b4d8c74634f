//! What was written for one watcher serves the others: an event that thousands wait for is turned into
//! notifications once.

use super::{Notice, notices, sse};
use bytes::Bytes;
use interzone_hub::{Event, Hub, HubError, Subject};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OnceCell;

/// How many events are remembered at most.
const MOST: usize = 128;

/// How many bytes of them at most, the latest aside.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// An event as it is told.
#[derive(Debug)]
pub(crate) struct Told {
    /// Its notifications.
    pub(crate) notices: Vec<Notice>,
    /// The same as server-sent events.
    pub(crate) sse: Bytes,
}

impl Told {
    fn new(notices: Vec<Notice>, seq: u64) -> Self {
        let sse = sse::frames(&notices, seq);
        Self { notices, sse }
    }

    /// Nothing at all.
    pub(crate) fn nothing() -> Self {
        Self {
            notices: Vec::new(),
            sse: Bytes::new(),
        }
    }

    /// A notification ahead of the log, which has no number yet.
    pub(crate) fn early(notice: Notice) -> Self {
        let sse = sse::unnumbered(&notice);
        Self {
            notices: vec![notice],
            sse,
        }
    }

    fn size(&self) -> usize {
        self.sse.len() * 3
    }
}

type Slot = Arc<OnceCell<Arc<Told>>>;

struct Entry {
    subject: Subject,
    seq: u64,
    slot: Slot,
}

/// The latest events that somebody was told of.
#[derive(Default)]
pub(crate) struct Shared {
    latest: Mutex<VecDeque<Entry>>,
}

impl Shared {
    /// An event as it is told: made by the first who asks, and shared with all who ask soon after.
    pub(crate) async fn told(&self, hub: &Hub, event: &Event) -> Result<Arc<Told>, HubError> {
        if let interzone_hub::EventBody::Text { .. } = event.body {
            // Each watcher is shown what it has not seen yet, which may differ.
            return Ok(Arc::new(Told::new(notices(hub, event).await?, event.seq)));
        }
        let slot = self.slot(event);
        let make = || async {
            let told = Told::new(notices(hub, event).await?, event.seq);
            Ok::<_, HubError>(Arc::new(told))
        };
        let told = slot.get_or_try_init(make).await?.clone();
        Ok(told)
    }

    fn latest(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, event: &Event) -> Slot {
        let mut latest = self.latest();
        let known = latest
            .iter()
            .rev()
            .find(|entry| entry.seq == event.seq && entry.subject == event.subject);
        if let Some(known) = known {
            return known.slot.clone();
        }
        let size = |entry: &Entry| entry.slot.get().map_or(0, |told| told.size());
        let mut bytes: usize = latest.iter().map(size).sum();
        while latest.len() >= MOST || bytes > MOST_BYTES {
            match latest.pop_front() {
                Some(oldest) => bytes = bytes.saturating_sub(size(&oldest)),
                None => break,
            }
        }
        let slot = Slot::default();
        latest.push_back(Entry {
            subject: event.subject.clone(),
            seq: event.seq,
            slot: slot.clone(),
        });
        slot
    }
}
