//! Injected clock for everything in this crate that expires.
//!
//! Tests set the time. No other code in this crate may read the system time to judge a token, a key or a code.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Source of wall-clock and monotonic time. Cheap to clone; clones of a fixed clock share its time.
#[derive(Clone, Debug)]
pub struct Clock(ClockKind);

#[derive(Clone, Debug)]
enum ClockKind {
    /// The system clock, with the start of monotonic time.
    System(Instant),
    /// A clock that moves only by [`Clock::advance`], in milliseconds since 1970.
    Fixed(Arc<AtomicU64>),
}

impl Clock {
    /// Returns the system clock.
    pub fn system() -> Self {
        Self(ClockKind::System(Instant::now()))
    }

    /// Returns a clock that stands still at `unix` seconds until it is [advanced](Self::advance).
    pub fn fixed(unix: u64) -> Self {
        Self(ClockKind::Fixed(Arc::new(AtomicU64::new(
            unix.saturating_mul(1000),
        ))))
    }

    /// Moves a fixed clock. Does nothing to the system clock.
    pub fn advance(&self, by: Duration) {
        if let ClockKind::Fixed(millis) = &self.0 {
            let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
            millis.fetch_add(by, Ordering::SeqCst);
        }
    }

    /// Returns seconds since 1970, as in JWT claims.
    pub fn unix(&self) -> u64 {
        match &self.0 {
            ClockKind::System(_) => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs(),
            ClockKind::Fixed(millis) => millis.load(Ordering::SeqCst) / 1000,
        }
    }

    /// Returns monotonic time, which never runs backwards when the system clock is set.
    pub fn monotonic(&self) -> Duration {
        match &self.0 {
            ClockKind::System(start) => start.elapsed(),
            ClockKind::Fixed(millis) => Duration::from_millis(millis.load(Ordering::SeqCst)),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use std::time::Duration;

    #[test]
    fn fixed_clock_moves_only_when_advanced() {
        let clock = Clock::fixed(1_000);
        let twin = clock.clone();
        assert_eq!(
            (clock.unix(), clock.monotonic()),
            (1_000, Duration::from_secs(1_000))
        );
        twin.advance(Duration::from_millis(2_500));
        assert_eq!(clock.unix(), 1_002);
        assert_eq!(clock.monotonic(), Duration::from_millis(1_002_500));
    }

    #[test]
    fn system_clock_reads_system_time_and_ignores_advance() {
        let clock = Clock::system();
        clock.advance(Duration::from_secs(1 << 40));
        assert!(clock.unix() > 1_700_000_000);
        assert!(clock.monotonic() < Duration::from_secs(3600));
    }
}
