//! Trying again for a bounded time, with longer and longer pauses.

use std::time::Duration;
use tokio::time::Instant;

/// The first pause; each one is twice as long as the one before, up to the longest.
const FIRST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(200);

/// The time for one thing that is tried again and again.
pub(super) struct Retry {
    deadline: Instant,
    pause: Duration,
}

impl Retry {
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            deadline: Instant::now() + limit,
            pause: FIRST,
        }
    }

    /// Waits until the next try; false if there is no time left for one.
    pub(super) async fn wait(&mut self) -> bool {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        tokio::time::sleep(self.pause.min(left)).await;
        self.pause = self.pause.saturating_mul(2).min(LONGEST);
        true
    }
}
