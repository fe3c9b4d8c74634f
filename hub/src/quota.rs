//! Quotas: so many in so long, smoothed, and decided by one number for each key.

use interzone_protocol::vocab::Timestamp;
use std::time::Duration;

/// How much is allowed in how long.
///
/// Up to `limit` may come at once; after that it refills evenly, `limit` in every `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How much.
    pub limit: u32,
    /// In how long.
    pub window: Duration,
}

/// Whether something was allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// It was, and this much is left.
    Allowed {
        /// What could be charged right now on top.
        left: u32,
    },
    /// It was not, and nothing was charged.
    Refused {
        /// How long to wait until it would be.
        retry_after: Duration,
    },
}

impl Rate {
    /// Decides a charge.
    ///
    /// `full_at` is the moment at which everything charged so far will have refilled: the one number
    /// to keep for a key; none if nothing was ever charged. The new one is handed back if the charge
    /// is allowed.
    pub fn charge(
        &self,
        full_at: Option<Timestamp>,
        now: Timestamp,
        cost: u32,
    ) -> (Option<Timestamp>, Charge) {
        let window = i128::try_from(self.window.as_millis()).unwrap_or(i128::MAX);
        let limit = i128::from(self.limit);
        let now_millis = i128::from(now.as_millis());
        // In units of a millisecond divided by the limit, so that nothing is rounded away.
        let start = full_at
            .map_or(now_millis, |at| i128::from(at.as_millis()))
            .max(now_millis)
            // A clock that was set back must not make anybody wait for longer than a window.
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
        let over = full - (now_millis + window);
        if over > 0 {
            let millis = u64::try_from(over).unwrap_or(u64::MAX);
            return (
                None,
                Charge::Refused {
                    retry_after: Duration::from_millis(millis),
                },
            );
        }
        let left = (-over) * limit / window.max(1);
        let left = u32::try_from(left).unwrap_or(u32::MAX);
        let full = Timestamp::from_millis(i64::try_from(full).unwrap_or(i64::MAX));
        (Some(full), Charge::Allowed { left })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate {
        limit: 10,
        window: Duration::from_secs(60),
    };

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_full_burst_then_an_even_refill() {
        let mut full = None;
        for left in (0..10).rev() {
            let (next, charge) = RATE.charge(full, at(0), 1);
            assert_eq!(charge, Charge::Allowed { left });
            full = next;
        }
        let (_, charge) = RATE.charge(full, at(0), 1);
        assert_eq!(
            charge,
            Charge::Refused {
                retry_after: Duration::from_secs(6)
            }
        );
        let (_, charge) = RATE.charge(full, at(5_999), 1);
        assert_eq!(
            charge,
            Charge::Refused {
                retry_after: Duration::from_millis(1)
            }
        );
        let (_, charge) = RATE.charge(full, at(6_000), 1);
        assert_eq!(charge, Charge::Allowed { left: 0 });
        let (_, charge) = RATE.charge(full, at(60_000), 1);
        assert_eq!(charge, Charge::Allowed { left: 9 });
    }

    #[test]
    fn more_than_the_limit_is_never_allowed() {
        assert!(matches!(
            RATE.charge(None, at(0), 11).1,
            Charge::Refused { .. }
        ));
        let none = Rate {
            limit: 0,
            window: Duration::from_secs(1),
        };
        assert!(matches!(
            none.charge(None, at(0), 1).1,
            Charge::Refused { .. }
        ));
        assert_eq!(RATE.charge(None, at(0), 0).1, Charge::Allowed { left: 10 });
    }

    #[test]
    fn no_window_of_any_length_lets_more_than_twice_the_limit_through() {
        let (mut full, mut allowed) = (None, Vec::new());
        for millis in (0..300_000).step_by(100) {
            if let (Some(next), Charge::Allowed { .. }) = RATE.charge(full, at(millis), 1) {
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
