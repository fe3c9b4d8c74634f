//! Retry backoff: exponential delays with jitter between the attempts of an operation.
//!
//! This crate only computes delays. The caller decides which errors are retried, how often, and how to wait.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::Duration;

/// Exponential backoff: delays that double from `base` up to `cap`.
///
/// ```
/// use interzone_backoff::Backoff;
/// use std::time::Duration;
///
/// let backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
/// assert_eq!(backoff.delay(0), Duration::from_millis(100));
/// assert_eq!(backoff.delay(3), Duration::from_millis(800));
/// assert_eq!(backoff.delay(u32::MAX), Duration::from_secs(5));
/// assert!(backoff.equal_jitter(3) >= Duration::from_millis(400));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// Delay before the first retry.
    pub base: Duration,
    /// Maximum delay.
    pub cap: Duration,
}

impl Backoff {
    /// Creates a backoff with these first and maximum delays.
    pub const fn new(base: Duration, cap: Duration) -> Self {
        Self { base, cap }
    }

    /// Returns the delay before retry `retry`, counted from 0, without jitter.
    pub fn delay(&self, retry: u32) -> Duration {
        let factor = 2_u32.saturating_pow(retry);
        self.base.saturating_mul(factor).min(self.cap)
    }

    /// Returns the delay before retry `retry` with equal jitter: half of it is fixed and half is random, so that
    /// operations that failed together are not retried together.
    pub fn equal_jitter(&self, retry: u32) -> Duration {
        self.equal_jitter_from(retry, random_bits())
    }

    /// As [`equal_jitter`](Self::equal_jitter), with the caller's random bits.
    pub fn equal_jitter_from(&self, retry: u32, random: u64) -> Duration {
        let delay = self.delay(retry);
        let half = delay / 2;
        delay - half + fraction(half, random)
    }

    /// Returns a random delay between zero and the delay before retry `retry` (full jitter).
    pub fn full_jitter(&self, retry: u32) -> Duration {
        random_up_to(self.delay(retry))
    }
}

/// Returns a random duration between zero and `max`.
pub fn random_up_to(max: Duration) -> Duration {
    fraction(max, random_bits())
}

/// Returns the part of `max` that `random` is of all its values: zero for 0, and nearly `max` for the largest.
fn fraction(max: Duration, random: u64) -> Duration {
    // 32 of the bits, multiplied in integers: exact, and without the rounding of floating point.
    let parts = u128::from(random >> 32);
    let nanos = max.as_nanos().saturating_mul(parts) >> 32;
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
    Duration::new(seconds, rest)
}

/// Returns random bits that are sufficient for jitter: hashes of the standard library have random keys.
fn random_bits() -> u64 {
    RandomState::new().hash_one(0_u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn durations() -> impl Strategy<Value = Duration> {
        prop_oneof![
            (0..100_000_u64).prop_map(Duration::from_millis),
            any::<u64>().prop_map(Duration::from_nanos),
            Just(Duration::MAX),
        ]
    }

    proptest! {
        #[test]
        fn delay_doubles_until_the_cap(base in durations(), cap in durations(), retry in 0..200_u32) {
            let backoff = Backoff::new(base, cap);
            let (delay, next) = (backoff.delay(retry), backoff.delay(retry + 1));
            prop_assert_eq!(backoff.delay(0), base.min(cap));
            prop_assert!(delay <= cap && delay <= next);
            if retry < 31 {
                prop_assert_eq!(next, delay.saturating_mul(2).min(cap));
            }
        }

        #[test]
        fn jittered_delay_stays_in_its_range(
            base in durations(), cap in durations(), retry: u32, random: u64,
        ) {
            let backoff = Backoff::new(base, cap);
            let delay = backoff.delay(retry);
            let jittered = [backoff.equal_jitter_from(retry, random), backoff.equal_jitter(retry)];
            for jittered in jittered {
                prop_assert!(delay / 2 <= jittered && jittered <= delay, "{jittered:?} of {delay:?}");
            }
            prop_assert!(backoff.full_jitter(retry) <= delay);
        }

        #[test]
        fn jitter_grows_with_the_random_bits(max in durations(), a: u64, b: u64) {
            prop_assert!(fraction(max, a.min(b)) <= fraction(max, a.max(b)));
        }
    }

    #[test]
    fn jitter_covers_its_range() {
        let max = Duration::from_secs(8);
        assert_eq!(fraction(max, 0), Duration::ZERO);
        assert_eq!(fraction(max, 1 << 63), max / 2);
        assert!(fraction(max, u64::MAX) > max.mul_f64(0.999));
        let spread: Vec<Duration> = (0..1_000).map(|_| random_up_to(max)).collect();
        assert!(spread.iter().any(|delay| *delay < max / 10));
        assert!(spread.iter().any(|delay| *delay > max / 10 * 9));
    }
}
