//! Sums of time that cannot overflow, whatever limits a caller chose. What time it is comes from
//! tokio, whose clock a test can stop.

use std::time::Duration;
use tokio::time::Instant;

/// Farther ahead than any program runs, and near enough for every clock.
const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The moment so long after `now`.
pub(crate) fn after(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait.min(FAR)).unwrap_or(now)
}
