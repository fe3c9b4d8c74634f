//! The authoritative clock: the server's, because it is the only one that all nodes share.
//!
//! Leases, due times and expiries are written and compared with the server's `clock_timestamp()`. Of the
//! timestamps that a node passes, only differences are used, so clock skew of the node does not matter.

use super::PostgresStore;
use interzone_protocol::vocab::Timestamp;
use std::time::Duration;

/// Selects the clock that decides about leases and due times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PostgresClock {
    /// The server's clock.
    #[default]
    Server,
    /// The caller's clock. For tests that control the time; nodes with different clocks would
    /// take over each other's work.
    Caller,
}

/// SQL expression for the current time in milliseconds since 1970: the given parameter, or the
/// server's clock if it is null. As a subquery it is evaluated once, so that an index can be used.
macro_rules! now_or_server {
    ($parameter:literal) => {
        concat!(
            "(SELECT coalesce(",
            $parameter,
            "::bigint, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint))"
        )
    };
}
pub(super) use now_or_server;

/// Maximum offset, a thousand years: longer than any wait, and safe to add to any timestamp.
const MAX_OFFSET_MILLIS: i64 = 1_000 * 366 * 24 * 3_600 * 1_000;

impl PostgresClock {
    /// Value of the parameter of [`now_or_server`].
    pub(super) fn now_param(self, now: Timestamp) -> Option<i64> {
        match self {
            Self::Server => None,
            Self::Caller => Some(now.as_millis()),
        }
    }

    /// Milliseconds between two timestamps of one caller's clock.
    pub(super) fn millis_between(self, from: Timestamp, to: Timestamp) -> i64 {
        let wait = to.as_millis().saturating_sub(from.as_millis());
        match self {
            Self::Server => wait.clamp(-MAX_OFFSET_MILLIS, MAX_OFFSET_MILLIS),
            Self::Caller => wait,
        }
    }

    /// Milliseconds of a duration that begins now.
    pub(super) fn duration_millis(self, now: Timestamp, length: Duration) -> i64 {
        self.millis_between(now, now.plus(length))
    }
}

impl PostgresStore {
    /// The configured clock.
    pub(super) const fn clock(&self) -> PostgresClock {
        self.clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_clock_mode_sends_only_time_differences() {
        let clock = PostgresClock::Server;
        for now in [0, 1_700_000_000_000, i64::MAX, i64::MIN] {
            assert_eq!(clock.now_param(Timestamp::from_millis(now)), None);
        }
        let now = Timestamp::from_millis(1_700_000_000_000);
        assert_eq!(clock.duration_millis(now, Duration::from_secs(15)), 15_000);
        assert_eq!(clock.duration_millis(now, Duration::MAX), MAX_OFFSET_MILLIS);
        let past = Timestamp::from_millis(i64::MIN);
        assert_eq!(clock.millis_between(now, past), -MAX_OFFSET_MILLIS);
    }
}
