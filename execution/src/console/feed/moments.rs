//! What was told lately, by number. A page says by which number it was made, and is told what came after:
//! all of it and each once, or that it is too old. What is told is not known here.

use bytes::Bytes;
use interzone_hub::ports::{Store, Wake};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::time::Instant;

/// How many moments a viewer may fall behind.
const BEHIND: usize = 16;
/// How many moments are kept for pages that are yet to listen, and browsers that come back.
const KEPT: usize = 64;
/// And how many bytes.
const BYTES: usize = 512 * 1024;
/// How long a page that was made is waited for.
const EXPECTED: Duration = Duration::from_secs(20);

/// The moments, and those who listen to them.
pub(super) struct Moments {
    tell: broadcast::Sender<Bytes>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The number of the last moment.
    last: u64,
    /// The latest moments, without a gap up to the last.
    kept: VecDeque<Bytes>,
    bytes: usize,
    /// Until when somebody may come.
    expected: Option<Instant>,
    is_collecting: bool,
    /// What happens since a page was made, until it is taken up by whoever collects.
    wakes: Option<broadcast::Receiver<Wake>>,
}

/// Somebody who listens from now on.
pub(super) struct Joined {
    /// What came since their page was made. None if that was too long ago to tell.
    pub(super) since: Option<VecDeque<Bytes>>,
    /// The number of the last moment.
    pub(super) last: u64,
    pub(super) news: broadcast::Receiver<Bytes>,
}

impl Moments {
    pub(super) fn new() -> Self {
        Self {
            tell: broadcast::Sender::new(BEHIND),
            inner: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number that a page carries. To be asked before the page reads what it shows: whatever changes
    /// after that is in a moment with a higher number.
    pub(super) fn mark(&self, store: &dyn Store) -> u64 {
        let mut inner = self.lock();
        inner.expected = Some(Instant::now() + EXPECTED);
        inner.begin(store);
        inner.last
    }

    /// Listens. Nothing is between what came since the page was made and what comes from now on.
    pub(super) fn join(&self, store: &dyn Store, from: Option<u64>) -> Joined {
        let mut inner = self.lock();
        inner.begin(store);
        Joined {
            since: inner.since(from),
            last: inner.last,
            news: self.tell.subscribe(),
        }
    }

    /// Whether somebody listens, or may soon. If not, what is kept is forgotten.
    pub(super) fn is_wanted(&self) -> bool {
        let mut inner = self.lock();
        let expected = inner.expected.is_some_and(|until| Instant::now() < until);
        let wanted = expected || self.tell.receiver_count() > 0;
        if !wanted && inner.is_collecting {
            // What happens now has no number, so older marks are good no longer.
            *inner = Inner {
                last: inner.last + 1,
                ..Inner::default()
            };
        }
        wanted
    }

    /// What happens since a page was made, for whoever collects it.
    pub(super) fn take_wakes(&self) -> Option<broadcast::Receiver<Wake>> {
        self.lock().wakes.take()
    }

    /// Tells a moment, and keeps it.
    pub(super) fn tell(&self, event: &str, data: &str) {
        let mut inner = self.lock();
        inner.last += 1;
        let text = Bytes::from(format!(
            "id: {}\nevent: {event}\ndata: {data}\n\n",
            inner.last
        ));
        inner.keep(text.clone());
        // An error means that nobody listens. It is told under the lock, or somebody who joins meanwhile
        // would hear it twice or never.
        let _ = self.tell.send(text);
    }

    /// Tells those who listen now something that no page has to catch up with.
    pub(super) fn mention(&self, text: &'static str) {
        let _ = self.tell.send(Bytes::from_static(text.as_bytes()));
    }
}

impl Inner {
    fn begin(&mut self, store: &dyn Store) {
        if !self.is_collecting {
            self.is_collecting = true;
            self.wakes = Some(store.wakes());
        }
    }

    fn since(&self, from: Option<u64>) -> Option<VecDeque<Bytes>> {
        let missed = match from {
            Some(from) => self.last.checked_sub(from)?,
            None => 0,
        };
        let missed = usize::try_from(missed).ok()?;
        let first = self.kept.len().checked_sub(missed)?;
        Some(self.kept.range(first..).cloned().collect())
    }

    fn keep(&mut self, text: Bytes) {
        self.bytes += text.len();
        self.kept.push_back(text);
        while self.kept.len() > KEPT || self.bytes > BYTES {
            let Some(oldest) = self.kept.pop_front() else {
                break;
            };
            self.bytes -= oldest.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(kept: Option<VecDeque<Bytes>>) -> Option<Vec<String>> {
        let data = |text: &Bytes| {
            let text = std::str::from_utf8(text).unwrap();
            text.split("data: ").nth(1).unwrap().trim().to_owned()
        };
        Some(kept?.iter().map(data).collect())
    }

    #[test]
    fn a_page_is_told_what_came_after_it_and_nothing_twice() {
        let moments = Moments::new();
        for data in ["a", "b", "c"] {
            moments.tell("changes", data);
        }
        let since = |from| texts(moments.lock().since(from));
        assert_eq!(since(Some(1)).unwrap(), ["b", "c"]);
        assert_eq!(since(Some(3)).unwrap(), [""; 0]);
        assert_eq!(since(None).unwrap(), [""; 0]);
        assert_eq!(since(Some(4)), None, "it is a number of another node");
        let mut news = moments.tell.subscribe();
        moments.tell("changes", "d");
        let text = news.try_recv().unwrap();
        assert!(text.starts_with(b"id: 4\nevent: changes\n"), "{text:?}");
        assert_eq!(texts(moments.lock().since(Some(3))).unwrap(), ["d"]);
    }

    #[test]
    fn few_moments_are_kept_and_a_page_that_is_older_hears_so() {
        let moments = Moments::new();
        for _ in 0..=KEPT {
            moments.tell("changes", "x");
        }
        let missed = |from| moments.lock().since(Some(from)).map(|kept| kept.len());
        assert_eq!((missed(0), missed(1)), (None, Some(KEPT)));
        let large = "x".repeat(BYTES / 3);
        for _ in 0..4 {
            moments.tell("changes", &large);
        }
        let inner = moments.lock();
        assert_eq!(inner.kept.len(), 2);
        assert!(inner.bytes <= BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn what_nobody_waits_for_is_forgotten() {
        let moments = Moments::new();
        moments.tell("changes", "a");
        {
            let mut inner = moments.lock();
            inner.is_collecting = true;
            inner.expected = Some(Instant::now() + EXPECTED);
        }
        assert!(moments.is_wanted(), "a page was made");
        tokio::time::advance(EXPECTED).await;
        assert!(!moments.is_wanted());
        assert_eq!(moments.lock().since(Some(1)), None, "there may be a gap");
        assert_eq!(moments.lock().kept.len(), 0);
        let number = moments.lock().last;
        assert!(!moments.is_wanted());
        assert_eq!(moments.lock().last, number, "once is enough");
        let listening = moments.tell.subscribe();
        assert!(moments.is_wanted());
        drop(listening);
    }
}
