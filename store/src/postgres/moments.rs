//! Whose clock counts: the server's, for it is the only one that all nodes share.
//!
//! Leases, and the moments at which something is due or has expired, are written and judged by the
//! server's `clock_timestamp()`. Of the moments that a node gives, only the difference counts, so it
//! does not matter what its own clock shows.

use super::PostgresStore;
use interzone_protocol::vocab::Timestamp;
use std::time::Duration;

/// Which clock decides about leases and what is due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PostgresClock {
    /// The server's.
    #[default]
    Server,
    /// The caller's. For tests that decide the time; nodes whose clocks differ would
    /// take each other's work.
    Caller,
}

/// The present moment in a statement, in milliseconds since 1970: what this parameter holds, or the
/// server's clock if it is null. As a query of its own it is evaluated once, so that an index can be
/// searched by it.
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

/// Longer than anything waits, and short enough to be added to any moment of a clock: a thousand years.
const LONGEST: i64 = 1_000 * 366 * 24 * 3_600 * 1_000;

impl PostgresClock {
    /// The parameter of [`now_or_server`].
    pub(super) fn now(self, now: Timestamp) -> Option<i64> {
        match self {
            Self::Server => None,
            Self::Caller => Some(now.as_millis()),
        }
    }

    /// How many milliseconds lie between two moments of one caller's clock.
    pub(super) fn between(self, from: Timestamp, to: Timestamp) -> i64 {
        let wait = to.as_millis().saturating_sub(from.as_millis());
        match self {
            Self::Server => wait.clamp(-LONGEST, LONGEST),
            Self::Caller => wait,
        }
    }

    /// How many milliseconds something takes that begins now.
    pub(super) fn length(self, now: Timestamp, length: Duration) -> i64 {
        self.between(now, now.after(length))
    }
}

impl PostgresStore {
    /// The clock that decides.
    pub(super) const fn clock(&self) -> PostgresClock {
        self.clock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differences_of_a_nodes_clock_reach_the_server() {
        let clock = PostgresClock::Server;
        for now in [0, 1_700_000_000_000, i64::MAX, i64::MIN] {
            assert_eq!(clock.now(Timestamp::from_millis(now)), None);
        }
        let now = Timestamp::from_millis(1_700_000_000_000);
        assert_eq!(clock.length(now, Duration::from_secs(15)), 15_000);
        assert_eq!(clock.length(now, Duration::MAX), LONGEST);
        let past = Timestamp::from_millis(i64::MIN);
        assert_eq!(clock.between(now, past), -LONGEST);
    }
}
