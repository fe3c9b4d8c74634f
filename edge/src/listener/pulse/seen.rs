//! What the sweep remembers of a connection from one time to the next, and what it makes of it.

use super::{Order, Pulse, Stalled};
use crate::limits::HttpLimits;
use crate::listener::transfer::{Checked, Pace, Transfer};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// A pulse, and what the sweep remembers of it.
pub(super) struct Seen {
    pub(super) pulse: Arc<Pulse>,
    begun: u32,
    quiet_since: Option<Instant>,
    head_since: Option<Instant>,
    /// Since when a header block of HTTP/2 is open.
    block_since: Option<Instant>,
    pace: Pace,
    /// When the system was last seen to have taken bytes, and how many it had taken by then.
    moved: Option<(Instant, u64)>,
}

/// How long a connection of a reader that reads may stand still: the system reports room for more bytes only when a
/// good part of its buffer is free.
const MOVES_WITHIN: Duration = Duration::from_secs(1);

/// What a check of the streams of a connection found.
#[derive(Default)]
pub(super) struct Streams {
    /// There is one that only the end of the connection ends.
    pub(super) out_of_reach: bool,
    /// The memory of small answers that are not read.
    pub(super) unread: u64,
}

impl Seen {
    pub(super) fn new(pulse: &Arc<Pulse>) -> Self {
        Self {
            pulse: Arc::clone(pulse),
            begun: 0,
            quiet_since: None,
            head_since: None,
            block_since: None,
            pace: Pace::default(),
            moved: None,
        }
    }

    /// Whether the system has taken bytes of the connection lately.
    pub(super) fn moves(&mut self, now: Instant) -> bool {
        let written = self.pulse.written.load(Ordering::Relaxed);
        match self.moved {
            Some((moment, before)) if before == written => {
                now.saturating_duration_since(moment) < MOVES_WITHIN
            }
            _ => {
                self.moved = Some((now, written));
                true
            }
        }
    }

    /// Whether the other side has read too little of what the connection sends.
    pub(super) fn is_unread(&mut self, limits: &HttpLimits, now: Instant) -> bool {
        if !self.pulse.blocked.load(Ordering::Relaxed) {
            self.pace.rest();
            return false;
        }
        let written = self.pulse.written.load(Ordering::Relaxed);
        self.pace.is_stalled(written, limits.stall, now)
    }

    /// Resets the streams whose responses are not read for too long.
    pub(super) fn check_streams(
        &self,
        limits: &HttpLimits,
        now: Instant,
        transfers: &mut Vec<Arc<Transfer>>,
        stalled: &mut Stalled,
    ) -> Streams {
        let mut streams = Streams::default();
        if !self.pulse.is_multiplexed() {
            return streams;
        }
        // The last owner of a transfer removes it from this very list, so none is dropped under its lock.
        transfers.extend(
            self.pulse
                .lock_transfers()
                .values()
                .filter_map(Weak::upgrade),
        );
        for transfer in transfers.drain(..) {
            match transfer.check(limits.stall, now) {
                Checked::Moves => streams.unread += transfer.unread(now),
                Checked::Reset => stalled.streams += 1,
                Checked::OutOfReach => streams.out_of_reach = true,
            }
        }
        streams
    }

    pub(super) fn judge(&mut self, limits: &HttpLimits, now: Instant) -> Order {
        let pulse = &self.pulse;
        let since = |moment: Instant| now.saturating_duration_since(moment);
        let begun = pulse.begun.load(Ordering::Relaxed);
        let has_new = std::mem::replace(&mut self.begun, begun) != begun;
        // It keeps out every other frame, whatever else runs on the connection.
        if has_new || !pulse.heads.is_block_open() {
            self.block_since = None;
        } else if since(*self.block_since.get_or_insert(now)) >= limits.header_time {
            return Order::Cut;
        }
        if !pulse.is_driven() || !pulse.is_idle() {
            self.quiet_since = None;
            self.head_since = None;
            return Order::Go;
        }
        if has_new {
            self.quiet_since = None;
            self.head_since = None;
        }
        let quiet = since(*self.quiet_since.get_or_insert(now));
        let reading = pulse.reading.load(Ordering::Relaxed) && !pulse.is_multiplexed();
        if reading || begun == 0 {
            let head = since(*self.head_since.get_or_insert(now));
            if head >= limits.header_time {
                return Order::Cut;
            }
        } else {
            self.head_since = None;
        }
        match quiet {
            // It was asked to close and has had its time to do so.
            quiet if quiet >= limits.idle.saturating_add(limits.header_time) => Order::Cut,
            quiet if quiet >= limits.idle => Order::Close,
            _ => Order::Go,
        }
    }
}
