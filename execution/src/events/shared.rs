//! What was written for one watcher serves the others: an event that thousands wait for is turned into
//! notifications once, and takes its part of the memory for answers once.

use super::sse::{self, Frames};
use super::{Notice, notices};
use crate::memory::MemoryAccount;
use bytes::Bytes;
use interzone_edge::body::{self, BodyError};
use interzone_edge::budget::{Reservation, ShareKey};
use interzone_edge::limits::HttpLimits;
use interzone_hub::{Event, Hub, HubError, Subject};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// How many events are remembered at most.
const MOST: usize = 128;

/// An event of more bytes is shared among those who send it at the same time, but not remembered: memory for
/// answers is not taken for what is not being sent.
const REMEMBERED: usize = 64 * 1024;

/// Why an event cannot be told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Untold {
    /// The store did not answer.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// The answers of all callers take as much memory as they may.
    #[error("too much is being sent at this moment")]
    NoRoom(#[source] BodyError),
}

/// An event as it is told. Large ones take their part of the memory for answers until the last clone of
/// their bytes is dropped; it counts to the share of the first who asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// Its notifications as server-sent events.
    pub(crate) sse: Bytes,
    /// Each notification as JSON, a part of the text above wherever that is possible.
    json: Arc<[Json]>,
}

#[derive(Debug)]
enum Json {
    Within(Range<usize>),
    Apart(Bytes),
}

impl Told {
    /// Nothing at all.
    pub(crate) fn nothing() -> Self {
        Self::default()
    }

    /// A notification ahead of the log, which has no number yet.
    pub(crate) fn early(
        notice: Notice,
        limits: &HttpLimits,
        share: &ShareKey,
    ) -> Result<Self, Untold> {
        let frames = sse::unnumbered(&notice);
        Self::hold(vec![notice], frames, limits, share, None)
    }

    /// An event of the log. Memory for it is reserved before it is read.
    async fn read(
        hub: &Hub,
        event: &Event,
        limits: &HttpLimits,
        share: &ShareKey,
    ) -> Result<Self, Untold> {
        let memory = MemoryAccount::new(&limits.answers, share.clone());
        let notices = notices(hub, event, Some(&memory)).await;
        let notices = notices.map_err(|error| match error {
            HubError::NoMemory => Untold::NoRoom(BodyError::NoRoom),
            error => Untold::Hub(error),
        })?;
        let frames = sse::frames(&notices, event.seq);
        Self::hold(notices, frames, limits, share, memory.into_reservation())
    }

    fn hold(
        notices: Vec<Notice>,
        frames: Frames,
        limits: &HttpLimits,
        share: &ShareKey,
        mut reserved: Option<Reservation>,
    ) -> Result<Self, Untold> {
        let mut hold = |bytes: Vec<u8>| {
            let held = body::hold_within(bytes, 0, limits, share, &mut reserved);
            held.map_err(Untold::NoRoom)
        };
        let mut json = Vec::with_capacity(notices.len());
        for (notice, place) in notices.into_iter().zip(frames.json) {
            json.push(match place {
                Some(place) => Json::Within(place),
                None => Json::Apart(hold(notice.json.into())?),
            });
        }
        Ok(Self {
            sse: hold(frames.text)?,
            json: json.into(),
        })
    }

    /// Its notifications as JSON.
    pub(crate) fn messages(&self) -> impl Iterator<Item = Bytes> {
        self.json.iter().map(|json| match json {
            Json::Within(place) => self.sse.slice(place.clone()),
            Json::Apart(json) => json.clone(),
        })
    }

    fn size(&self) -> usize {
        let apart = self.json.iter().map(|json| match json {
            Json::Within(_) => 0,
            Json::Apart(json) => json.len(),
        });
        self.sse.len() + apart.sum::<usize>()
    }
}

/// The bytes of a large event, kept while at least one watcher is being sent them.
#[derive(Debug)]
struct Large(Told);

/// Bytes that keep a large event from being made again.
struct Shown {
    large: Arc<Large>,
}

impl AsRef<[u8]> for Shown {
    fn as_ref(&self) -> &[u8] {
        &self.large.0.sse
    }
}

impl Large {
    /// The event, whose bytes share this.
    fn told(self: &Arc<Self>) -> Told {
        let large = Arc::clone(self);
        Told {
            sse: Bytes::from_owner(Shown { large }),
            json: Arc::clone(&self.0.json),
        }
    }
}

#[derive(Default)]
enum Made {
    #[default]
    Not,
    Small(Told),
    Large(Weak<Large>),
}

/// One event: what was made of it, and who makes it.
#[derive(Default)]
struct Slot {
    made: Mutex<Made>,
    making: tokio::sync::Mutex<()>,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> Option<Told> {
        match &*self.lock() {
            Made::Not => None,
            Made::Small(told) => Some(told.clone()),
            Made::Large(large) => Some(large.upgrade()?.told()),
        }
    }

    fn put(&self, told: Told) -> Told {
        if told.size() <= REMEMBERED {
            *self.lock() = Made::Small(told.clone());
            return told;
        }
        let large = Arc::new(Large(told));
        *self.lock() = Made::Large(Arc::downgrade(&large));
        large.told()
    }
}

struct Entry {
    subject: Subject,
    seq: u64,
    slot: Arc<Slot>,
}

/// The latest events that somebody was told of.
#[derive(Default)]
pub(crate) struct Shared {
    latest: Mutex<VecDeque<Entry>>,
}

impl Shared {
    /// An event as it is told: made by the first who asks, and shared with all who ask soon after.
    pub(crate) async fn told(
        &self,
        hub: &Hub,
        event: &Event,
        limits: &HttpLimits,
        share: &ShareKey,
    ) -> Result<Told, Untold> {
        if let interzone_hub::EventBody::Text { .. } = event.body {
            // Each watcher is shown what it has not seen yet, which may differ.
            return Told::read(hub, event, limits, share).await;
        }
        let slot = self.slot(event);
        if let Some(told) = slot.get() {
            return Ok(told);
        }
        let _making = slot.making.lock().await;
        if let Some(told) = slot.get() {
            return Ok(told);
        }
        let told = Told::read(hub, event, limits, share).await?;
        Ok(slot.put(told))
    }

    fn latest(&self) -> MutexGuard<'_, VecDeque<Entry>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, event: &Event) -> Arc<Slot> {
        let mut latest = self.latest();
        let known = latest
            .iter()
            .rev()
            .find(|entry| entry.seq == event.seq && entry.subject == event.subject);
        if let Some(known) = known {
            return Arc::clone(&known.slot);
        }
        if latest.len() >= MOST {
            latest.pop_front();
        }
        let slot = Arc::<Slot>::default();
        latest.push_back(Entry {
            subject: event.subject.clone(),
            seq: event.seq,
            slot: Arc::clone(&slot),
        });
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(
        notices: Vec<Notice>,
        seq: u64,
        limits: &HttpLimits,
        share: &ShareKey,
    ) -> Result<Told, Untold> {
        let frames = sse::frames(&notices, seq);
        Told::hold(notices, frames, limits, share, None)
    }
    use interzone_edge::budget::{MemoryBudget, Shares};

    fn notice(json: Vec<u8>) -> Notice {
        Notice {
            method: "task.notification",
            event: None,
            json: json.into(),
            params: Bytes::new(),
        }
    }

    fn limits(bytes: usize) -> HttpLimits {
        HttpLimits {
            answers: MemoryBudget::with_shares(
                bytes,
                Shares {
                    address: 1,
                    principal: 1,
                },
            ),
            ..HttpLimits::default()
        }
    }

    fn large(limits: &HttpLimits) -> Result<Told, Untold> {
        made(
            vec![notice(vec![b'x'; 2 * REMEMBERED])],
            1,
            limits,
            &ShareKey::Unattributed,
        )
    }

    #[test]
    fn large_event_takes_answer_memory_once_while_it_is_sent() {
        let limits = limits(3 * REMEMBERED);
        let slot = Slot::default();
        let first = slot.put(large(&limits).unwrap());
        let second = slot.get().expect("it is being sent").sse;
        drop(first);
        assert!(matches!(large(&limits), Err(Untold::NoRoom(_))));
        drop(second);
        assert!(slot.get().is_none(), "nothing is remembered of it");
        large(&limits).unwrap();
    }

    #[test]
    fn messages_are_part_of_the_text_unless_they_have_line_breaks() {
        let limits = limits(0);
        let notices = vec![notice(b"{\"a\":1}".to_vec()), notice(b"{\n}".to_vec())];
        let told = made(notices, 1, &limits, &ShareKey::Unattributed).unwrap();
        let messages: Vec<_> = told.messages().collect();
        assert_eq!(messages, ["{\"a\":1}", "{\n}"]);
        assert!(told.sse.as_ptr_range().contains(&messages[0].as_ptr()));
        // Those with line breaks count by themselves.
        let limits = self::limits(2 * REMEMBERED);
        let broken = [b"{\n".as_slice(), &vec![b' '; REMEMBERED], b"}"].concat();
        let told = made(vec![notice(broken)], 1, &limits, &ShareKey::Unattributed);
        assert!(matches!(told, Err(Untold::NoRoom(_))), "{told:?}");
    }
}
