//! Numbered ring buffer of live updates. A page names the last number it knows and receives all later
//! updates, each once, or learns that it is too old.

use bytes::Bytes;
use interzone_hub::ports::{ChangeHint, Store};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::time::Instant;

/// Number of updates that a viewer may fall behind.
const CHANNEL_CAPACITY: usize = 16;
/// Number of updates kept for pages that have not connected yet and browsers that reconnect.
const MAX_UPDATES: usize = 64;
/// Maximum size of the kept updates.
const MAX_BYTES: usize = 512 * 1024;
/// Time in which a rendered page is expected to connect.
const CONNECT_WINDOW: Duration = Duration::from_secs(20);

/// The log of updates and its subscribers.
pub(super) struct UpdateLog {
    sender: broadcast::Sender<Bytes>,
    inner: Mutex<UpdateLogInner>,
}

#[derive(Default)]
struct UpdateLogInner {
    /// Number of the last update.
    last: u64,
    /// The latest updates, without gaps up to the last.
    updates: VecDeque<Bytes>,
    bytes: usize,
    /// Time until which a page may still connect.
    expected_until: Option<Instant>,
    is_collecting: bool,
    /// Change hints received since a page was rendered, until the collector takes them.
    hints: Option<broadcast::Receiver<ChangeHint>>,
}

/// A new subscriber.
pub(super) struct UpdateSubscription {
    /// Updates since the page was rendered; `None` if some are no longer kept.
    pub(super) missed: Option<VecDeque<Bytes>>,
    /// Number of the last update.
    pub(super) last: u64,
    pub(super) updates: broadcast::Receiver<Bytes>,
}

impl UpdateLog {
    pub(super) fn new() -> Self {
        Self {
            sender: broadcast::Sender::new(CHANNEL_CAPACITY),
            inner: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, UpdateLogInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of the last update. Call it before reading a page's data: every later change
    /// gets a higher number.
    pub(super) fn cursor(&self, store: &dyn Store) -> u64 {
        let mut inner = self.lock();
        inner.expected_until = Some(Instant::now() + CONNECT_WINDOW);
        inner.start_collecting(store);
        inner.last
    }

    /// Subscribes without a gap between the missed updates and the live ones.
    pub(super) fn subscribe(&self, store: &dyn Store, from: Option<u64>) -> UpdateSubscription {
        let mut inner = self.lock();
        inner.start_collecting(store);
        UpdateSubscription {
            missed: inner.updates_after(from),
            last: inner.last,
            updates: self.sender.subscribe(),
        }
    }

    /// Returns true if there is a subscriber or one is expected; otherwise clears the log.
    pub(super) fn has_viewers(&self) -> bool {
        let mut inner = self.lock();
        let is_expected = inner
            .expected_until
            .is_some_and(|until| Instant::now() < until);
        let has_viewers = is_expected || self.sender.receiver_count() > 0;
        if !has_viewers && inner.is_collecting {
            // Changes are not collected from now on, so older numbers become invalid.
            *inner = UpdateLogInner {
                last: inner.last + 1,
                ..UpdateLogInner::default()
            };
        }
        has_viewers
    }

    /// Takes the change hints received since a page was rendered.
    pub(super) fn take_hints(&self) -> Option<broadcast::Receiver<ChangeHint>> {
        self.lock().hints.take()
    }

    /// Publishes an update and keeps it.
    pub(super) fn publish(&self, event: &str, data: &str) {
        let mut inner = self.lock();
        inner.last += 1;
        let text = Bytes::from(format!(
            "id: {}\nevent: {event}\ndata: {data}\n\n",
            inner.last
        ));
        inner.push(text.clone());
        // An error means that there are no subscribers. Sent under the lock: otherwise a concurrent
        // subscriber could get the update twice or never.
        let _ = self.sender.send(text);
    }

    /// Publishes an event that is not kept and not numbered.
    pub(super) fn publish_unlogged(&self, text: &'static str) {
        let _ = self.sender.send(Bytes::from_static(text.as_bytes()));
    }
}

impl UpdateLogInner {
    fn start_collecting(&mut self, store: &dyn Store) {
        if !self.is_collecting {
            self.is_collecting = true;
            self.hints = Some(store.subscribe_changes());
        }
    }

    fn updates_after(&self, from: Option<u64>) -> Option<VecDeque<Bytes>> {
        let missed = match from {
            Some(from) => self.last.checked_sub(from)?,
            None => 0,
        };
        let missed = usize::try_from(missed).ok()?;
        let first = self.updates.len().checked_sub(missed)?;
        Some(self.updates.range(first..).cloned().collect())
    }

    fn push(&mut self, text: Bytes) {
        self.bytes += text.len();
        self.updates.push_back(text);
        while self.updates.len() > MAX_UPDATES || self.bytes > MAX_BYTES {
            let Some(oldest) = self.updates.pop_front() else {
                break;
            };
            self.bytes -= oldest.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update_data(updates: Option<VecDeque<Bytes>>) -> Option<Vec<String>> {
        let data = |text: &Bytes| {
            let text = std::str::from_utf8(text).unwrap();
            text.split("data: ").nth(1).unwrap().trim().to_owned()
        };
        Some(updates?.iter().map(data).collect())
    }

    #[test]
    fn subscriber_gets_each_later_update_once() {
        let log = UpdateLog::new();
        for data in ["a", "b", "c"] {
            log.publish("changes", data);
        }
        let since = |from| update_data(log.lock().updates_after(from));
        assert_eq!(since(Some(1)).unwrap(), ["b", "c"]);
        assert_eq!(since(Some(3)).unwrap(), [""; 0]);
        assert_eq!(since(None).unwrap(), [""; 0]);
        assert_eq!(since(Some(4)), None, "a number of another node");
        let mut receiver = log.sender.subscribe();
        log.publish("changes", "d");
        let text = receiver.try_recv().unwrap();
        assert!(text.starts_with(b"id: 4\nevent: changes\n"), "{text:?}");
        assert_eq!(
            update_data(log.lock().updates_after(Some(3))).unwrap(),
            ["d"]
        );
    }

    #[test]
    fn log_is_bounded_and_old_cursors_are_rejected() {
        let log = UpdateLog::new();
        for _ in 0..=MAX_UPDATES {
            log.publish("changes", "x");
        }
        let missed = |from| {
            log.lock()
                .updates_after(Some(from))
                .map(|updates| updates.len())
        };
        assert_eq!((missed(0), missed(1)), (None, Some(MAX_UPDATES)));
        let large = "x".repeat(MAX_BYTES / 3);
        for _ in 0..4 {
            log.publish("changes", &large);
        }
        let inner = log.lock();
        assert_eq!(inner.updates.len(), 2);
        assert!(inner.bytes <= MAX_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn log_is_cleared_without_viewers() {
        let log = UpdateLog::new();
        log.publish("changes", "a");
        {
            let mut inner = log.lock();
            inner.is_collecting = true;
            inner.expected_until = Some(Instant::now() + CONNECT_WINDOW);
        }
        assert!(log.has_viewers(), "a page was made");
        tokio::time::advance(CONNECT_WINDOW).await;
        assert!(!log.has_viewers());
        assert_eq!(
            log.lock().updates_after(Some(1)),
            None,
            "there may be a gap"
        );
        assert_eq!(log.lock().updates.len(), 0);
        let number = log.lock().last;
        assert!(!log.has_viewers());
        assert_eq!(log.lock().last, number, "cleared only once");
        let receiver = log.sender.subscribe();
        assert!(log.has_viewers());
        drop(receiver);
    }
}
