//! What time it is, for everything here that expires.
//!
//! A clock is handed in, so that tests decide the time. Nothing in this crate may ask the machine
//! for it elsewhere to judge a token, a key or a code.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Tells the time. Cheap to clone; clones of a clock that was set share its hands.
#[derive(Clone, Debug)]
pub struct Clock(Kind);

#[derive(Clone, Debug)]
enum Kind {
    /// The machine's, with the moment from which steady time is counted.
    Machine(Instant),
    /// One that moves only when told to, in milliseconds since 1970.
    Set(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's clock.
    pub fn machine() -> Self {
        Self(Kind::Machine(Instant::now()))
    }

    /// A clock that stands still at `unix` seconds until it is [advanced](Self::advance).
    pub fn set(unix: u64) -> Self {
        Self(Kind::Set(Arc::new(AtomicU64::new(
            unix.saturating_mul(1000),
        ))))
    }

    /// Moves a clock that was set. The machine's clock does not listen.
    pub fn advance(&self, by: Duration) {
        if let Kind::Set(millis) = &self.0 {
            let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
            millis.fetch_add(by, Ordering::SeqCst);
        }
    }

    /// Seconds since 1970, as tokens count them.
    pub fn unix(&self) -> u64 {
        match &self.0 {
            Kind::Machine(_) => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_secs(),
            Kind::Set(millis) => millis.load(Ordering::SeqCst) / 1000,
        }
    }

    /// Time that never runs backwards, whatever an administrator does to the machine's clock.
    pub fn steady(&self) -> Duration {
        match &self.0 {
            Kind::Machine(start) => start.elapsed(),
            Kind::Set(millis) => Duration::from_millis(millis.load(Ordering::SeqCst)),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::machine()
    }
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use std::time::Duration;

    #[test]
    fn a_set_clock_moves_only_when_told() {
        let clock = Clock::set(1_000);
        let twin = clock.clone();
        assert_eq!(
            (clock.unix(), clock.steady()),
            (1_000, Duration::from_secs(1_000))
        );
        twin.advance(Duration::from_millis(2_500));
        assert_eq!(clock.unix(), 1_002);
        assert_eq!(clock.steady(), Duration::from_millis(1_002_500));
    }

    #[test]
    fn the_machines_clock_is_not_in_1970_and_cannot_be_moved() {
        let clock = Clock::machine();
        clock.advance(Duration::from_secs(1 << 40));
        assert!(clock.unix() > 1_700_000_000);
        assert!(clock.steady() < Duration::from_secs(3600));
    }
}
