//! Cache of rendered events: an event with thousands of watchers is rendered once and takes response memory
//! once.

use super::sse::{self, SseFrames};
use super::{Format, RenderedNotification};
use crate::memory::MemoryAccount;
use bytes::Bytes;
use interzone_edge::body::{self, BodyError};
use interzone_edge::budget::{Reservation, ShareKey};
use interzone_edge::limits::HttpLimits;
use interzone_hub::{Event, Hub, HubError, Subject};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Maximum number of cached events.
const MAX_CACHED_EVENTS: usize = 128;

/// Larger events are shared among the watchers that send them at the same time, but not cached: response memory
/// is only held for bytes that are being sent.
const MAX_CACHED_BYTES: usize = 64 * 1024;

/// Error of rendering an event.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RenderError {
    /// The store failed.
    #[error(transparent)]
    Hub(#[from] HubError),
    /// No response memory is left.
    #[error("no memory is left for responses")]
    NoRoom(#[source] BodyError),
}

/// A rendered event. A large one holds response memory until the last clone of its bytes is dropped, charged to
/// the share of the first watcher that requested it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RenderedEvent {
    /// Its notifications as server-sent events.
    pub(crate) sse: Bytes,
    /// Each notification as JSON, as a slice of `sse` if possible.
    json: Arc<[RenderedJson]>,
}

#[derive(Debug)]
enum RenderedJson {
    Slice(Range<usize>),
    Separate(Bytes),
}

impl RenderedEvent {
    /// A rendering without notifications.
    pub(crate) fn empty() -> Self {
        Self::default()
    }

    /// Renders a live notification, which has no sequence number yet.
    pub(crate) fn unsequenced(
        notification: RenderedNotification,
        limits: &HttpLimits,
        share: &ShareKey,
    ) -> Result<Self, RenderError> {
        let frames = sse::encode_without_id(&notification);
        Self::from_frames(vec![notification], frames, limits, share, None)
    }

    /// Renders an event of the log. Memory is reserved before content is read.
    async fn render(
        format: Format,
        hub: &Hub,
        event: &Event,
        limits: &HttpLimits,
        share: &ShareKey,
    ) -> Result<Self, RenderError> {
        let memory = MemoryAccount::new(&limits.response_memory, share.clone());
        let renderer = format.renderer();
        let notifications = renderer.render_event(hub, event, Some(&memory)).await;
        let notifications = notifications.map_err(|error| match error {
            HubError::NoMemory => RenderError::NoRoom(BodyError::MemoryLimit),
            error => RenderError::Hub(error),
        })?;
        let frames = sse::encode_event(&notifications, event.seq);
        Self::from_frames(
            notifications,
            frames,
            limits,
            share,
            memory.into_reservation(),
        )
    }

    fn from_frames(
        notifications: Vec<RenderedNotification>,
        frames: SseFrames,
        limits: &HttpLimits,
        share: &ShareKey,
        mut reserved: Option<Reservation>,
    ) -> Result<Self, RenderError> {
        let mut hold = |bytes: Vec<u8>| {
            let held = body::reserve_response(bytes, 0, limits, share, &mut reserved);
            held.map_err(RenderError::NoRoom)
        };
        let mut json = Vec::with_capacity(notifications.len());
        for (notification, range) in notifications.into_iter().zip(frames.json) {
            json.push(match range {
                Some(range) => RenderedJson::Slice(range),
                None => RenderedJson::Separate(hold(notification.json.into())?),
            });
        }
        Ok(Self {
            sse: hold(frames.text)?,
            json: json.into(),
        })
    }

    /// Returns the notifications as JSON.
    pub(crate) fn messages(&self) -> impl Iterator<Item = Bytes> {
        self.json.iter().map(|json| match json {
            RenderedJson::Slice(range) => self.sse.slice(range.clone()),
            RenderedJson::Separate(json) => json.clone(),
        })
    }

    fn size(&self) -> usize {
        let separate = self.json.iter().map(|json| match json {
            RenderedJson::Slice(_) => 0,
            RenderedJson::Separate(json) => json.len(),
        });
        self.sse.len() + separate.sum::<usize>()
    }
}

/// A large rendered event, alive while at least one watcher is being sent its bytes.
#[derive(Debug)]
struct LargeEvent(RenderedEvent);

/// Owner of `Bytes` that keeps a large event alive and thereby shared.
struct LargeEventBytes {
    large: Arc<LargeEvent>,
}

impl AsRef<[u8]> for LargeEventBytes {
    fn as_ref(&self) -> &[u8] {
        &self.large.0.sse
    }
}

impl LargeEvent {
    /// Returns the event with bytes that keep `self` alive.
    fn to_rendered(self: &Arc<Self>) -> RenderedEvent {
        let large = Arc::clone(self);
        RenderedEvent {
            sse: Bytes::from_owner(LargeEventBytes { large }),
            json: Arc::clone(&self.0.json),
        }
    }
}

#[derive(Default)]
enum CachedRendering {
    #[default]
    Empty,
    Small(RenderedEvent),
    Large(Weak<LargeEvent>),
}

/// Cache slot of one event, with the lock that makes rendering single-flight.
#[derive(Default)]
struct RenderSlot {
    rendering: Mutex<CachedRendering>,
    single_flight: tokio::sync::Mutex<()>,
}

impl RenderSlot {
    fn lock(&self) -> MutexGuard<'_, CachedRendering> {
        self.rendering
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self) -> Option<RenderedEvent> {
        match &*self.lock() {
            CachedRendering::Empty => None,
            CachedRendering::Small(event) => Some(event.clone()),
            CachedRendering::Large(large) => Some(large.upgrade()?.to_rendered()),
        }
    }

    fn put(&self, event: RenderedEvent) -> RenderedEvent {
        if event.size() <= MAX_CACHED_BYTES {
            *self.lock() = CachedRendering::Small(event.clone());
            return event;
        }
        let large = Arc::new(LargeEvent(event));
        *self.lock() = CachedRendering::Large(Arc::downgrade(&large));
        large.to_rendered()
    }
}

struct RenderCacheEntry {
    format: Format,
    subject: Subject,
    seq: u64,
    slot: Arc<RenderSlot>,
}

/// Cache of the most recently rendered events.
#[derive(Default)]
pub(crate) struct EventRenderCache {
    latest: Mutex<VecDeque<RenderCacheEntry>>,
}

impl EventRenderCache {
    /// Returns the rendered event: rendered for the first watcher, shared with those that follow soon after.
    pub(crate) async fn get_or_render(
        &self,
        format: Format,
        hub: &Hub,
        event: &Event,
        limits: &HttpLimits,
        share: &ShareKey,
    ) -> Result<RenderedEvent, RenderError> {
        if let interzone_hub::EventBody::Text { .. } = event.body {
            // Each watcher gets the text after its own cursor, which may differ.
            return RenderedEvent::render(format, hub, event, limits, share).await;
        }
        let slot = self.slot(format, event);
        if let Some(event) = slot.get() {
            return Ok(event);
        }
        let _single_flight = slot.single_flight.lock().await;
        if let Some(event) = slot.get() {
            return Ok(event);
        }
        let rendered = RenderedEvent::render(format, hub, event, limits, share).await?;
        Ok(slot.put(rendered))
    }

    fn latest(&self) -> MutexGuard<'_, VecDeque<RenderCacheEntry>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn slot(&self, format: Format, event: &Event) -> Arc<RenderSlot> {
        let mut latest = self.latest();
        let is_same = |entry: &&RenderCacheEntry| {
            entry.seq == event.seq && entry.format == format && entry.subject == event.subject
        };
        let cached = latest.iter().rev().find(is_same);
        if let Some(cached) = cached {
            return Arc::clone(&cached.slot);
        }
        if latest.len() >= MAX_CACHED_EVENTS {
            latest.pop_front();
        }
        let slot = Arc::<RenderSlot>::default();
        latest.push_back(RenderCacheEntry {
            format,
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

    fn rendered(
        notifications: Vec<RenderedNotification>,
        seq: u64,
        limits: &HttpLimits,
        share: &ShareKey,
    ) -> Result<RenderedEvent, RenderError> {
        let frames = sse::encode_event(&notifications, seq);
        RenderedEvent::from_frames(notifications, frames, limits, share, None)
    }
    use interzone_edge::budget::{MemoryBudget, Shares};

    fn notification(json: Vec<u8>) -> RenderedNotification {
        RenderedNotification {
            method: "task.notification",
            event: None,
            json: json.into(),
            params: Bytes::new(),
        }
    }

    fn limits(bytes: usize) -> HttpLimits {
        HttpLimits {
            response_memory: MemoryBudget::with_shares(
                bytes,
                Shares {
                    address: 1,
                    principal: 1,
                },
            ),
            ..HttpLimits::default()
        }
    }

    fn large(limits: &HttpLimits) -> Result<RenderedEvent, RenderError> {
        rendered(
            vec![notification(vec![b'x'; 2 * MAX_CACHED_BYTES])],
            1,
            limits,
            &ShareKey::Unattributed,
        )
    }

    #[test]
    fn large_event_takes_response_memory_once_while_sent() {
        let limits = limits(3 * MAX_CACHED_BYTES);
        let slot = RenderSlot::default();
        let first = slot.put(large(&limits).unwrap());
        let second = slot.get().expect("it is still being sent").sse;
        drop(first);
        assert!(matches!(large(&limits), Err(RenderError::NoRoom(_))));
        drop(second);
        assert!(slot.get().is_none(), "large events are not cached");
        large(&limits).unwrap();
    }

    #[test]
    fn json_is_slice_of_sse_unless_it_has_line_breaks() {
        let limits = limits(0);
        let notifications = vec![
            notification(b"{\"a\":1}".to_vec()),
            notification(b"{\n}".to_vec()),
        ];
        let event = rendered(notifications, 1, &limits, &ShareKey::Unattributed).unwrap();
        let messages: Vec<_> = event.messages().collect();
        assert_eq!(messages, ["{\"a\":1}", "{\n}"]);
        assert!(event.sse.as_ptr_range().contains(&messages[0].as_ptr()));
        // JSON with line breaks is reserved separately.
        let limits = self::limits(2 * MAX_CACHED_BYTES);
        let multiline = [b"{\n".as_slice(), &vec![b' '; MAX_CACHED_BYTES], b"}"].concat();
        let event = rendered(
            vec![notification(multiline)],
            1,
            &limits,
            &ShareKey::Unattributed,
        );
        assert!(matches!(event, Err(RenderError::NoRoom(_))), "{event:?}");
    }
}
