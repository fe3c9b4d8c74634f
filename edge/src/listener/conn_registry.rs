//! Connection registry and slow-client sweep. Connections update a few counters; only the sweep evaluates them.

mod sweep;
#[cfg(test)]
mod tests;

use super::heads::{ConnActivity, HeadMeter};
use super::transfer::{RESPONSE_OVERHEAD, Transfer};
use super::unread_responses::UnreadResponses;
use crate::budget::AddressPrefix;
use crate::limits::HttpLimits;
use futures_util::task::AtomicWaker;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Waker;
use sweep::SweepEntry;
use tokio::time::Instant;

/// Maximum bytes that the TLS library buffers when the system accepts no more.
const TLS_BUFFER_BYTES: u64 = 64 * 1024;

/// Shutdown order for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ShutdownOrder {
    /// Stay open.
    KeepOpen,
    /// Finish running requests, then close.
    Close,
    /// Close now.
    Abort,
}

/// State of one connection, for the sweep.
#[derive(Debug)]
pub(super) struct ConnState {
    order: AtomicU8,
    waker: AtomicWaker,
    /// Active requests, until the last byte of their response.
    active_requests: AtomicU32,
    /// Active requests whose body is still being received, from an unauthenticated caller.
    uploading: AtomicU32,
    /// Number of started requests.
    started_requests: AtomicU32,
    /// A part of the next request head has been received.
    reading_head: AtomicBool,
    /// The peer does not read: the system accepts no more bytes.
    write_blocked: AtomicBool,
    /// Bytes that the system accepted.
    written_bytes: AtomicU64,
    /// Bytes of small responses that the HTTP/1.1 library buffers.
    unsent_bytes: AtomicU64,
    /// The connection uses TLS.
    uses_tls: AtomicBool,
    /// Address prefix of the peer, once it is set.
    prefix: OnceLock<AddressPrefix>,
    /// Received bytes that belong to no request yet.
    heads: HeadMeter,
    /// Started responses of an HTTP/2 connection, by memory address.
    transfers: Mutex<HashMap<usize, Weak<Transfer>>>,
    /// HTTP is being served: false during the handshake, and after an upgrade to a WebSocket.
    serving_http: AtomicBool,
    /// The connection is HTTP/2, which always reads: keep-alive pongs, for one.
    is_http2: AtomicBool,
    /// A caller on the connection was authenticated.
    authenticated: AtomicBool,
}

impl ConnState {
    fn new(order: ShutdownOrder) -> Self {
        Self {
            order: AtomicU8::new(order as u8),
            waker: AtomicWaker::new(),
            active_requests: AtomicU32::new(0),
            uploading: AtomicU32::new(0),
            started_requests: AtomicU32::new(0),
            reading_head: AtomicBool::new(false),
            write_blocked: AtomicBool::new(false),
            written_bytes: AtomicU64::new(0),
            unsent_bytes: AtomicU64::new(0),
            uses_tls: AtomicBool::new(false),
            prefix: OnceLock::new(),
            heads: HeadMeter::default(),
            transfers: Mutex::default(),
            serving_http: AtomicBool::new(false),
            is_http2: AtomicBool::new(false),
            authenticated: AtomicBool::new(false),
        }
    }

    /// Records that a caller on the connection was authenticated. From here on the limits of principals apply to its
    /// streams.
    fn set_authenticated(&self) {
        if self.is_authenticated() || self.authenticated.swap(true, Ordering::Relaxed) {
            return;
        }
        self.heads.set_streams(0);
        self.update_head_charge();
    }

    /// Returns true if a caller on the connection was authenticated.
    pub(super) fn is_authenticated(&self) -> bool {
        self.authenticated.load(Ordering::Relaxed)
    }

    /// Returns the number of started requests, and of the active ones among them. The former wraps.
    pub(super) fn request_counts(&self) -> (u32, u32) {
        (
            self.started_requests.load(Ordering::Relaxed),
            self.active_requests.load(Ordering::Relaxed),
        )
    }

    /// Returns the current order; `waker` is woken when it changes.
    pub(super) fn poll_order(&self, waker: &Waker) -> ShutdownOrder {
        self.waker.register(waker);
        match self.order.load(Ordering::Acquire) {
            0 => ShutdownOrder::KeepOpen,
            1 => ShutdownOrder::Close,
            _ => ShutdownOrder::Abort,
        }
    }

    /// Sets the order if it is stricter than the current one. Returns true if it is.
    pub(super) fn signal(&self, order: ShutdownOrder) -> bool {
        let new = order as u8;
        let is_new = self.order.fetch_max(new, Ordering::AcqRel) < new;
        if is_new {
            self.waker.wake();
        }
        is_new
    }

    /// Sets the address prefix of the peer.
    pub(super) fn set_prefix(&self, prefix: AddressPrefix) {
        // Set once, when the connection is accepted.
        let _ = self.prefix.set(prefix);
    }

    /// Records that the connection uses TLS.
    pub(super) fn set_uses_tls(&self) {
        self.uses_tls.store(true, Ordering::Relaxed);
    }

    /// Starts a request, which is active until the guard is dropped.
    pub(super) fn begin_request(self: &Arc<Self>) -> ActiveRequest {
        self.active_requests.fetch_add(1, Ordering::Relaxed);
        self.started_requests.fetch_add(1, Ordering::Relaxed);
        self.reading_head.store(false, Ordering::Relaxed);
        ActiveRequest(Arc::clone(self))
    }

    pub(super) fn heads(&self) -> &HeadMeter {
        &self.heads
    }

    /// Returns true if no request is active.
    pub(super) fn is_idle(&self) -> bool {
        self.active_requests.load(Ordering::Relaxed) == 0
    }

    /// Updates the charge for partial heads.
    pub(super) fn update_head_charge(&self) {
        self.heads.update_charge(match () {
            () if self.is_idle() => ConnActivity::Idle,
            () if self.is_http2() => ConnActivity::Http2,
            () => ConnActivity::Http1,
        });
    }

    pub(super) fn is_http2(&self) -> bool {
        self.is_http2.load(Ordering::Relaxed)
    }

    /// Counts the start or end of an upload by an unauthenticated caller.
    pub(super) fn count_upload(&self, is_start: bool) {
        match is_start {
            true => self.uploading.fetch_add(1, Ordering::Relaxed),
            false => self.uploading.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Returns the eviction rank when the address has too many connections: the lowest is evicted first, `None` means
    /// that the connection is in use.
    pub(super) fn eviction_rank(&self) -> Option<u8> {
        let active = self.active_requests.load(Ordering::Relaxed);
        match () {
            () if !self.has_started_request() => Some(0),
            () if active == 0 => self.is_serving_http().then_some(1),
            () => (active <= self.uploading.load(Ordering::Relaxed)).then_some(2),
        }
    }

    /// Returns true if there has been a request. The counter wraps, so after very many it may return false.
    pub(super) fn has_started_request(&self) -> bool {
        self.started_requests.load(Ordering::Relaxed) > 0
    }

    /// Records a read.
    pub(super) fn on_read(&self) {
        if self.is_idle() {
            self.reading_head.store(true, Ordering::Relaxed);
        }
    }

    /// Records bytes that the system accepted for sending.
    pub(super) fn add_written(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        // Only one task writes at a time.
        let written = self
            .written_bytes
            .load(Ordering::Relaxed)
            .wrapping_add(bytes);
        self.written_bytes.store(written, Ordering::Relaxed);
        self.write_blocked.store(false, Ordering::Relaxed);
    }

    /// Records that the peer does not read.
    pub(super) fn set_write_blocked(&self) {
        self.write_blocked.store(true, Ordering::Relaxed);
    }

    /// Adds bytes of a small response that the HTTP/1.1 library buffers.
    pub(super) fn add_unsent_bytes(&self, bytes: u64) {
        self.unsent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Subtracts bytes that the library wrote or dropped.
    pub(super) fn subtract_unsent_bytes(&self, bytes: u64) {
        self.unsent_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns the number of these bytes.
    pub(super) fn unsent_bytes(&self) -> u64 {
        self.unsent_bytes.load(Ordering::Relaxed)
    }

    /// Returns the memory that an HTTP/1.1 connection takes because its peer does not read: responses, and the requests
    /// received behind them. Large responses count in the response memory budget.
    fn unread_http1_bytes(&self) -> u64 {
        let is_blocked = self.write_blocked.load(Ordering::Relaxed);
        if !is_blocked || !self.is_serving_http() || self.is_http2() {
            return 0;
        }
        let tls = match self.uses_tls.load(Ordering::Relaxed) {
            true => TLS_BUFFER_BYTES,
            false => 0,
        };
        let received = u64::try_from(self.heads.buffered_http1()).unwrap_or(u64::MAX);
        tls + self.unsent_bytes() + received + RESPONSE_OVERHEAD
    }

    fn lock_transfers(&self) -> MutexGuard<'_, HashMap<usize, Weak<Transfer>>> {
        self.transfers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a response that is being sent.
    pub(super) fn add_transfer(&self, transfer: &Arc<Transfer>) {
        let address = Arc::as_ptr(transfer).addr();
        self.lock_transfers()
            .insert(address, Arc::downgrade(transfer));
    }

    /// Removes a response that is dropped.
    pub(super) fn remove_transfer(&self, transfer: &Transfer) {
        let address = std::ptr::from_ref(transfer).addr();
        self.lock_transfers().remove(&address);
    }

    /// Returns the number of responses being sent.
    #[cfg(test)]
    pub(super) fn transfers(&self) -> usize {
        self.lock_transfers().len()
    }

    /// Starts HTTP on the connection; from here on its requests are timed.
    pub(super) fn start_http(&self, is_http2: bool) {
        self.is_http2.store(is_http2, Ordering::Relaxed);
        self.reading_head.store(false, Ordering::Relaxed);
        self.serving_http.store(true, Ordering::Relaxed);
        // The handshake is complete, and its bytes are released.
        self.heads.set_record(0);
        self.update_head_charge();
    }

    /// Ends HTTP on the connection, though its socket may live on.
    pub(super) fn end_http(&self) {
        self.serving_http.store(false, Ordering::Relaxed);
        self.heads.end();
    }

    pub(super) fn is_serving_http(&self) -> bool {
        self.serving_http.load(Ordering::Relaxed)
    }
}

/// Handle of a connection, by which the authentication reports that a caller is known.
#[derive(Clone, Debug, Default)]
pub struct ConnectionHandle(Option<Arc<ConnState>>);

impl ConnectionHandle {
    pub(super) fn new(conn: &Arc<ConnState>) -> Self {
        Self(Some(Arc::clone(conn)))
    }

    pub(super) fn set_authenticated(&self) {
        if let Some(conn) = &self.0 {
            conn.set_authenticated();
        }
    }
}

/// Guard of an active request.
#[derive(Debug)]
pub(super) struct ActiveRequest(Arc<ConnState>);

impl ActiveRequest {
    pub(super) fn conn(&self) -> &Arc<ConnState> {
        &self.0
    }
}

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        if self.0.active_requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.update_head_charge();
        }
    }
}

/// Number of streams and connections that a sweep terminated because their data was not read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StalledCounts {
    pub(super) streams: u64,
    pub(super) connections: u64,
}

#[derive(Default)]
struct RegistryEntries {
    entries: HashMap<u64, SweepEntry>,
    order: Option<ShutdownOrder>,
}

/// Registry of all connections of a listener.
#[derive(Default)]
pub(super) struct ConnRegistry {
    next_id: AtomicU64,
    entries: Mutex<RegistryEntries>,
}

impl ConnRegistry {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    fn lock(&self) -> MutexGuard<'_, RegistryEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers a connection until the registration is dropped. It gets the order given to all, if any.
    pub(super) fn register(self: &Arc<Self>) -> Registration {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let mut list = self.lock();
        let order = list.order.unwrap_or(ShutdownOrder::KeepOpen);
        let conn = Arc::new(ConnState::new(order));
        list.entries.insert(id, SweepEntry::new(&conn));
        Registration {
            id,
            conn,
            registry: Arc::clone(self),
        }
    }

    /// Signals an order to all connections, including future ones.
    pub(super) fn signal_all(&self, order: ShutdownOrder) {
        let mut list = self.lock();
        list.order = Some(order);
        for entry in list.entries.values() {
            entry.conn.signal(order);
        }
    }

    /// Checks all connections and terminates the slow ones.
    pub(super) fn sweep(&self, limits: &HttpLimits, now: Instant) -> StalledCounts {
        let mut stalled = StalledCounts::default();
        // Reused for all connections, to avoid allocations.
        let mut transfers = Vec::new();
        let mut unread_answers = UnreadResponses::default();
        for entry in self.lock().entries.values_mut() {
            let streams = entry.check_streams(limits, now, &mut transfers, &mut stalled);
            let makes_progress = entry.makes_progress(now);
            let unread_bytes = streams.unread_bytes + entry.conn.unread_http1_bytes();
            unread_answers.add(
                &entry.conn,
                entry.conn.prefix.get(),
                unread_bytes,
                makes_progress,
            );
            let is_stalled = entry.is_stalled(limits, now) | streams.needs_abort;
            let order = if is_stalled {
                ShutdownOrder::Abort
            } else {
                entry.check_timeouts(limits, now)
            };
            if order > ShutdownOrder::KeepOpen && entry.conn.signal(order) && is_stalled {
                stalled.connections += 1;
            }
        }
        for conn in unread_answers.select_excess(limits) {
            stalled.connections += u64::from(conn.signal(ShutdownOrder::Abort));
        }
        stalled
    }
}

/// Registration of a connection, dropped with its socket.
pub(super) struct Registration {
    id: u64,
    conn: Arc<ConnState>,
    registry: Arc<ConnRegistry>,
}

impl Registration {
    pub(super) fn conn(&self) -> &Arc<ConnState> {
        &self.conn
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.lock().entries.remove(&self.id);
    }
}
