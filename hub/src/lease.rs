//! This node's own idea of how long it may rely on what it has claimed.
//!
//! The store decides when a lease is over. The holder must stop before that, so it counts on a clock
//! that no administrator sets, from the moment before it asked: the store cannot have begun earlier.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// A lease on work or on an entry of the outbox, as its holder sees it.
#[derive(Debug)]
pub struct Lease {
    /// How long it lasts; none if it lasts as long as this process.
    length: Option<Duration>,
    /// When it was last asked for.
    since: Mutex<Instant>,
}

impl Lease {
    /// A lease that was asked for at this moment and has been granted since.
    pub(crate) fn new(length: Option<Duration>, asked: Instant) -> Self {
        let since = Mutex::new(asked);
        Self { length, since }
    }

    /// Notes that it was renewed, by a request of this moment.
    pub(crate) fn renewed(&self, asked: Instant) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = asked;
    }

    /// How long the holder may go on without renewing it; none if it need not be renewed. The
    /// [margin](Self::margin) is not part of it.
    pub fn left(&self) -> Option<Duration> {
        let length = self.length?;
        let since = *self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let usable = length.saturating_sub(self.margin());
        Some(usable.saturating_sub(since.elapsed()))
    }

    /// Whether the holder must stop, because another node may soon have what it holds.
    pub fn is_lost(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    /// The end of a lease that the holder does not use, to come to an end before another begins: a
    /// fifth of it.
    pub fn margin(&self) -> Duration {
        self.length.unwrap_or_default() / 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTH: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn lease_is_lost_to_its_holder_before_it_is_over() {
        let asked = Instant::now();
        tokio::time::advance(Duration::from_secs(3)).await;
        let lease = Lease::new(Some(LENGTH), asked);
        assert_eq!(lease.margin(), Duration::from_secs(2));
        assert_eq!(lease.left(), Some(Duration::from_secs(5)));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(lease.is_lost());
    }

    #[tokio::test(start_paused = true)]
    async fn renewal_counts_from_the_moment_it_was_asked_for() {
        let lease = Lease::new(Some(LENGTH), Instant::now());
        tokio::time::advance(Duration::from_secs(6)).await;
        let asked = Instant::now();
        tokio::time::advance(Duration::from_secs(1)).await;
        lease.renewed(asked);
        assert_eq!(lease.left(), Some(Duration::from_secs(7)));
    }

    #[tokio::test(start_paused = true)]
    async fn lease_of_the_only_process_is_never_lost() {
        let lease = Lease::new(None, Instant::now());
        tokio::time::advance(LENGTH * 1_000).await;
        assert_eq!(lease.left(), None);
        assert!(!lease.is_lost());
    }
}
