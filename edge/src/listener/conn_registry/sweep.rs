//! Per-connection memory of the sweep, and its decisions.

use super::{ConnState, ShutdownOrder, StalledCounts};
use crate::limits::HttpLimits;
use crate::listener::transfer::{StallDetector, Transfer, TransferCheck};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// A connection and what the sweep remembers of it.
pub(super) struct SweepEntry {
    pub(super) conn: Arc<ConnState>,
    started_requests: u32,
    idle_since: Option<Instant>,
    head_since: Option<Instant>,
    /// Start of an open HTTP/2 header block.
    block_since: Option<Instant>,
    stall_detector: StallDetector,
    /// Time of the last progress, and the bytes written by then.
    last_progress: Option<(Instant, u64)>,
}

/// Maximum time without progress of a client that reads: the system reports free buffer space only when a good part of
/// it is free.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Result of checking the streams of a connection.
#[derive(Default)]
pub(super) struct StreamCheck {
    /// A stalled stream can only be ended by aborting the connection.
    pub(super) needs_abort: bool,
    /// Memory of small responses that are not read.
    pub(super) unread_bytes: u64,
}

impl SweepEntry {
    pub(super) fn new(conn: &Arc<ConnState>) -> Self {
        Self {
            conn: Arc::clone(conn),
            started_requests: 0,
            idle_since: None,
            head_since: None,
            block_since: None,
            stall_detector: StallDetector::default(),
            last_progress: None,
        }
    }

    /// Returns true if the system has accepted bytes of the connection recently.
    pub(super) fn makes_progress(&mut self, now: Instant) -> bool {
        let written = self.conn.written_bytes.load(Ordering::Relaxed);
        match self.last_progress {
            Some((time, before)) if before == written => {
                now.saturating_duration_since(time) < PROGRESS_INTERVAL
            }
            _ => {
                self.last_progress = Some((now, written));
                true
            }
        }
    }

    /// Returns true if the peer has read too little of what the connection sends.
    pub(super) fn is_stalled(&mut self, limits: &HttpLimits, now: Instant) -> bool {
        if !self.conn.write_blocked.load(Ordering::Relaxed) {
            self.stall_detector.reset();
            return false;
        }
        let written = self.conn.written_bytes.load(Ordering::Relaxed);
        self.stall_detector
            .is_stalled(written, limits.stall_timeout, now)
    }

    /// Resets the streams whose responses have been unread for too long.
    pub(super) fn check_streams(
        &self,
        limits: &HttpLimits,
        now: Instant,
        transfers: &mut Vec<Arc<Transfer>>,
        stalled: &mut StalledCounts,
    ) -> StreamCheck {
        let mut streams = StreamCheck::default();
        if !self.conn.is_http2() {
            return streams;
        }
        // The last owner of a transfer removes it from this list, so none may be dropped under its lock.
        transfers.extend(
            self.conn
                .lock_transfers()
                .values()
                .filter_map(Weak::upgrade),
        );
        for transfer in transfers.drain(..) {
            match transfer.check(limits.stall_timeout, now) {
                TransferCheck::Progressing => streams.unread_bytes += transfer.unread_bytes(now),
                TransferCheck::Reset => stalled.streams += 1,
                TransferCheck::NeedsAbort => streams.needs_abort = true,
            }
        }
        streams
    }

    pub(super) fn check_timeouts(&mut self, limits: &HttpLimits, now: Instant) -> ShutdownOrder {
        let conn = &self.conn;
        let since = |start: Instant| now.saturating_duration_since(start);
        let started = conn.started_requests.load(Ordering::Relaxed);
        let has_new_request = std::mem::replace(&mut self.started_requests, started) != started;
        // It blocks every other frame, whatever else is active on the connection.
        if has_new_request || !conn.heads.is_block_open() {
            self.block_since = None;
        } else if since(*self.block_since.get_or_insert(now)) >= limits.header_timeout {
            return ShutdownOrder::Abort;
        }
        if !conn.is_serving_http() || !conn.is_idle() {
            self.idle_since = None;
            self.head_since = None;
            return ShutdownOrder::KeepOpen;
        }
        if has_new_request {
            self.idle_since = None;
            self.head_since = None;
        }
        let idle = since(*self.idle_since.get_or_insert(now));
        let is_reading_head = conn.reading_head.load(Ordering::Relaxed) && !conn.is_http2();
        if is_reading_head || started == 0 {
            let head_time = since(*self.head_since.get_or_insert(now));
            if head_time >= limits.header_timeout {
                return ShutdownOrder::Abort;
            }
        } else {
            self.head_since = None;
        }
        match idle {
            // It was asked to close and has had time to do so.
            quiet if quiet >= limits.idle_timeout.saturating_add(limits.header_timeout) => {
                ShutdownOrder::Abort
            }
            quiet if quiet >= limits.idle_timeout => ShutdownOrder::Close,
            _ => ShutdownOrder::KeepOpen,
        }
    }
}
