//! The signs of life of every connection, and the sweep that reads them. A connection writes a few
//! numbers as it goes; whether they are good is judged here alone.

mod seen;
#[cfg(test)]
mod tests;

use super::heads::{HeadMeter, Use};
use super::transfer::{OVERHEAD, Transfer};
use super::unread_answers::UnreadAnswers;
use crate::budget::AddressPrefix;
use crate::limits::HttpLimits;
use futures_util::task::AtomicWaker;
use seen::Seen;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;
use tokio::time::Instant;

/// What the TLS library holds at most of what the system does not take.
const TLS_BUFFER: u64 = 64 * 1024;

/// What a connection is told to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// Go on.
    Go,
    /// Finish what runs, then close.
    Close,
    /// Close now.
    Cut,
}

/// What one connection shows of itself.
#[derive(Debug)]
pub(super) struct Pulse {
    order: AtomicU8,
    waker: AtomicWaker,
    /// Requests that are running, until the last byte of their answer.
    active: AtomicU32,
    /// Those of them whose body is still on its way, from a caller that has not been authenticated.
    sending: AtomicU32,
    /// Counts beginnings of requests.
    begun: AtomicU32,
    /// Something of the next request's head has come.
    reading: AtomicBool,
    /// The other side does not read: the system takes no more bytes for it.
    blocked: AtomicBool,
    /// Bytes that the system took.
    written: AtomicU64,
    /// Bytes of small responses that the HTTP/1.1 library holds.
    unsent: AtomicU64,
    /// The connection has TLS.
    encrypted: AtomicBool,
    /// Where the connection comes from, once that is known.
    prefix: OnceLock<AddressPrefix>,
    /// What has arrived and belongs to no request yet.
    heads: HeadMeter,
    /// The responses of an HTTP/2 connection that have begun, by their address.
    transfers: Mutex<HashMap<usize, Weak<Transfer>>>,
    /// HTTP is spoken. It is not during the handshake, nor when the socket has become a WebSocket.
    driven: AtomicBool,
    /// It is HTTP/2, which is always reading: answers to our own pings, for one.
    multiplexed: AtomicBool,
}

impl Pulse {
    fn new(order: Order) -> Self {
        Self {
            order: AtomicU8::new(order as u8),
            waker: AtomicWaker::new(),
            active: AtomicU32::new(0),
            sending: AtomicU32::new(0),
            begun: AtomicU32::new(0),
            reading: AtomicBool::new(false),
            blocked: AtomicBool::new(false),
            written: AtomicU64::new(0),
            unsent: AtomicU64::new(0),
            encrypted: AtomicBool::new(false),
            prefix: OnceLock::new(),
            heads: HeadMeter::default(),
            transfers: Mutex::default(),
            driven: AtomicBool::new(false),
            multiplexed: AtomicBool::new(false),
        }
    }

    /// What to do; `waker` is woken when that changes.
    pub(super) fn order(&self, waker: &Waker) -> Order {
        self.waker.register(waker);
        match self.order.load(Ordering::Acquire) {
            0 => Order::Go,
            1 => Order::Close,
            _ => Order::Cut,
        }
    }

    /// Whether the order is a new one.
    pub(super) fn give(&self, order: Order) -> bool {
        let new = order as u8;
        let is_new = self.order.fetch_max(new, Ordering::AcqRel) < new;
        if is_new {
            self.waker.wake();
        }
        is_new
    }

    /// Notes where the connection comes from.
    pub(super) fn set_prefix(&self, prefix: AddressPrefix) {
        // It is set once, when the connection is accepted.
        let _ = self.prefix.set(prefix);
    }

    /// Notes that the connection has TLS.
    pub(super) fn set_encrypted(&self) {
        self.encrypted.store(true, Ordering::Relaxed);
    }

    /// A request begins, and runs for as long as the guard lives.
    pub(super) fn begin(self: &Arc<Self>) -> Running {
        self.active.fetch_add(1, Ordering::Relaxed);
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.reading.store(false, Ordering::Relaxed);
        Running(Arc::clone(self))
    }

    pub(super) fn heads(&self) -> &HeadMeter {
        &self.heads
    }

    /// Whether no request runs.
    pub(super) fn is_idle(&self) -> bool {
        self.active.load(Ordering::Relaxed) == 0
    }

    /// Brings up to date what is counted of heads that are unfinished.
    pub(super) fn settle_heads(&self) {
        self.heads.settle(match () {
            () if self.is_idle() => Use::Idle,
            () if self.is_multiplexed() => Use::Multiplexed,
            () => Use::Http1,
        });
    }

    pub(super) fn is_multiplexed(&self) -> bool {
        self.multiplexed.load(Ordering::Relaxed)
    }

    /// A request begins, or ends, to send its body without being authenticated.
    pub(super) fn sends(&self, begins: bool) {
        match begins {
            true => self.sending.fetch_add(1, Ordering::Relaxed),
            false => self.sending.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// How soon the connection is given up when its address has too many: the least goes first, none means
    /// that it is in use.
    pub(super) fn rank(&self) -> Option<u8> {
        let active = self.active.load(Ordering::Relaxed);
        match () {
            () if !self.has_begun() => Some(0),
            () if active == 0 => self.is_driven().then_some(1),
            () => (active <= self.sending.load(Ordering::Relaxed)).then_some(2),
        }
    }

    /// Whether there has been a request. After very many it may say that there was none.
    pub(super) fn has_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed) > 0
    }

    /// Bytes have come.
    pub(super) fn heard(&self) {
        if self.is_idle() {
            self.reading.store(true, Ordering::Relaxed);
        }
    }

    /// The system took so many bytes for the other side.
    pub(super) fn add_written(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        // One task writes at a time.
        let written = self.written.load(Ordering::Relaxed).wrapping_add(bytes);
        self.written.store(written, Ordering::Relaxed);
        self.blocked.store(false, Ordering::Relaxed);
    }

    /// The other side does not read what we send.
    pub(super) fn block(&self) {
        self.blocked.store(true, Ordering::Relaxed);
    }

    /// The HTTP/1.1 library was given so many bytes of a small response.
    pub(super) fn add_unsent(&self, bytes: u64) {
        self.unsent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The HTTP/1.1 library wrote or dropped so many of them.
    pub(super) fn subtract_unsent(&self, bytes: u64) {
        self.unsent.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// How many of them it holds.
    pub(super) fn unsent(&self) -> u64 {
        self.unsent.load(Ordering::Relaxed)
    }

    /// The memory that an HTTP/1.1 connection takes because the other side does not read: responses, and the requests
    /// that arrived behind them. Large responses count in the memory for answers.
    fn unread_http1(&self) -> u64 {
        let blocked = self.blocked.load(Ordering::Relaxed);
        if !blocked || !self.is_driven() || self.is_multiplexed() {
            return 0;
        }
        let tls = match self.encrypted.load(Ordering::Relaxed) {
            true => TLS_BUFFER,
            false => 0,
        };
        let arrived = u64::try_from(self.heads.buffered_http1()).unwrap_or(u64::MAX);
        tls + self.unsent() + arrived + OVERHEAD
    }

    fn lock_transfers(&self) -> MutexGuard<'_, HashMap<usize, Weak<Transfer>>> {
        self.transfers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A response begins to be sent.
    pub(super) fn add_transfer(&self, transfer: &Arc<Transfer>) {
        let address = Arc::as_ptr(transfer).addr();
        self.lock_transfers()
            .insert(address, Arc::downgrade(transfer));
    }

    /// A response is being dropped.
    pub(super) fn remove_transfer(&self, transfer: &Transfer) {
        let address = std::ptr::from_ref(transfer).addr();
        self.lock_transfers().remove(&address);
    }

    /// How many responses are being sent.
    #[cfg(test)]
    pub(super) fn transfers(&self) -> usize {
        self.lock_transfers().len()
    }

    /// HTTP begins on the connection; from here on its requests are timed.
    pub(super) fn drive(&self, multiplexed: bool) {
        self.multiplexed.store(multiplexed, Ordering::Relaxed);
        self.reading.store(false, Ordering::Relaxed);
        self.driven.store(true, Ordering::Relaxed);
        // The handshake is over, and its bytes are released.
        self.heads.set_record(0);
        self.settle_heads();
    }

    /// HTTP has ended on the connection, though its socket may live on.
    pub(super) fn release(&self) {
        self.driven.store(false, Ordering::Relaxed);
        self.heads.end();
    }

    pub(super) fn is_driven(&self) -> bool {
        self.driven.load(Ordering::Relaxed)
    }
}

/// A request that runs.
#[derive(Debug)]
pub(super) struct Running(Arc<Pulse>);

impl Running {
    pub(super) fn pulse(&self) -> &Arc<Pulse> {
        &self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.active.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.settle_heads();
        }
    }
}

/// How many were ended by a sweep because what was sent was not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stalled {
    pub(super) streams: u64,
    pub(super) connections: u64,
}

#[derive(Default)]
struct List {
    seen: HashMap<u64, Seen>,
    order: Option<Order>,
}

/// The pulses of all connections.
#[derive(Default)]
pub(super) struct Pulses {
    next: AtomicU64,
    list: Mutex<List>,
}

impl Pulses {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, until the entry is dropped. If all have been given an order, so is it.
    pub(super) fn enter(self: &Arc<Self>) -> Entry {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut list = self.lock();
        let order = list.order.unwrap_or(Order::Go);
        let pulse = Arc::new(Pulse::new(order));
        list.seen.insert(id, Seen::new(&pulse));
        Entry {
            id,
            pulse,
            list: Arc::clone(self),
        }
    }

    /// Gives an order to all connections, and to those that are still to come.
    pub(super) fn all(&self, order: Order) {
        let mut list = self.lock();
        list.order = Some(order);
        for seen in list.seen.values() {
            seen.pulse.give(order);
        }
    }

    /// Tells those that are too slow to go.
    pub(super) fn sweep(&self, limits: &HttpLimits, now: Instant) -> Stalled {
        let mut stalled = Stalled::default();
        // Kept from one connection to the next, for its room.
        let mut transfers = Vec::new();
        let mut unread_answers = UnreadAnswers::default();
        for seen in self.lock().seen.values_mut() {
            let streams = seen.check_streams(limits, now, &mut transfers, &mut stalled);
            let moves = seen.moves(now);
            let held = streams.unread + seen.pulse.unread_http1();
            unread_answers.add(&seen.pulse, seen.pulse.prefix.get(), held, moves);
            let unread = seen.is_unread(limits, now) | streams.out_of_reach;
            let order = if unread {
                Order::Cut
            } else {
                seen.judge(limits, now)
            };
            if order > Order::Go && seen.pulse.give(order) && unread {
                stalled.connections += 1;
            }
        }
        for pulse in unread_answers.exceed(limits) {
            stalled.connections += u64::from(pulse.give(Order::Cut));
        }
        stalled
    }
}

/// A connection's place in the list. It goes with the socket.
pub(super) struct Entry {
    id: u64,
    pulse: Arc<Pulse>,
    list: Arc<Pulses>,
}

impl Entry {
    pub(super) fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.list.lock().seen.remove(&self.id);
    }
}
