//! What the unfinished heads of all connections take, and which connections are closed when that is too much. What one
//! connection holds is counted elsewhere.

use super::{BLOCK_PATIENCE, HeadMeter, Tally, lock};
use crate::listener::pulse::{Order, Pulse};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// What all connections of a listener hold.
#[derive(Debug)]
pub(in crate::listener) struct HeadTotal {
    pub(in crate::listener) tally: Tally,
    /// The limit for one address.
    pub(in crate::listener) share: u64,
    began: Instant,
    closed: AtomicU64,
    /// What connections hold that were told to close and have not been dropped.
    pub(in crate::listener) closing: AtomicU64,
    /// Connections that read on when that is less.
    waiting: Mutex<Vec<Waker>>,
}

impl HeadTotal {
    /// At most so many bytes, and a part of them for each address: 16 is a sixteenth.
    pub(in crate::listener) fn new(bytes: u64, part: usize) -> Self {
        let part = u64::try_from(part.max(1)).unwrap_or(u64::MAX);
        Self {
            tally: Tally::new(bytes),
            share: bytes.div_ceil(part),
            began: Instant::now(),
            closed: AtomicU64::new(0),
            closing: AtomicU64::new(0),
            waiting: Mutex::default(),
        }
    }

    pub(in crate::listener) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether more is being closed than one search usually closes.
    fn is_closing_much(&self) -> bool {
        self.closing.load(Ordering::Acquire) > self.tally.limit / 4
    }

    pub(in crate::listener) fn poll_closed(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.is_closing_much() {
            return Poll::Ready(());
        }
        let mut waiting = lock(&self.waiting);
        // Looked at under the lock, because the last to finish takes the list under it.
        if !self.is_closing_much() {
            return Poll::Ready(());
        }
        waiting.push(cx.waker().clone());
        Poll::Pending
    }

    pub(in crate::listener) fn finish_closing(&self, charged: u64) {
        self.closing.fetch_sub(charged, Ordering::AcqRel);
        let mut waiting = lock(&self.waiting);
        if self.is_closing_much() || waiting.is_empty() {
            return;
        }
        let woken = std::mem::take(&mut *waiting);
        drop(waiting);
        woken.into_iter().for_each(Waker::wake);
    }

    /// How many connections have been closed since this was last asked.
    pub(in crate::listener) fn take_closed(&self) -> u64 {
        self.closed.swap(0, Ordering::Relaxed)
    }

    /// Closes connections.
    pub(in crate::listener) fn close(&self, pulses: &[Arc<Pulse>]) {
        for pulse in pulses {
            // Its memory is released when its task runs. It no longer counts in the tally, or others would be closed for
            // it meanwhile.
            pulse.heads().close(self);
            if pulse.give(Order::Cut) {
                self.closed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// A search for connections to close.
    pub(in crate::listener) fn search(&self) -> Search {
        Search {
            now: self.now(),
            found: Vec::new(),
        }
    }
}

/// Which of several connections go first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::listener) enum First {
    Oldest,
    Largest,
}

/// Connections that may be closed because of what they hold.
pub(in crate::listener) struct Search {
    now: u64,
    found: Vec<Candidate>,
}

struct Candidate {
    in_use: bool,
    since: u64,
    charged: u64,
    pulse: Arc<Pulse>,
}

impl Search {
    /// Looks at a connection. One with a running request is closed only for what follows that request on HTTP/1.1,
    /// where honest clients wait for the response, or for a header block of HTTP/2 that stays open.
    pub(in crate::listener) fn add(&mut self, pulse: &Arc<Pulse>) {
        let meter = pulse.heads();
        let charged = meter.charged();
        if charged == 0 {
            return;
        }
        let since = meter.since.load(Ordering::Relaxed);
        let in_use = pulse.rank().is_none();
        let age = Duration::from_millis(self.now.saturating_sub(since));
        let may_close = match meter.is_block_open() {
            true => age >= BLOCK_PATIENCE,
            false => !pulse.is_multiplexed(),
        };
        if in_use && !may_close {
            return;
        }
        self.found.push(Candidate {
            in_use,
            since,
            charged,
            pulse: Arc::clone(pulse),
        });
    }

    /// The connections to close so that the tally is kept, but not `newest`.
    pub(in crate::listener) fn select(
        mut self,
        tally: &Tally,
        first: First,
        newest: Option<&HeadMeter>,
    ) -> Vec<Arc<Pulse>> {
        let size = |charged: u64| match first {
            First::Oldest => 0,
            First::Largest => u64::MAX - charged,
        };
        self.found
            .sort_by_key(|one| (one.in_use, size(one.charged), one.since));
        let mut excess = tally.excess();
        let mut selected = Vec::new();
        for one in self.found {
            if excess == 0 {
                break;
            }
            if newest.is_some_and(|newest| std::ptr::eq(newest, one.pulse.heads())) {
                continue;
            }
            excess = excess.saturating_sub(one.charged);
            selected.push(one.pulse);
        }
        selected
    }
}
