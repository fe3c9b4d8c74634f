//! Retry backoff: exponential, for a bounded time.

use interzone_backoff::Backoff;
use std::time::Duration;
use tokio::time::Instant;

/// Delays between attempts to get a lock.
const LOCK_BACKOFF: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(200));

/// Backoff state of one operation that is retried.
pub(super) struct RetryBackoff {
    deadline: Instant,
    retries: u32,
}

impl RetryBackoff {
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            deadline: Instant::now() + limit,
            retries: 0,
        }
    }

    /// Waits until the next attempt; false if no time is left.
    pub(super) async fn wait(&mut self) -> bool {
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return false;
        }
        tokio::time::sleep(LOCK_BACKOFF.delay(self.retries).min(remaining)).await;
        self.retries = self.retries.saturating_add(1);
        true
    }
}
