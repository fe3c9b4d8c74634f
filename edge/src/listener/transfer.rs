//! Send progress of the responses of an HTTP/2 connection, for slow-client detection.
//!
//! HTTP/2 has a flow-control window per stream, so a client can leave one response unread while the connection itself
//! flows. Every chunk of a response body therefore counts its bytes as they are written. The sweep compares these
//! counts over time and resets stalled streams.

use super::conn_registry::ConnState;
use bytes::{Buf, Bytes};
use futures_util::task::AtomicWaker;
use hyper::rt::Executor;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// Minimum read rate in bytes per second. Without it, a client could hold a large response for days by reading one byte
/// at a time.
const MIN_READ_RATE: u128 = 1024;

/// Maximum size of a response that ends together with its last byte. The end of a longer one is sent separately, once
/// all of it is written: until then the stream can still be reset.
const MAX_IMMEDIATE_END_BYTES: u64 = 4 * 1024;

/// Time that a response waits to be sent before it counts as unread: longer than a reader that keeps up needs.
const UNREAD_DELAY: Duration = Duration::from_millis(250);

/// Memory of a waiting response besides its bytes: its stream, its headers and its counters.
pub(super) const RESPONSE_OVERHEAD: u64 = 4 * 1024;

/// Maximum counted bytes of a response. Larger ones have a reservation in the response memory budget.
const MAX_SMALL_RESPONSE: u64 = 64 * 1024;

/// Returns the bytes that a client must read within the stall timeout.
pub(super) fn min_bytes(stall: Duration) -> u64 {
    let bytes = stall.as_millis() * MIN_READ_RATE / 1000;
    u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
}

/// Stall detector: compares the sent bytes over consecutive stall timeouts.
#[derive(Debug, Default)]
pub(super) struct StallDetector {
    /// Start of the current interval, and the bytes sent by then.
    interval_start: Option<(Instant, u64)>,
}

impl StallDetector {
    /// Records that nothing waits to be sent.
    pub(super) fn reset(&mut self) {
        self.interval_start = None;
    }

    /// Checks something that waits, of which `sent` bytes are out. Returns true if it has stalled for `stall`.
    pub(super) fn is_stalled(&mut self, sent: u64, stall: Duration, now: Instant) -> bool {
        let (start, before) = *self.interval_start.get_or_insert((now, sent));
        if now.saturating_duration_since(start) < stall {
            return false;
        }
        if sent.wrapping_sub(before) < min_bytes(stall) {
            return true;
        }
        self.interval_start = Some((now, sent));
        false
    }
}

/// A request on an HTTP/2 connection, and the send progress of its response.
#[derive(Debug)]
pub(super) struct Transfer {
    conn: Arc<ConnState>,
    /// Task of the stream. Aborting it resets the stream.
    task: OnceLock<AbortHandle>,
    /// Body bytes that the HTTP library was given, and those that it wrote or dropped.
    queued_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    /// Woken when both are equal.
    drained_waker: AtomicWaker,
    stall_detector: Mutex<StallDetector>,
}

impl Transfer {
    fn new(conn: Arc<ConnState>) -> Arc<Self> {
        Arc::new(Self {
            conn,
            task: OnceLock::new(),
            queued_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            drained_waker: AtomicWaker::new(),
            stall_detector: Mutex::default(),
        })
    }

    /// Counts a chunk of the body.
    pub(super) fn track_chunk(self: &Arc<Self>, bytes: Bytes) -> CountedChunk {
        let before = self
            .queued_bytes
            .fetch_add(length(&bytes), Ordering::AcqRel);
        if before == 0 && !bytes.is_empty() {
            self.conn.add_transfer(self);
        }
        CountedChunk {
            bytes,
            counter: ChunkCounter::Transfer(Arc::clone(self)),
        }
    }

    /// Returns true if the end of the response may be sent before all of it is written.
    pub(super) fn may_end_immediately(&self) -> bool {
        self.queued_bytes.load(Ordering::Acquire) <= MAX_IMMEDIATE_END_BYTES
    }

    /// Waits until all queued bytes are written.
    pub(super) fn poll_drained(&self, cx: &Context<'_>) -> Poll<()> {
        self.drained_waker.register(cx.waker());
        if self.is_drained() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    fn is_drained(&self) -> bool {
        self.sent_bytes.load(Ordering::Acquire) == self.queued_bytes.load(Ordering::Acquire)
    }

    fn add_sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::AcqRel);
        if self.is_drained() {
            self.drained_waker.wake();
        }
    }

    /// Returns the memory of the response, if it has been waiting to be sent for a while.
    pub(super) fn unread_bytes(&self, now: Instant) -> u64 {
        let pace = self
            .stall_detector
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_waiting = |(began, _)| now.saturating_duration_since(began) >= UNREAD_DELAY;
        if !pace.interval_start.is_some_and(is_waiting) {
            return 0;
        }
        let sent = self.sent_bytes.load(Ordering::Acquire);
        let given = self.queued_bytes.load(Ordering::Acquire);
        given.wrapping_sub(sent).min(MAX_SMALL_RESPONSE) + RESPONSE_OVERHEAD
    }

    /// Resets the stream if it has been stalled for too long.
    pub(super) fn check(&self, stall: Duration, now: Instant) -> TransferCheck {
        let mut pace = self
            .stall_detector
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if self.is_drained() {
            pace.reset();
            return TransferCheck::Progressing;
        }
        let sent = self.sent_bytes.load(Ordering::Acquire);
        if !pace.is_stalled(sent, stall, now) {
            return TransferCheck::Progressing;
        }
        // Reported once: the reset takes effect later.
        pace.reset();
        match self.task.get() {
            Some(task) if !task.is_finished() => {
                task.abort();
                TransferCheck::Reset
            }
            _ => TransferCheck::NeedsAbort,
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if *self.queued_bytes.get_mut() > 0 {
            self.conn.remove_transfer(self);
        }
    }
}

/// Result of checking a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferCheck {
    /// The transfer progresses, or has nothing to send.
    Progressing,
    /// The transfer stalled, and its stream is being reset.
    Reset,
    /// The transfer stalled, and its end is already in the HTTP library's queue: only closing the connection frees it.
    NeedsAbort,
}

/// Chunk of a response body that reports its written bytes.
pub(super) struct CountedChunk {
    bytes: Bytes,
    counter: ChunkCounter,
}

/// Counter of the bytes of a chunk.
enum ChunkCounter {
    /// The HTTP/2 response.
    Transfer(Arc<Transfer>),
    /// The HTTP/1.1 connection, which is the stream.
    Connection(Arc<ConnState>),
    /// Only the response memory budget.
    Uncounted,
}

impl CountedChunk {
    /// Creates a chunk of an HTTP/1.1 response. A large one has a reservation in the response memory budget.
    pub(super) fn http1(bytes: Bytes, conn: &Arc<ConnState>) -> Self {
        let counter = match length(&bytes) {
            1..=MAX_SMALL_RESPONSE => {
                conn.add_unsent_bytes(length(&bytes));
                ChunkCounter::Connection(Arc::clone(conn))
            }
            _ => ChunkCounter::Uncounted,
        };
        Self { bytes, counter }
    }

    fn add_sent(&self, bytes: u64) {
        match &self.counter {
            ChunkCounter::Transfer(transfer) => transfer.add_sent(bytes),
            ChunkCounter::Connection(pulse) => pulse.subtract_unsent_bytes(bytes),
            ChunkCounter::Uncounted => {}
        }
    }
}

impl Buf for CountedChunk {
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

impl Drop for CountedChunk {
    fn drop(&mut self) {
        // A stream that was reset drops its unsent data.
        if !self.bytes.is_empty() {
            self.add_sent(length(&self.bytes));
        }
    }
}

fn length(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Connects each request of a connection with the task of its stream: the HTTP library first calls the service and
/// then, before anything else, spawns the task.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamExecutor {
    next: Arc<Mutex<Option<Arc<Transfer>>>>,
}

impl StreamExecutor {
    fn lock_next(&self) -> MutexGuard<'_, Option<Arc<Transfer>>> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the transfer of a request whose stream is spawned next.
    pub(super) fn begin_transfer(&self, conn: &Arc<ConnState>) -> Arc<Transfer> {
        let transfer = Transfer::new(Arc::clone(conn));
        *self.lock_next() = Some(Arc::clone(&transfer));
        transfer
    }
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let transfer = self.lock_next().take();
        let task = tokio::spawn(stream);
        if let Some(transfer) = transfer {
            // Set once: each request has its own.
            let _ = transfer.task.set(task.abort_handle());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::conn_registry::ConnRegistry;

    const SECOND: Duration = Duration::from_secs(1);
    const STALL: Duration = Duration::from_secs(10);

    #[test]
    fn transfer_below_the_minimum_rate_is_stalled() {
        let start = Instant::now();
        for (rate, expected) in [(0, Some(10)), (100, Some(10)), (1024, None)] {
            let mut pace = StallDetector::default();
            let stalled = (0..100).find(|&second| {
                pace.is_stalled(u64::from(second) * rate, STALL, start + SECOND * second)
            });
            assert_eq!(stalled, expected, "{rate} bytes per second");
        }
    }

    #[test]
    fn transfer_with_nothing_to_send_is_not_stalled() {
        let registry = ConnRegistry::new();
        let registration = registry.register();
        let transfer = Transfer::new(Arc::clone(registration.conn()));
        let start = Instant::now();
        for second in 0..100 {
            // Each event is written at once.
            drop(transfer.track_chunk(Bytes::from_static(b"event")));
            assert_eq!(
                transfer.check(STALL, start + SECOND * second),
                TransferCheck::Progressing
            );
        }
        let _unsent = transfer.track_chunk(Bytes::from_static(b"event"));
        let first = (100..200)
            .map(|second| transfer.check(STALL, start + SECOND * second))
            .position(|checked| checked != TransferCheck::Progressing);
        assert_eq!(first, Some(10));
    }

    #[test]
    fn small_http1_chunk_counts_until_written_or_dropped() {
        let registry = ConnRegistry::new();
        let registration = registry.register();
        let conn = registration.conn();
        let small = Bytes::from(vec![b'x'; 64 * 1024]);
        let mut first = CountedChunk::http1(small.clone(), conn);
        let second = CountedChunk::http1(small, conn);
        let large = CountedChunk::http1(Bytes::from(vec![b'x'; 64 * 1024 + 1]), conn);
        assert_eq!(conn.unsent_bytes(), 128 * 1024);
        first.advance(1024);
        assert_eq!(conn.unsent_bytes(), 127 * 1024);
        drop((first, second, large));
        assert_eq!(conn.unsent_bytes(), 0);
    }

    #[test]
    fn chunk_reports_written_and_dropped_bytes() {
        let registry = ConnRegistry::new();
        let registration = registry.register();
        let transfer = Transfer::new(Arc::clone(registration.conn()));
        let mut chunk = transfer.track_chunk(Bytes::from_static(b"0123456789"));
        chunk.advance(3);
        assert_eq!(chunk.copy_to_bytes(2), "34");
        assert_eq!(transfer.sent_bytes.load(Ordering::Acquire), 5);
        drop(chunk);
        assert!(transfer.is_drained());
        assert_eq!(registration.conn().transfers(), 1);
        drop(transfer);
        assert_eq!(registration.conn().transfers(), 0);
    }
}
