//! Admission control of requests. A request is in flight once its body is complete, or at once if it has none. Until
//! then it is an upload, and uploads have separate limits: in total, and for each address or principal.
//!
//! When there are too many uploads the oldest is aborted and the newest admitted. Most bodies arrive together with
//! their head, so an old one is slow. Until its caller is authenticated an upload also counts with its bytes: its
//! headers and what has been received of its body.

mod group;
#[cfg(test)]
mod tests;

use super::RejectReason;
use super::conn_registry::ConnState;
use crate::budget::AddressPrefix;
use crate::limits::HttpLimits;
use futures_util::task::AtomicWaker;
use group::{ByteLimit, UploadGroup};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

/// Paths of health checks. They are answered even when the maximum number of requests is in flight.
const HEALTH_PATHS: [&str; 5] = ["/healthz", "/readyz", "/metrics", "/health", "/ping"];

/// Memory of an upload besides its headers and its body: its stream and its task.
const UPLOAD_OVERHEAD: u64 = 4 * 1024;
/// Memory of a received body chunk besides its bytes: an entry in the queue of the HTTP library.
const CHUNK_OVERHEAD: u64 = 320;
/// Memory of a body byte: a chunk keeps its read buffer, and the body is copied from it.
const MEMORY_PER_BODY_BYTE: u64 = 2;
/// Received bytes are charged in steps, so that a small body takes no lock.
const CHARGE_STEP: u64 = 8 * 1024;
/// Maximum charge of an upload. Bodies of more than 64 KiB count in the body memory budget.
const MAX_CHARGE: u64 = 256 * 1024;
/// Average bytes of an upload when their maximum number is being received, and the least limit of their bytes.
const BYTES_PER_UPLOAD: u64 = 32 * 1024;
const MIN_BYTE_LIMIT: u64 = 1024 * 1024;

/// Returns the limit for the bytes of uploads of callers that are not authenticated.
fn upload_bytes(limits: &HttpLimits) -> ByteLimit {
    let size = |count: usize| u64::try_from(count.max(1)).unwrap_or(u64::MAX);
    let total = size(limits.receiving_requests).saturating_mul(BYTES_PER_UPLOAD);
    ByteLimit {
        total: total.max(MIN_BYTE_LIMIT),
        share: total
            .div_ceil(size(limits.shares.address))
            .max(MIN_BYTE_LIMIT),
    }
}

/// Request counters of a listener.
pub(super) struct Admission {
    /// Maximum number of requests in flight. As many health checks may come on top.
    max_in_flight: usize,
    /// Share of these of one address without an authenticated caller, once half of them are taken.
    address_share: usize,
    in_flight: AtomicUsize,
    health_checks: AtomicUsize,
    next_id: AtomicU64,
    uploads: Mutex<Uploads>,
}

struct Uploads {
    unauthenticated: UploadGroup<AddressPrefix>,
    authenticated: UploadGroup<Arc<str>>,
}

impl Admission {
    pub(super) fn new(limits: &HttpLimits) -> Arc<Self> {
        Arc::new(Self {
            max_in_flight: limits.requests.max(1),
            address_share: limits
                .requests
                .max(1)
                .div_ceil(limits.shares.address.max(1)),
            in_flight: AtomicUsize::new(0),
            health_checks: AtomicUsize::new(0),
            next_id: AtomicU64::new(0),
            uploads: Mutex::new(Uploads {
                unauthenticated: UploadGroup::new(
                    limits.receiving_requests,
                    limits.shares.address,
                    upload_bytes(limits),
                ),
                authenticated: UploadGroup::new(
                    limits.receiving_requests,
                    limits.shares.principal,
                    ByteLimit::NONE,
                ),
            }),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Uploads> {
        self.uploads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a request without a body; `None` if too many are in flight: in total, or half of the total and a share
    /// of its address, unless a caller on its connection is authenticated.
    pub(super) fn try_begin(
        self: &Arc<Self>,
        path: &str,
        conn: &Arc<ConnState>,
    ) -> Option<WorkPermit> {
        let work = WorkPermit::try_acquire(self, WorkCounter::InFlight, Some(conn));
        if work.is_none() && HEALTH_PATHS.contains(&path) {
            return WorkPermit::try_acquire(self, WorkCounter::HealthCheck, None);
        }
        work
    }

    /// Registers a request whose body is still being received.
    pub(super) fn begin_upload(
        self: &Arc<Self>,
        address: AddressPrefix,
        conn: &Arc<ConnState>,
        header_bytes: usize,
    ) -> PendingUpload {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        conn.count_upload(true);
        let charge = UPLOAD_OVERHEAD + u64::try_from(header_bytes).unwrap_or(u64::MAX / 2);
        let charge = charge.next_multiple_of(CHARGE_STEP);
        let mut uploads = self.lock();
        let upload = PendingUpload(Arc::new(UploadState {
            admission: Arc::clone(self),
            id,
            phase: AtomicU8::new(UPLOADING),
            was_crowded: uploads.unauthenticated.is_crowded(&address),
            is_abandoned: AtomicBool::new(false),
            memory: AtomicU64::new(charge),
            charged: AtomicU64::new(charge),
            conn: Arc::clone(conn),
            response_waker: AtomicWaker::new(),
            read_waker: AtomicWaker::new(),
        }));
        let evicted = uploads.unauthenticated.insert(address, id, &upload, charge);
        drop(uploads);
        evicted.iter().for_each(PendingUpload::evict);
        upload
    }

    fn counter(&self, counter: WorkCounter) -> &AtomicUsize {
        match counter {
            WorkCounter::InFlight => &self.in_flight,
            WorkCounter::HealthCheck => &self.health_checks,
        }
    }
}

#[derive(Clone, Copy)]
enum WorkCounter {
    InFlight,
    HealthCheck,
}

/// Permit of a request in flight.
pub(super) struct WorkPermit {
    admission: Arc<Admission>,
    counter: WorkCounter,
    /// Connection in whose address the request counts.
    conn: Option<Arc<ConnState>>,
}

impl WorkPermit {
    fn try_acquire(
        admission: &Arc<Admission>,
        counter: WorkCounter,
        conn: Option<&Arc<ConnState>>,
    ) -> Option<Self> {
        let conn = conn.filter(|conn| !conn.is_authenticated());
        let of_address = conn.and_then(|conn| conn.heads().requests_of_address());
        let of_address = of_address.map_or(0, |count| count.fetch_add(1, Ordering::Relaxed));
        // Created first, so that its drop undoes the increments in any case.
        let before = admission.counter(counter).fetch_add(1, Ordering::Relaxed);
        let work = Self {
            admission: Arc::clone(admission),
            counter,
            conn: conn.map(Arc::clone),
        };
        let is_half_full = before >= admission.max_in_flight / 2;
        let is_over_share = is_half_full && of_address >= admission.address_share;
        (before < admission.max_in_flight && !is_over_share).then_some(work)
    }
}

impl Drop for WorkPermit {
    fn drop(&mut self) {
        let counter = self.admission.counter(self.counter);
        counter.fetch_sub(1, Ordering::Relaxed);
        let of_address = self.conn.as_ref();
        if let Some(count) = of_address.and_then(|conn| conn.heads().requests_of_address()) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

// The phases of a request with a body.

/// The body is being received.
const UPLOADING: u8 = 0;
/// The body is complete, and the request is in flight.
const IN_FLIGHT: u8 = 1;
/// The body is complete, and too many others are in flight.
const BUSY: u8 = 2;
/// The upload was aborted in favour of another.
const EVICTED: u8 = 3;
/// The request has a response, though its body may still be being received.
const RESPONDED: u8 = 4;
/// Responded, and then aborted in favour of another upload.
const RESPONDED_EVICTED: u8 = 5;

/// A request whose body is, or was, being received.
#[derive(Clone)]
pub struct PendingUpload(Arc<UploadState>);

struct UploadState {
    admission: Arc<Admission>,
    id: u64,
    phase: AtomicU8,
    /// Many others of its address were uploading when it began.
    was_crowded: bool,
    /// The body was dropped before its end.
    is_abandoned: AtomicBool,
    /// Memory of the headers and of what has been received of the body, and what is charged for it.
    memory: AtomicU64,
    charged: AtomicU64,
    conn: Arc<ConnState>,
    /// The task that makes the response, and the one that reads the body: mostly the same.
    response_waker: AtomicWaker,
    read_waker: AtomicWaker,
}

impl PendingUpload {
    /// Returns true if so many uploads of its address are pending that its caller should be authenticated at once.
    pub(crate) fn is_crowded(&self) -> bool {
        self.0.was_crowded
    }

    /// Moves the upload to the authenticated principal. If the principal has too many already, it keeps counting for
    /// its address.
    pub(crate) fn set_authenticated(&self, principal: &Arc<str>) {
        let mut uploads = self.0.admission.lock();
        if uploads.authenticated.has_capacity(principal)
            && uploads.unauthenticated.remove(self.0.id)
        {
            let principal = Arc::clone(principal);
            // It has capacity, so none is evicted.
            let _ = uploads.authenticated.insert(principal, self.0.id, self, 0);
            drop(uploads);
            // Not charged any more.
            self.0.charged.store(u64::MAX, Ordering::Relaxed);
            self.0.conn.count_upload(false);
        }
    }

    /// Counts received body bytes, plus the chunk header for a chunked body (RFC 9112, 7.1).
    pub(super) fn consume(&self, bytes: usize, is_chunked: bool) {
        self.charge(u64::try_from(bytes).unwrap_or(u64::MAX));
        let overhead = match bytes.checked_ilog2() {
            Some(bits) if is_chunked => {
                usize::try_from(bits / 4 + 1).unwrap_or(0) + "\r\n\r\n".len()
            }
            _ => 0,
        };
        self.discard(bytes.saturating_add(overhead));
    }

    /// Counts body bytes that the HTTP library no longer buffers.
    pub(super) fn discard(&self, bytes: usize) {
        if !self.0.conn.is_http2() {
            self.0.conn.heads().consume_body(bytes);
        }
    }

    /// Charges a received chunk of so many bytes. Only one task reads a body.
    fn charge(&self, bytes: u64) {
        let state = &self.0;
        let added = bytes
            .saturating_mul(MEMORY_PER_BODY_BYTE)
            .saturating_add(CHUNK_OVERHEAD);
        let memory = state.memory.load(Ordering::Relaxed).saturating_add(added);
        state.memory.store(memory, Ordering::Relaxed);
        let charged = state.charged.load(Ordering::Relaxed);
        if memory <= charged || charged >= MAX_CHARGE {
            return;
        }
        let charge = memory.min(MAX_CHARGE).next_multiple_of(CHARGE_STEP);
        state.charged.store(charge, Ordering::Relaxed);
        let mut uploads = state.admission.lock();
        let evicted = uploads.unauthenticated.grow(state.id, charge - charged);
        drop(uploads);
        evicted.iter().for_each(Self::evict);
    }

    /// Records that the body has been read completely.
    pub(super) fn finish_body(&self) {
        let conn = &self.0.conn;
        if !conn.is_http2() {
            conn.heads().finish_body();
            conn.update_head_charge();
        }
    }

    /// Records that the remainder of the body will not be read.
    pub(super) fn abandon(&self) {
        self.0.is_abandoned.store(true, Ordering::Release);
        self.complete();
    }

    /// Marks the body as complete. Returns true if the request is admitted.
    pub(super) fn complete(&self) -> bool {
        let state = &self.0;
        self.unregister();
        let working = &state.admission.in_flight;
        let before = working.fetch_add(1, Ordering::AcqRel);
        let to = if before < state.admission.max_in_flight {
            IN_FLIGHT
        } else {
            BUSY
        };
        let is_changed = self.transition(UPLOADING, to);
        if !is_changed || to == BUSY {
            working.fetch_sub(1, Ordering::AcqRel);
        }
        if is_changed && to == BUSY {
            state.response_waker.wake();
        }
        !matches!(self.phase(), BUSY | EVICTED)
    }

    /// Removes the request from the uploads.
    fn unregister(&self) {
        // An evicted one is already removed. Under an attack these are most, so they do not take the lock again.
        if matches!(self.phase(), EVICTED | RESPONDED_EVICTED) {
            return;
        }
        let mut uploads = self.0.admission.lock();
        let unauthenticated = uploads.unauthenticated.remove(self.0.id);
        if !unauthenticated {
            uploads.authenticated.remove(self.0.id);
        }
        drop(uploads);
        if unauthenticated {
            self.0.conn.count_upload(false);
        }
    }

    /// Aborts the upload in favour of another. It is already removed from its group.
    fn evict(&self) {
        self.0.conn.count_upload(false);
        if self.transition(UPLOADING, EVICTED) || self.transition(RESPONDED, RESPONDED_EVICTED) {
            self.0.response_waker.wake();
            self.0.read_waker.wake();
        }
    }

    fn transition(&self, from: u8, to: u8) -> bool {
        let phase = &self.0.phase;
        phase
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn phase(&self) -> u8 {
        self.0.phase.load(Ordering::Acquire)
    }

    /// Waits while the request is to be rejected, because then its handler must not respond; ready if the body may be
    /// read.
    pub(super) fn poll_may_read(&self, cx: &mut Context<'_>) -> Poll<Result<(), UploadAborted>> {
        self.0.read_waker.register(cx.waker());
        match self.phase() {
            EVICTED | BUSY => Poll::Pending,
            RESPONDED_EVICTED => Poll::Ready(Err(UploadAborted)),
            _ => Poll::Ready(Ok(())),
        }
    }
}

impl fmt::Debug for PendingUpload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender")
            .field("id", &self.0.id)
            .finish_non_exhaustive()
    }
}

/// Error of a body that was aborted in favour of other uploads after the response was sent.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("too many other requests are being received")]
pub(super) struct UploadAborted;

/// An upload whose request has no response yet.
pub(super) struct UnansweredUpload(pub(super) PendingUpload);

impl UnansweredUpload {
    /// Returns why the request must be rejected, if it must; the task is woken when that changes.
    pub(super) fn rejection(&self, cx: &Context<'_>) -> Option<RejectReason> {
        let reason_of = |phase| match phase {
            BUSY => Some(RejectReason::Busy),
            EVICTED => Some(RejectReason::TooManyUploads),
            _ => None,
        };
        let PendingUpload(state) = &self.0;
        match self.0.phase() {
            UPLOADING => {
                state.response_waker.register(cx.waker());
                reason_of(self.0.phase())
            }
            phase => reason_of(phase),
        }
    }

    /// Returns true if a part of the body has not been read.
    pub(super) fn is_body_unread(&self) -> bool {
        let PendingUpload(state) = &self.0;
        let sending = matches!(self.0.phase(), UPLOADING | EVICTED);
        sending || state.is_abandoned.load(Ordering::Acquire)
    }
}

impl Drop for UnansweredUpload {
    fn drop(&mut self) {
        let PendingUpload(state) = &self.0;
        match state.phase.swap(RESPONDED, Ordering::AcqRel) {
            IN_FLIGHT => {
                let working = &state.admission.in_flight;
                working.fetch_sub(1, Ordering::AcqRel);
            }
            EVICTED | BUSY => {
                state.phase.store(RESPONDED_EVICTED, Ordering::Release);
                state.read_waker.wake();
            }
            _ => {}
        }
    }
}
