//! Rate quotas (GCRA): smoothed rate limits with one stored number per key.

use interzone_protocol::vocab::Timestamp;
use std::time::Duration;

/// A rate: `limit` units per `window`.
///
/// Allows a burst of `limit`; after that it refills evenly, `limit` per `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Number of units.
    pub limit: u32,
    /// Length of the window.
    pub window: Duration,
}

/// Result of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// The charge was allowed.
    Allowed {
        /// Number of units that could be charged right now in addition.
        remaining: u32,
    },
    /// The charge was refused, and nothing was charged.
    Refused {
        /// Time until the charge would be allowed.
        retry_after: Duration,
    },
}

impl Rate {
    /// Evaluates a charge.
    ///
    /// `full_at` is the time at which everything charged so far will have refilled (the GCRA theoretical arrival
    /// time): the one number stored per key; `None` if nothing was charged yet. Returns the new one if the charge is
    /// allowed.
    pub fn charge(
        &self,
        full_at: Option<Timestamp>,
        now: Timestamp,
        cost: u32,
    ) -> (Option<Timestamp>, Charge) {
        let window = i128::try_from(self.window.as_millis()).unwrap_or(i128::MAX);
        let limit = i128::from(self.limit);
        let now_millis = i128::from(now.as_millis());
        // In units of a millisecond divided by the limit, to avoid rounding.
        let start = full_at
            .map_or(now_millis, |at| i128::from(at.as_millis()))
            .max(now_millis)
            // A clock that was set back must not cause waits longer than a window.
            .min(now_millis.saturating_add(window));
        if limit == 0 || i128::from(cost) > limit {
            return (
                None,
                Charge::Refused {
                    retry_after: self.window,
                },
            );
        }
        let price = (i128::from(cost) * window + limit - 1) / limit;
        let full = start + price;
        let excess = full - (now_millis + window);
        if excess > 0 {
            let millis = u64::try_from(excess).unwrap_or(u64::MAX);
            return (
                None,
                Charge::Refused {
                    retry_after: Duration::from_millis(millis),
                },
            );
        }
        let remaining = (-excess) * limit / window.max(1);
        let remaining = u32::try_from(remaining).unwrap_or(u32::MAX);
        let full = Timestamp::from_millis(i64::try_from(full).unwrap_or(i64::MAX));
        (Some(full), Charge::Allowed { remaining })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate {
        limit: 10,
        window: Duration::from_secs(60),
    };

    fn timestamp(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn burst_is_allowed_then_refills_evenly() {
        let mut full = None;
        for left in (0..10).rev() {
            let (next, charge) = RATE.charge(full, timestamp(0), 1);
            assert_eq!(charge, Charge::Allowed { remaining: left });
            full = next;
        }
        let (_, charge) = RATE.charge(full, timestamp(0), 1);
        assert_eq!(
            charge,
            Charge::Refused {
                retry_after: Duration::from_secs(6)
            }
        );
        let (_, charge) = RATE.charge(full, timestamp(5_999), 1);
        assert_eq!(
            charge,
            Charge::Refused {
                retry_after: Duration::from_millis(1)
            }
        );
        let (_, charge) = RATE.charge(full, timestamp(6_000), 1);
        assert_eq!(charge, Charge::Allowed { remaining: 0 });
        let (_, charge) = RATE.charge(full, timestamp(60_000), 1);
        assert_eq!(charge, Charge::Allowed { remaining: 9 });
    }

    #[test]
    fn cost_above_the_limit_is_refused() {
        assert!(matches!(
            RATE.charge(None, timestamp(0), 11).1,
            Charge::Refused { .. }
        ));
        let zero_rate = Rate {
            limit: 0,
            window: Duration::from_secs(1),
        };
        assert!(matches!(
            zero_rate.charge(None, timestamp(0), 1).1,
            Charge::Refused { .. }
        ));
        assert_eq!(
            RATE.charge(None, timestamp(0), 0).1,
            Charge::Allowed { remaining: 10 }
        );
    }

    #[test]
    fn no_window_allows_more_than_twice_the_limit() {
        let (mut full, mut allowed) = (None, Vec::new());
        for millis in (0..300_000).step_by(100) {
            if let (Some(next), Charge::Allowed { .. }) = RATE.charge(full, timestamp(millis), 1) {
                full = Some(next);
                allowed.push(millis);
            }
        }
        for start in &allowed {
            let count = allowed
                .iter()
                .filter(|t| (*start..start + 60_000).contains(*t))
                .count();
            assert!(count <= 20, "{count} from {start}");
        }
    }
}
