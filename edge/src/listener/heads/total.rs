//! Total memory of the partial heads of all connections, and the choice of connections to close when it is exceeded.

use super::{ChargeTotal, HeadMeter, OPEN_BLOCK_TIMEOUT, lock};
use crate::listener::conn_registry::{ConnState, ShutdownOrder};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// Partial heads of all connections of a listener.
#[derive(Debug)]
pub(in crate::listener) struct HeadTotal {
    pub(in crate::listener) tally: ChargeTotal,
    /// Limit for one address.
    pub(in crate::listener) share: u64,
    start: Instant,
    closed: AtomicU64,
    /// Charges of connections that were requested to close and are not dropped yet.
    pub(in crate::listener) closing_charge: AtomicU64,
    /// Connections that wait to read until that is less.
    waiters: Mutex<Vec<Waker>>,
}

impl HeadTotal {
    /// Creates a total of at most so many bytes, and a part of it for each address: 16 is a sixteenth.
    pub(in crate::listener) fn new(bytes: u64, part: usize) -> Self {
        let part = u64::try_from(part.max(1)).unwrap_or(u64::MAX);
        Self {
            tally: ChargeTotal::new(bytes),
            share: bytes.div_ceil(part),
            start: Instant::now(),
            closed: AtomicU64::new(0),
            closing_charge: AtomicU64::new(0),
            waiters: Mutex::default(),
        }
    }

    pub(in crate::listener) fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns true if more is being closed than one search usually closes.
    pub(in crate::listener) fn is_closing_much(&self) -> bool {
        self.closing_charge.load(Ordering::Acquire) > self.tally.limit / 4
    }

    pub(in crate::listener) fn poll_closed(&self, cx: &Context<'_>) -> Poll<()> {
        if !self.is_closing_much() {
            return Poll::Ready(());
        }
        let mut waiting = lock(&self.waiters);
        // Checked again under the lock, because the last to finish takes the list under it.
        if !self.is_closing_much() {
            return Poll::Ready(());
        }
        waiting.push(cx.waker().clone());
        Poll::Pending
    }

    pub(in crate::listener) fn finish_closing(&self, charged: u64) {
        self.closing_charge.fetch_sub(charged, Ordering::AcqRel);
        let mut waiting = lock(&self.waiters);
        if self.is_closing_much() || waiting.is_empty() {
            return;
        }
        let woken = std::mem::take(&mut *waiting);
        drop(waiting);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Returns the number of connections closed since the last call.
    pub(in crate::listener) fn take_closed(&self) -> u64 {
        self.closed.swap(0, Ordering::Relaxed)
    }

    /// Closes connections.
    pub(in crate::listener) fn close_all(&self, conns: &[Arc<ConnState>]) {
        for conn in conns {
            // The memory is released when the task runs. It no longer counts in the total, or other connections would
            // be closed for it in the meantime.
            conn.heads().request_close(self);
            if conn.signal(ShutdownOrder::Abort) {
                self.closed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Starts a search for connections to close.
    pub(in crate::listener) fn search(&self) -> EvictionSearch {
        EvictionSearch {
            now: self.now(),
            candidates: Vec::new(),
        }
    }
}

/// Eviction order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::listener) enum EvictionOrder {
    Oldest,
    Largest,
}

/// Connections that may be closed because of their charge.
pub(in crate::listener) struct EvictionSearch {
    now: u64,
    candidates: Vec<EvictionCandidate>,
}

struct EvictionCandidate {
    is_in_use: bool,
    since: u64,
    charged: u64,
    conn: Arc<ConnState>,
}

impl EvictionSearch {
    /// Adds a connection if it may be closed. One with an active request is closed only for bytes that follow that
    /// request on HTTP/1.1, where well-behaved clients wait for the response, for an HTTP/2 header block that stays
    /// open, or for the streams of callers that are not authenticated.
    pub(in crate::listener) fn consider(&mut self, conn: &Arc<ConnState>) {
        let meter = conn.heads();
        let charged = meter.charged();
        if charged == 0 {
            return;
        }
        let since = meter.charged_since.load(Ordering::Relaxed);
        let in_use = conn.eviction_rank().is_none();
        let age = Duration::from_millis(self.now.saturating_sub(since));
        let may_close = match meter.is_block_open() {
            true => age >= OPEN_BLOCK_TIMEOUT,
            false => !conn.is_http2() || meter.has_counted_streams(),
        };
        if in_use && !may_close {
            return;
        }
        self.candidates.push(EvictionCandidate {
            is_in_use: in_use,
            since,
            charged,
            conn: Arc::clone(conn),
        });
    }

    /// Returns the connections to close so that the limit is met, except `newest`.
    pub(in crate::listener) fn select(
        mut self,
        tally: &ChargeTotal,
        order: EvictionOrder,
        newest: Option<&HeadMeter>,
    ) -> Vec<Arc<ConnState>> {
        let size = |charged: u64| match order {
            EvictionOrder::Oldest => 0,
            EvictionOrder::Largest => u64::MAX - charged,
        };
        self.candidates
            .sort_by_key(|one| (one.is_in_use, size(one.charged), one.since));
        let mut excess = tally.excess();
        let mut selected = Vec::new();
        for one in self.candidates {
            if excess == 0 {
                break;
            }
            if newest.is_some_and(|newest| std::ptr::eq(newest, one.conn.heads())) {
                continue;
            }
            excess = excess.saturating_sub(one.charged);
            selected.push(one.conn);
        }
        selected
    }
}
