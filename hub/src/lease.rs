//! Lease expiry as seen by the holder.
//!
//! The store decides when a lease expires. The holder must stop before that, so it measures with a monotonic
//! clock from just before the request: the store cannot have started the lease earlier.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A lease on a work item or an outbox entry, as seen by its holder.
#[derive(Debug)]
pub struct Lease {
    /// Duration; `None` if it lasts as long as this process.
    duration: Option<Duration>,
    /// Time of the last request or renewal.
    requested_at: Mutex<Instant>,
}

impl Lease {
    /// A granted lease that was requested at this time.
    pub(crate) fn new(duration: Option<Duration>, requested_at: Instant) -> Self {
        let requested_at = Mutex::new(requested_at);
        Self {
            duration,
            requested_at,
        }
    }

    /// Records a renewal that was requested at this time.
    pub(crate) fn record_renewal(&self, requested_at: Instant) {
        *self
            .requested_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = requested_at;
    }

    /// Time that the holder may continue without renewal, excluding the [margin](Self::margin); `None` if no
    /// renewal is needed.
    pub fn remaining(&self) -> Option<Duration> {
        let duration = self.duration?;
        let requested_at = *self
            .requested_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let usable = duration.saturating_sub(self.margin());
        Some(usable.saturating_sub(requested_at.elapsed()))
    }

    /// Returns true if the holder must stop, because another node may soon claim the same work.
    pub fn is_lost(&self) -> bool {
        self.remaining()
            .is_some_and(|remaining| remaining.is_zero())
    }

    /// Safety margin at the end of a lease that the holder does not use, so that it stops before another holder
    /// starts: a fifth of the duration.
    pub fn margin(&self) -> Duration {
        self.duration.unwrap_or_default() / 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn lease_is_lost_a_margin_before_expiry() {
        let requested_at = Instant::now();
        tokio::time::advance(Duration::from_secs(3)).await;
        let lease = Lease::new(Some(DURATION), requested_at);
        assert_eq!(lease.margin(), Duration::from_secs(2));
        assert_eq!(lease.remaining(), Some(Duration::from_secs(5)));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(lease.is_lost());
    }

    #[tokio::test(start_paused = true)]
    async fn renewal_counts_from_the_request_time() {
        let lease = Lease::new(Some(DURATION), Instant::now());
        tokio::time::advance(Duration::from_secs(6)).await;
        let requested_at = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        lease.record_renewal(requested_at);
        assert_eq!(lease.remaining(), Some(Duration::from_secs(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn lease_without_duration_is_never_lost() {
        let lease = Lease::new(None, Instant::now());
        tokio::time::advance(DURATION * 1_000).await;
        assert_eq!(lease.remaining(), None);
        assert!(!lease.is_lost());
    }
}
