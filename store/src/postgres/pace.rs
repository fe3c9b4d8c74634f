//! How long to wait before trying again. Nothing here knows what is tried.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// How long to wait before attempt number `attempt + 1`: doubling, half of it random.
pub(super) fn backoff(attempt: u32) -> Duration {
    let most = 20_u64.saturating_mul(1 << attempt.min(7));
    Duration::from_millis(most / 2 + random() % (most / 2))
}

/// Sixty-four random bits, good enough for names and jitter.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}
