//! How far the responses of an HTTP/2 connection have been sent.
//!
//! HTTP/2 has a flow-control window per stream, so a caller can leave one response unread while the
//! connection itself flows. Every piece of a response body therefore counts its bytes as they are written.
//! The sweep compares these counts over time and resets the streams that stand still.

use super::pulse::Pulse;
use bytes::{Buf, Bytes};
use futures_util::task::AtomicWaker;
use hyper::rt::Executor;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The slowest reader that is waited for, in bytes per second. Without a least rate, a caller could hold a
/// large answer for days by taking one byte at a time.
const LEAST_RATE: u128 = 1024;

/// A response of at most this many bytes ends together with its last byte. The end of a longer one is sent
/// apart, once all of it is written: until then the stream can still be reset.
const ENDS_AT_ONCE: u64 = 4 * 1024;

/// How long a response waits to be sent before it counts as unread: longer than a reader that keeps up needs.
const UNREAD_AFTER: Duration = Duration::from_millis(250);

/// What a response that waits takes beside its bytes: its stream, its headers and what counts it.
pub(super) const OVERHEAD: u64 = 4 * 1024;

/// What counts of a response at most. Larger ones have a reservation in the memory for answers.
const SMALL: u64 = 64 * 1024;

/// How many bytes a reader has to take in the time that it may stand still.
pub(super) fn least_bytes(stall: Duration) -> u64 {
    let bytes = stall.as_millis() * LEAST_RATE / 1000;
    u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
}

/// Whether something that is to be sent moves: what was sent is compared over one stall time after another.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// When the present interval began, and how much had been sent by then.
    began: Option<(Instant, u64)>,
}

impl Pace {
    /// Nothing waits to be sent.
    pub(super) fn rest(&mut self) {
        self.began = None;
    }

    /// Something waits, and `sent` bytes are out. Whether it has stood still for `stall`.
    pub(super) fn is_stalled(&mut self, sent: u64, stall: Duration, now: Instant) -> bool {
        let (began, before) = *self.began.get_or_insert((now, sent));
        if now.saturating_duration_since(began) < stall {
            return false;
        }
        if sent.wrapping_sub(before) < least_bytes(stall) {
            return true;
        }
        self.began = Some((now, sent));
        false
    }
}

/// One request on an HTTP/2 connection, and how much of its response has been sent.
#[derive(Debug)]
pub(super) struct Transfer {
    pulse: Arc<Pulse>,
    /// Runs the stream. Aborting it resets the stream.
    task: OnceLock<AbortHandle>,
    /// Bytes of the body that the HTTP library was given, and those that it wrote or dropped.
    given: AtomicU64,
    sent: AtomicU64,
    /// Waits until both are equal.
    drained: AtomicWaker,
    pace: Mutex<Pace>,
}

impl Transfer {
    fn new(pulse: Arc<Pulse>) -> Arc<Self> {
        Arc::new(Self {
            pulse,
            task: OnceLock::new(),
            given: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            drained: AtomicWaker::new(),
            pace: Mutex::default(),
        })
    }

    /// Takes a piece of the body into account.
    pub(super) fn give(self: &Arc<Self>, bytes: Bytes) -> Piece {
        let before = self.given.fetch_add(length(&bytes), Ordering::AcqRel);
        if before == 0 && !bytes.is_empty() {
            self.pulse.add_transfer(self);
        }
        Piece {
            bytes,
            counter: Counter::Transfer(Arc::clone(self)),
        }
    }

    /// Whether the end of the response may be sent before all of it is written.
    pub(super) fn may_end_at_once(&self) -> bool {
        self.given.load(Ordering::Acquire) <= ENDS_AT_ONCE
    }

    /// Waits until all that was given is written.
    pub(super) fn poll_drained(&self, cx: &Context<'_>) -> Poll<()> {
        self.drained.register(cx.waker());
        if self.is_drained() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    fn is_drained(&self) -> bool {
        self.sent.load(Ordering::Acquire) == self.given.load(Ordering::Acquire)
    }

    fn add_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Ordering::AcqRel);
        if self.is_drained() {
            self.drained.wake();
        }
    }

    /// The memory that the response takes, if it has been waiting to be sent for a while.
    pub(super) fn unread(&self, now: Instant) -> u64 {
        let pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |(began, _)| now.saturating_duration_since(began) >= UNREAD_AFTER;
        if !pace.began.is_some_and(waits) {
            return 0;
        }
        let sent = self.sent.load(Ordering::Acquire);
        let given = self.given.load(Ordering::Acquire);
        given.wrapping_sub(sent).min(SMALL) + OVERHEAD
    }

    /// Resets the stream if it has stood still for too long.
    pub(super) fn check(&self, stall: Duration, now: Instant) -> Checked {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_drained() {
            pace.rest();
            return Checked::Moves;
        }
        let sent = self.sent.load(Ordering::Acquire);
        if !pace.is_stalled(sent, stall, now) {
            return Checked::Moves;
        }
        // Reported once: the reset may need a moment.
        pace.rest();
        match self.task.get() {
            Some(task) if !task.is_finished() => {
                task.abort();
                Checked::Reset
            }
            _ => Checked::OutOfReach,
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if *self.given.get_mut() > 0 {
            self.pulse.remove_transfer(self);
        }
    }
}

/// What a check of a transfer found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checked {
    /// It moves, or has nothing to send.
    Moves,
    /// It stood still, and its stream is being reset.
    Reset,
    /// It stands still, and its end is already in the HTTP library's queue: only the end of the connection
    /// frees it.
    OutOfReach,
}

/// A piece of a response body. It reports what was written of it.
pub(super) struct Piece {
    bytes: Bytes,
    counter: Counter,
}

/// Where the bytes of a piece count.
enum Counter {
    /// In the response of HTTP/2.
    Transfer(Arc<Transfer>),
    /// In the connection of HTTP/1.1, which is the stream.
    Connection(Arc<Pulse>),
    /// In the memory for answers alone.
    Nowhere,
}

impl Piece {
    /// A piece of a response on HTTP/1.1. A large one has a reservation in the memory for answers.
    pub(super) fn http1(bytes: Bytes, pulse: &Arc<Pulse>) -> Self {
        let counter = match length(&bytes) {
            1..=SMALL => {
                pulse.add_unsent(length(&bytes));
                Counter::Connection(Arc::clone(pulse))
            }
            _ => Counter::Nowhere,
        };
        Self { bytes, counter }
    }

    fn add_sent(&self, bytes: u64) {
        match &self.counter {
            Counter::Transfer(transfer) => transfer.add_sent(bytes),
            Counter::Connection(pulse) => pulse.subtract_unsent(bytes),
            Counter::Nowhere => {}
        }
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, count: usize) {
        let before = length(&self.bytes);
        self.bytes.advance(count);
        self.add_sent(before - length(&self.bytes));
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        let taken = self.bytes.copy_to_bytes(count);
        self.add_sent(length(&taken));
        taken
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        // A stream that was reset drops what it has not sent.
        if !self.bytes.is_empty() {
            self.add_sent(length(&self.bytes));
        }
    }
}

fn length(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Connects each request of a connection with the task that runs its stream: the HTTP library first calls
/// the service and then, before anything else, spawns the task.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamExecutor {
    next: Arc<Mutex<Option<Arc<Transfer>>>>,
}

impl StreamExecutor {
    fn next(&self) -> MutexGuard<'_, Option<Arc<Transfer>>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the response to a request whose stream is spawned next.
    pub(super) fn begin(&self, pulse: &Arc<Pulse>) -> Arc<Transfer> {
        let transfer = Transfer::new(Arc::clone(pulse));
        *self.next() = Some(Arc::clone(&transfer));
        transfer
    }
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let transfer = self.next().take();
        let task = tokio::spawn(stream);
        if let Some(transfer) = transfer {
            // It is set once: each request has its own.
            let _ = transfer.task.set(task.abort_handle());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::pulse::Pulses;

    const SECOND: Duration = Duration::from_secs(1);
    const STALL: Duration = Duration::from_secs(10);

    #[test]
    fn pace_is_stalled_below_the_least_rate_only() {
        let start = Instant::now();
        for (rate, expected) in [(0, Some(10)), (100, Some(10)), (1024, None)] {
            let mut pace = Pace::default();
            let stalled = (0..100).find(|&second| {
                pace.is_stalled(u64::from(second) * rate, STALL, start + SECOND * second)
            });
            assert_eq!(stalled, expected, "{rate} bytes per second");
        }
    }

    #[test]
    fn transfer_with_nothing_to_send_is_never_stalled() {
        let pulses = Pulses::new();
        let entry = pulses.enter();
        let transfer = Transfer::new(Arc::clone(entry.pulse()));
        let start = Instant::now();
        for second in 0..100 {
            // Each event is written at once.
            drop(transfer.give(Bytes::from_static(b"event")));
            assert_eq!(
                transfer.check(STALL, start + SECOND * second),
                Checked::Moves
            );
        }
        let _unsent = transfer.give(Bytes::from_static(b"event"));
        let first = (100..200)
            .map(|second| transfer.check(STALL, start + SECOND * second))
            .position(|checked| checked != Checked::Moves);
        assert_eq!(first, Some(10));
    }

    #[test]
    fn small_piece_on_http1_counts_until_it_is_written_or_dropped() {
        let pulses = Pulses::new();
        let entry = pulses.enter();
        let pulse = entry.pulse();
        let small = Bytes::from(vec![b'x'; 64 * 1024]);
        let mut first = Piece::http1(small.clone(), pulse);
        let second = Piece::http1(small, pulse);
        let large = Piece::http1(Bytes::from(vec![b'x'; 64 * 1024 + 1]), pulse);
        assert_eq!(pulse.unsent(), 128 * 1024);
        first.advance(1024);
        assert_eq!(pulse.unsent(), 127 * 1024);
        drop((first, second, large));
        assert_eq!(pulse.unsent(), 0);
    }

    #[test]
    fn piece_reports_what_is_written_and_what_is_dropped() {
        let pulses = Pulses::new();
        let entry = pulses.enter();
        let transfer = Transfer::new(Arc::clone(entry.pulse()));
        let mut piece = transfer.give(Bytes::from_static(b"0123456789"));
        piece.advance(3);
        assert_eq!(piece.copy_to_bytes(2), "34");
        assert_eq!(transfer.sent.load(Ordering::Acquire), 5);
        drop(piece);
        assert!(transfer.is_drained());
        assert_eq!(entry.pulse().transfers(), 1);
        drop(transfer);
        assert_eq!(entry.pulse().transfers(), 0);
    }
}
