//! Memory of bytes that have arrived and belong to no request yet: a handshake, an incomplete TLS record, an
//! unfinished head, an open header block of HTTP/2. Each connection is bounded by the limits of its head, but there
//! are many connections, so all of them together and those of one address are bounded too.
//!
//! A connection counts in numbers of its own. Only one that holds more than [`FREE`] bytes counts in the totals, so
//! an ordinary request touches nothing that connections share.

#[cfg(test)]
mod tests;
mod total;

pub(super) use total::{First, HeadTotal};

use super::addresses::Addresses;
use crate::budget::AddressPrefix;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

/// What is not counted. A connection has buffers of this size before the first byte arrives.
const FREE: usize = 4 * 1024;
/// What is counted for each 4 KiB: the TLS and HTTP libraries double their buffers as they grow.
const CHARGE: u64 = 8 * 1024;
/// What an HTTP/2 header block counts at least once a part of it has been decoded. A field of one byte can refer to
/// a table, and then takes a hundred bytes.
const OPEN_BLOCK: usize = 32 * 1024;
/// What bytes behind a running request of HTTP/1.1 count at least, if they are more than [`FREE`]. The HTTP library
/// reads once and no more; the TLS library may hold as much again.
const BEHIND_REQUEST: usize = 32 * 1024;
/// The most that the HTTP library buffers of what has arrived on an HTTP/1.1 connection.
const READ_BUFFER: usize = 64 * 1024;
/// What a head may differ from the estimate of its size.
const TOLERANCE: usize = 1024;
/// A header block that is open for so long on a connection with running requests. Other frames cannot arrive until
/// it ends, so an honest client sends it at once.
const BLOCK_PATIENCE: Duration = Duration::from_secs(1);

/// The memory that is counted for so many bytes.
fn charge(bytes: usize) -> u64 {
    if bytes <= FREE {
        return 0;
    }
    let steps = u64::try_from(bytes.div_ceil(FREE)).unwrap_or(u64::MAX);
    steps.saturating_mul(CHARGE)
}

/// A sum of charges, and its limit.
#[derive(Debug)]
pub(super) struct Tally {
    limit: u64,
    charged: AtomicU64,
    /// Connections are searched for when the sum exceeds this: the limit, or more if a search did not find enough.
    search_above: AtomicU64,
}

impl Tally {
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

    /// Adds to the sum. Says whether connections must be closed.
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

    /// How much must be released. It is a quarter of the limit more than necessary, so that searches are rare.
    fn excess(&self) -> u64 {
        match self.charged() {
            charged if charged > self.limit => charged - (self.limit - self.limit / 4),
            _ => 0,
        }
    }

    /// Connections were closed. If they were too few, there is no other search until the sum has grown.
    pub(super) fn searched(&self) {
        let above = match self.is_exceeded() {
            true => self.charged().saturating_add(self.limit / 8),
            false => self.limit,
        };
        self.search_above.store(above, Ordering::Relaxed);
    }
}

/// Where the charges of a connection count.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) addresses: Arc<Addresses>,
    pub(super) prefix: AddressPrefix,
    pub(super) of_address: Arc<Tally>,
}

/// Whether requests run on a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Use {
    /// None does.
    Idle,
    /// One of HTTP/1.1.
    Http1,
    /// Some of HTTP/2.
    Multiplexed,
}

/// The bytes of one connection that belong to no request.
#[derive(Debug, Default)]
pub(super) struct HeadMeter {
    account: OnceLock<Account>,
    /// Of the handshake, then of a TLS record that is incomplete.
    record: AtomicUsize,
    /// Of an unfinished head of HTTP/1.1, or of an incomplete frame of HTTP/2.
    buffered: AtomicUsize,
    /// Those of HTTP/1.1 that arrived since the last request ended.
    while_idle: AtomicUsize,
    /// The body of a request of HTTP/1.1 is arriving, so what is buffered may belong to it.
    body_arrives: AtomicBool,
    /// Of an open header block of HTTP/2.
    block: AtomicUsize,
    /// What is counted for all of this.
    charged: AtomicU64,
    /// When something began to be counted, in milliseconds by the clock of the listener.
    since: AtomicU64,
    /// Nothing is counted any more.
    ended: AtomicBool,
    closing: Mutex<Closing>,
}

/// Whether a connection is being closed because of what it holds.
#[derive(Debug, Default)]
enum Closing {
    #[default]
    No,
    /// It was told to, when so much was counted for it.
    Told(u64),
    /// Its socket is dropped.
    Done,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HeadMeter {
    /// Opens the account, once the address is known.
    pub(super) fn open(&self, account: Account) {
        // It is set once, when the connection is accepted.
        let _ = self.account.set(account);
    }

    /// Bytes of the handshake, or of an incomplete TLS record.
    pub(super) fn set_record(&self, bytes: usize) {
        self.record.store(bytes, Ordering::Relaxed);
    }

    /// Bytes arrived on an HTTP/1.1 connection. One task reads a connection, so plain stores are enough.
    pub(super) fn add_received(&self, bytes: usize, is_idle: bool) {
        let add = |to: &AtomicUsize| {
            let sum = to.load(Ordering::Relaxed).saturating_add(bytes);
            to.store(sum, Ordering::Relaxed);
        };
        add(&self.buffered);
        if is_idle {
            add(&self.while_idle);
        }
    }

    /// A head of HTTP/1.1 of at least so many bytes is complete. What arrived after it, in the same read, stays.
    pub(super) fn finish_head(&self, bytes: usize) {
        let buffered = self.buffered.load(Ordering::Relaxed);
        let while_idle = self.while_idle.load(Ordering::Relaxed);
        let mut left = buffered.saturating_sub(bytes);
        // If the head needed another read, what is left arrived with that one.
        if while_idle > 0 {
            left = left.min(while_idle);
        }
        if left < TOLERANCE {
            left = 0;
        }
        self.buffered.store(left, Ordering::Relaxed);
        self.while_idle.store(0, Ordering::Relaxed);
    }

    /// So many bytes were the body of a request of HTTP/1.1.
    pub(super) fn consume_body(&self, bytes: usize) {
        let less = |buffered: usize| Some(buffered.saturating_sub(bytes));
        // It cannot fail: there is always a new value.
        let _ = self
            .buffered
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Whether the body of the request that begins on HTTP/1.1 is still to arrive.
    pub(super) fn set_body_arrives(&self, arrives: bool) {
        self.body_arrives.store(arrives, Ordering::Relaxed);
    }

    /// The body of a request of HTTP/1.1 is complete: what is buffered now belongs to no request.
    pub(super) fn finish_body(&self) {
        // The heads of chunks are counted by an estimate, so a long body may leave more than there can be.
        let buffered = self.buffered_http1();
        self.buffered.store(buffered, Ordering::Relaxed);
        self.body_arrives.store(false, Ordering::Relaxed);
    }

    /// What the HTTP library holds of what has arrived on an HTTP/1.1 connection.
    pub(super) fn buffered_http1(&self) -> usize {
        self.buffered.load(Ordering::Relaxed).min(READ_BUFFER)
    }

    /// What an HTTP/2 connection holds of an incomplete frame, and of a header block. A part of the block may have
    /// been decoded.
    pub(super) fn set_frames(&self, frame: usize, block: usize, decoded: bool) {
        let block = if decoded {
            block.max(OPEN_BLOCK)
        } else {
            block
        };
        self.buffered.store(frame, Ordering::Relaxed);
        self.block.store(block, Ordering::Relaxed);
    }

    /// Whether a header block of HTTP/2 is open.
    pub(super) fn is_block_open(&self) -> bool {
        self.block.load(Ordering::Relaxed) > 0
    }

    /// What is counted.
    pub(super) fn charged(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }

    /// Counts nothing from now on: the connection is gone, is being closed, or no longer speaks HTTP.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.settle(Use::Multiplexed);
    }

    /// Waits while others that were told to close hold much, if this connection holds much too. Without this, all that
    /// is ready would be read before the task of the first of them runs.
    pub(super) fn poll_read_on(&self, cx: &Context<'_>) -> Poll<()> {
        match self.account.get() {
            Some(account) if self.charged() > 0 => account.addresses.heads.poll_closed(cx),
            _ => Poll::Ready(()),
        }
    }

    /// The connection is told to close because of what it holds.
    fn close(&self, total: &HeadTotal) {
        let mut closing = lock(&self.closing);
        if let Closing::No = *closing {
            let charged = self.charged();
            *closing = Closing::Told(charged);
            total.closing.fetch_add(charged, Ordering::AcqRel);
        }
        drop(closing);
        self.end();
    }

    /// The socket is dropped, and all memory with it.
    pub(super) fn release(&self) {
        self.end();
        let before = std::mem::replace(&mut *lock(&self.closing), Closing::Done);
        if let (Closing::Told(charged), Some(account)) = (before, self.account.get()) {
            account.addresses.heads.finish_closing(charged);
        }
    }

    /// Brings the totals up to date. While a request runs, what has arrived may belong to it and does not count, but
    /// for an open header block, and what follows a complete request of HTTP/1.1.
    pub(super) fn settle(&self, connection: Use) {
        let mut bytes = self.block.load(Ordering::Relaxed);
        let arrived = self.record.load(Ordering::Relaxed) + self.buffered.load(Ordering::Relaxed);
        match connection {
            Use::Idle => bytes += arrived,
            Use::Http1 if arrived > FREE && !self.body_arrives.load(Ordering::Relaxed) => {
                bytes += arrived.max(BEHIND_REQUEST);
            }
            Use::Http1 | Use::Multiplexed => {}
        }
        let mut wanted = charge(bytes);
        if wanted > 0 && self.ended.load(Ordering::Relaxed) {
            wanted = 0;
        }
        if self.charged() == wanted {
            return;
        }
        if let Some(account) = self.account.get() {
            self.recharge(account, wanted);
        }
    }

    #[cold]
    fn recharge(&self, account: &Account, wanted: u64) {
        let total = &account.addresses.heads;
        if self.charged() == 0 {
            self.since.store(total.now(), Ordering::Relaxed);
        }
        let before = self.charged.swap(wanted, Ordering::Relaxed);
        if let Some(less) = before.checked_sub(wanted) {
            total.tally.subtract(less);
            account.of_address.subtract(less);
            return;
        }
        let more = wanted - before;
        let address_exceeds = account.of_address.add(more);
        let all_exceed = total.tally.add(more);
        if address_exceeds {
            account.addresses.relieve_address(account.prefix, self);
        }
        if all_exceed {
            account.addresses.relieve_all(Some(self));
        }
    }
}
