//! Saturating deadline arithmetic on tokio's clock, which tests can pause.

use std::time::Duration;
use tokio::time::Instant;

/// Maximum wait: longer than any process runs, and within the range of every clock.
const MAX_WAIT: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Returns `now + wait` without overflow.
pub(crate) fn saturating_deadline(now: Instant, wait: Duration) -> Instant {
    now.checked_add(wait.min(MAX_WAIT)).unwrap_or(now)
}
