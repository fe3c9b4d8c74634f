//! Memory limit for received bytes that belong to no request yet: a handshake, an incomplete TLS record, a partial
//! head, an open HTTP/2 header block. Each connection is bounded by its head limits, but there are many connections,
//! so all of them together and those of one address are bounded too. The streams of an HTTP/2 connection on which no
//! caller has been authenticated count too: their requests cost little to send and much to hold.
//!
//! A connection counts in its own fields. Only one that holds more than [`FREE_BYTES`] counts in the totals, so an
//! ordinary request touches no shared state.

#[cfg(test)]
mod tests;
mod total;

pub(super) use total::{EvictionOrder, HeadTotal};

use super::addresses::AddressTable;
use crate::budget::AddressPrefix;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// Bytes that are not counted. A connection has buffers of this size before the first byte arrives.
const FREE_BYTES: usize = 4 * 1024;
/// Charge for each 4 KiB: the TLS and HTTP libraries double their buffers as they grow.
const CHARGE_PER_STEP: u64 = 8 * 1024;
/// Minimum charge of an HTTP/2 header block of which a part has been decoded. A field of one byte can refer to a table,
/// and then takes a hundred bytes.
const MIN_OPEN_BLOCK_BYTES: usize = 32 * 1024;
/// Minimum charge of bytes behind a running HTTP/1.1 request, if they are more than [`FREE_BYTES`]. The HTTP library
/// reads once and no more; the TLS library may hold as much again.
const MIN_PIPELINED_BYTES: usize = 32 * 1024;
/// Maximum bytes that the HTTP library buffers on an HTTP/1.1 connection.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Tolerated error of the estimated size of a head.
const HEAD_ESTIMATE_TOLERANCE: usize = 1024;
/// Time that a header block may be open on a connection with active requests before it may be evicted. Other frames
/// cannot arrive until it ends, so a well-behaved client sends it at once.
const OPEN_BLOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the memory charged for so many bytes.
fn charge(bytes: usize) -> u64 {
    if bytes <= FREE_BYTES {
        return 0;
    }
    let steps = u64::try_from(bytes.div_ceil(FREE_BYTES)).unwrap_or(u64::MAX);
    steps.saturating_mul(CHARGE_PER_STEP)
}

/// Sum of charges, and its limit.
#[derive(Debug)]
pub(super) struct ChargeTotal {
    limit: u64,
    charged: AtomicU64,
    /// Sum above which connections to close are searched: the limit, or more if a search did not find enough.
    search_above: AtomicU64,
}

impl ChargeTotal {
    pub(super) fn new(limit: u64) -> Self {
        Self {
            limit,
            charged: AtomicU64::new(0),
            search_above: AtomicU64::new(limit),
        }
    }

    pub(super) fn charged(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// Adds to the sum. Returns true if connections must be closed.
    fn add(&self, bytes: u64) -> bool {
        let sum = self.charged.fetch_add(bytes, Ordering::Relaxed) + bytes;
        sum > self.search_above.load(Ordering::Relaxed)
    }

    fn subtract(&self, bytes: u64) {
        let sum = self.charged.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        if sum <= self.limit {
            self.search_above.store(self.limit, Ordering::Relaxed);
        }
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.charged() > self.limit
    }

    /// Returns the excess to release. It is a quarter of the limit more than necessary, so that searches are rare.
    fn excess(&self) -> u64 {
        match self.charged() {
            charged if charged > self.limit => charged - (self.limit - self.limit / 4),
            _ => 0,
        }
    }

    /// Records a finished search. If it closed too little, there is no other search until the sum has grown.
    pub(super) fn finish_search(&self) {
        let threshold = match self.is_exceeded() {
            true => self.charged().saturating_add(self.limit / 8),
            false => self.limit,
        };
        self.search_above.store(threshold, Ordering::Relaxed);
    }
}

/// Totals that the charges of a connection count in.
#[derive(Debug)]
pub(super) struct HeadAccount {
    pub(super) addresses: Arc<AddressTable>,
    pub(super) prefix: AddressPrefix,
    pub(super) of_address: Arc<ChargeTotal>,
    /// Requests in flight of the address whose connections have no authenticated caller.
    pub(super) requests: Arc<AtomicUsize>,
}

/// Activity of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum ConnActivity {
    /// No active request.
    Idle,
    /// An active HTTP/1.1 request.
    Http1,
    /// Active HTTP/2 requests.
    Http2,
}

/// Bytes of one connection that belong to no request.
#[derive(Debug, Default)]
pub(super) struct HeadMeter {
    account: OnceLock<HeadAccount>,
    /// Bytes of the handshake, then of an incomplete TLS record.
    record_bytes: AtomicUsize,
    /// Bytes of a partial HTTP/1.1 head, or of an incomplete HTTP/2 frame.
    buffered_bytes: AtomicUsize,
    /// HTTP/1.1 bytes received since the last request ended.
    idle_bytes: AtomicUsize,
    /// The body of an HTTP/1.1 request is being received, so buffered bytes may belong to it.
    receiving_body: AtomicBool,
    /// Bytes of an open HTTP/2 header block.
    block_bytes: AtomicUsize,
    /// Bytes of the streams of an HTTP/2 connection without an authenticated caller.
    stream_bytes: AtomicUsize,
    /// Current charge.
    charged: AtomicU64,
    /// Start of the current charge, in milliseconds of the listener's clock.
    charged_since: AtomicU64,
    /// Nothing is counted any more.
    ended: AtomicBool,
    closing: Mutex<ClosingState>,
}

/// State of closing a connection because of its charge.
#[derive(Debug, Default)]
enum ClosingState {
    #[default]
    No,
    /// Requested, when so much was charged.
    Requested(u64),
    /// The socket is dropped.
    Done,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HeadMeter {
    /// Sets the account, once the address is known.
    pub(super) fn set_account(&self, account: HeadAccount) {
        // Set once, when the connection is accepted.
        let _ = self.account.set(account);
    }

    /// Returns the counter of the requests in flight of the address.
    pub(super) fn requests_of_address(&self) -> Option<&AtomicUsize> {
        self.account.get().map(|account| &*account.requests)
    }

    /// Sets the bytes of the handshake, or of an incomplete TLS record.
    pub(super) fn set_record(&self, bytes: usize) {
        self.record_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Adds bytes received on an HTTP/1.1 connection. One task reads a connection, so plain stores are enough.
    pub(super) fn add_received(&self, bytes: usize, is_idle: bool) {
        let add = |to: &AtomicUsize| {
            let sum = to.load(Ordering::Relaxed).saturating_add(bytes);
            to.store(sum, Ordering::Relaxed);
        };
        add(&self.buffered_bytes);
        if is_idle {
            add(&self.idle_bytes);
        }
    }

    /// Records a complete HTTP/1.1 head of at least so many bytes. Bytes received after it, in the same read, stay.
    pub(super) fn finish_head(&self, bytes: usize) {
        let buffered = self.buffered_bytes.load(Ordering::Relaxed);
        let while_idle = self.idle_bytes.load(Ordering::Relaxed);
        let mut remaining = buffered.saturating_sub(bytes);
        // If the head needed another read, the remainder arrived with that one.
        if while_idle > 0 {
            remaining = remaining.min(while_idle);
        }
        if remaining < HEAD_ESTIMATE_TOLERANCE {
            remaining = 0;
        }
        self.buffered_bytes.store(remaining, Ordering::Relaxed);
        self.idle_bytes.store(0, Ordering::Relaxed);
    }

    /// Records bytes of an HTTP/1.1 request body.
    pub(super) fn consume_body(&self, bytes: usize) {
        let subtract = |buffered: usize| Some(buffered.saturating_sub(bytes));
        // Cannot fail: there is always a new value.
        let _ = self
            .buffered_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract);
    }

    /// Sets whether the body of the starting HTTP/1.1 request is still to arrive.
    pub(super) fn set_receiving_body(&self, receiving: bool) {
        self.receiving_body.store(receiving, Ordering::Relaxed);
    }

    /// Records that an HTTP/1.1 body is complete: bytes buffered now belong to no request.
    pub(super) fn finish_body(&self) {
        // Chunk headers are estimated, so a long body may leave more than there can be.
        let buffered = self.buffered_http1();
        self.buffered_bytes.store(buffered, Ordering::Relaxed);
        self.receiving_body.store(false, Ordering::Relaxed);
    }

    /// Returns the bytes that the HTTP library buffers on an HTTP/1.1 connection.
    pub(super) fn buffered_http1(&self) -> usize {
        self.buffered_bytes
            .load(Ordering::Relaxed)
            .min(READ_BUFFER_BYTES)
    }

    /// Sets the bytes of an incomplete HTTP/2 frame and of a header block. A part of the block may have been decoded.
    pub(super) fn set_frames(&self, frame: usize, block: usize, is_decoded: bool) {
        let block = if is_decoded {
            block.max(MIN_OPEN_BLOCK_BYTES)
        } else {
            block
        };
        self.buffered_bytes.store(frame, Ordering::Relaxed);
        self.block_bytes.store(block, Ordering::Relaxed);
    }

    /// Sets the bytes of the streams of an HTTP/2 connection without an authenticated caller.
    pub(super) fn set_streams(&self, bytes: usize) {
        self.stream_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns true if streams are counted.
    pub(super) fn has_counted_streams(&self) -> bool {
        self.stream_bytes.load(Ordering::Relaxed) > 0
    }

    /// Returns true if counted streams must not be started: the connection is being closed, or so many others are
    /// that their memory must be released first.
    pub(super) fn must_reject_streams(&self) -> bool {
        let is_closing_much = |account: &HeadAccount| account.addresses.heads.is_closing_much();
        self.has_counted_streams()
            && (self.ended.load(Ordering::Relaxed)
                || self.account.get().is_some_and(is_closing_much))
    }

    /// Returns true if an HTTP/2 header block is open.
    pub(super) fn is_block_open(&self) -> bool {
        self.block_bytes.load(Ordering::Relaxed) > 0
    }

    /// Returns the current charge.
    pub(super) fn charged(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// Stops counting: the connection is closed, is being closed, or no longer serves HTTP.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.update_charge(ConnActivity::Http2);
    }

    /// Waits while connections that are being closed hold much memory, if this connection is charged too. Without this,
    /// all ready data would be read before the task of the first of them runs.
    pub(super) fn poll_may_read(&self, cx: &Context<'_>) -> Poll<()> {
        match self.account.get() {
            Some(account) if self.charged() > 0 => account.addresses.heads.poll_closed(cx),
            _ => Poll::Ready(()),
        }
    }

    /// Requests the connection to close because of its charge.
    fn request_close(&self, total: &HeadTotal) {
        let mut closing = lock(&self.closing);
        if let ClosingState::No = *closing {
            let charged = self.charged();
            *closing = ClosingState::Requested(charged);
            total.closing_charge.fetch_add(charged, Ordering::AcqRel);
        }
        drop(closing);
        self.end();
    }

    /// Records that the socket is dropped, and all memory with it.
    pub(super) fn release(&self) {
        self.end();
        let before = std::mem::replace(&mut *lock(&self.closing), ClosingState::Done);
        if let (ClosingState::Requested(charged), Some(account)) = (before, self.account.get()) {
            account.addresses.heads.finish_closing(charged);
        }
    }

    /// Updates the totals. While a request is active, received bytes may belong to it and do not count, except for an
    /// open header block, and bytes that follow a complete HTTP/1.1 request.
    pub(super) fn update_charge(&self, activity: ConnActivity) {
        let mut bytes =
            self.block_bytes.load(Ordering::Relaxed) + self.stream_bytes.load(Ordering::Relaxed);
        let received =
            self.record_bytes.load(Ordering::Relaxed) + self.buffered_bytes.load(Ordering::Relaxed);
        match activity {
            ConnActivity::Idle => bytes += received,
            ConnActivity::Http1
                if received > FREE_BYTES && !self.receiving_body.load(Ordering::Relaxed) =>
            {
                bytes += received.max(MIN_PIPELINED_BYTES);
            }
            ConnActivity::Http1 | ConnActivity::Http2 => {}
        }
        let mut new_charge = charge(bytes);
        if new_charge > 0 && self.ended.load(Ordering::Relaxed) {
            new_charge = 0;
        }
        if self.charged() == new_charge {
            return;
        }
        if let Some(account) = self.account.get() {
            self.recharge(account, new_charge);
        }
    }

    #[cold]
    fn recharge(&self, account: &HeadAccount, new_charge: u64) {
        let total = &account.addresses.heads;
        if self.charged() == 0 {
            self.charged_since.store(total.now(), Ordering::Relaxed);
        }
        let before = self.charged.swap(new_charge, Ordering::Relaxed);
        if let Some(released) = before.checked_sub(new_charge) {
            total.tally.subtract(released);
            account.of_address.subtract(released);
            return;
        }
        let added = new_charge - before;
        let address_exceeds = account.of_address.add(added);
        let all_exceed = total.tally.add(added);
        if address_exceeds {
            account.addresses.evict_for_address(account.prefix, self);
        }
        if all_exceed {
            account.addresses.evict_for_total(Some(self));
        }
    }
}
