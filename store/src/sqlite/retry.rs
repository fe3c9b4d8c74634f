//! Retries for a bounded time, with exponential backoff.

use std::time::Duration;
use tokio::time::Instant;

/// First delay; each one is twice as long as the previous, up to the maximum.
const INITIAL_BACKOFF: Duration = Duration::from_millis(5);
const MAX_BACKOFF: Duration = Duration::from_millis(200);

/// Backoff state of one operation that is retried.
pub(super) struct RetryBackoff {
    deadline: Instant,
    delay: Duration,
}

impl RetryBackoff {
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            deadline: Instant::now() + limit,
            delay: INITIAL_BACKOFF,
        }
    }

    /// Waits until the next attempt; false if no time is left.
    pub(super) async fn wait(&mut self) -> bool {
        let remaining = self.deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return false;
        }
        tokio::time::sleep(self.delay.min(remaining)).await;
        self.delay = self.delay.saturating_mul(2).min(MAX_BACKOFF);
        true
    }
}
