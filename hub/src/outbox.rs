//! Outbox: the only durable way for data to leave the hub.
//!
//! An entry is written in the same commit as the change that causes it. A delivery worker leases it, sends
//! it, and records the result.

use crate::event::Subject;
use interzone_backoff::Backoff;
use interzone_protocol::vocab::{DeliveryId, PrincipalId, Timestamp, VerbatimJson};
use std::time::Duration;

/// An outgoing delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxEntry {
    /// Delivery id, the same on every attempt, so that receivers can detect duplicates.
    pub id: DeliveryId,
    /// Delivery channel: each worker leases entries of its own channels.
    pub channel: String,
    /// Deduplication key: a second entry with the same channel and key is not added.
    pub key: String,
    /// Entries of one group are delivered one at a time in insertion order; an entry that waits for a retry
    /// blocks those behind it, a dead one does not.
    pub group: Option<String>,
    /// Owner of the delivery.
    pub owner: PrincipalId,
    /// Subject of the delivery.
    pub subject: Option<Subject>,
    /// Content and destination, interpreted by the channel's worker only.
    pub payload: VerbatimJson,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the next attempt.
    pub due_at: Timestamp,
    /// Number of attempts, including the current one; zero before the first.
    pub attempt: u32,
    /// Last error, for the operator.
    pub error: Option<String>,
}

/// Result of a delivery attempt, to be persisted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryResult {
    /// The attempt succeeded.
    Delivered,
    /// The attempt failed and is to be retried.
    Retry {
        /// Time of the retry.
        due_at: Timestamp,
        /// The error, for the operator; contains no content.
        error: String,
    },
    /// The delivery failed permanently (dead letter); the operator sees it and may replay it.
    Dead {
        /// The error, for the operator; contains no content.
        error: String,
    },
}

/// Delivery status of an entry, without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryStatus {
    /// Delivery id.
    pub id: DeliveryId,
    /// Deduplication key.
    pub key: String,
    /// Delivery state.
    pub state: DeliveryState,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the next attempt, while it waits.
    pub due_at: Timestamp,
    /// Time at which it was delivered or dead-lettered.
    pub settled_at: Option<Timestamp>,
    /// Number of attempts.
    pub attempt: u32,
    /// Last error, for the operator.
    pub error: Option<String>,
}

/// Delivery state of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryState {
    /// Due now or later.
    Waiting,
    /// Delivered.
    Delivered,
    /// Dead-lettered.
    Dead,
}

impl DeliveryState {
    /// Stable name of the state.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }
}

/// Retry backoff of deliveries: exponential, with jitter and an attempt limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Delay after the first failure.
    pub initial_delay: Duration,
    /// Maximum delay; each delay is twice the one before.
    pub max_delay: Duration,
    /// Maximum number of attempts.
    pub max_attempts: u32,
}

impl RetryPolicy {
    /// Delay after attempt number `attempt` (from one) has failed, or `None` if that was the last.
    ///
    /// Half of the delay is fixed and half is random, so that deliveries that failed together are not retried
    /// together. `random` is any number.
    pub fn delay_after(&self, attempt: u32, random: u64) -> Option<Duration> {
        if attempt >= self.max_attempts {
            return None;
        }
        let backoff = Backoff::new(self.initial_delay, self.max_delay);
        Some(backoff.equal_jitter_from(attempt.saturating_sub(1), random))
    }
}

/// Five attempts within about half a minute.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            initial_delay: Duration::from_secs(2),
            max_delay: Duration::from_secs(60),
            max_attempts: 5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_max_until_attempts_end() {
        let policy = RetryPolicy {
            initial_delay: Duration::from_secs(1),
            max_delay: Duration::from_secs(6),
            max_attempts: 5,
        };
        for (attempt, min, max) in [
            (1, 500, 1000),
            (2, 1000, 2000),
            (3, 2000, 4000),
            (4, 3000, 6000),
        ] {
            for random in [0, 1, 499, 500, u64::MAX] {
                let delay = policy.delay_after(attempt, random).unwrap().as_millis();
                assert!((min..=max).contains(&delay), "{attempt} {random} {}", delay);
            }
        }
        assert_eq!(policy.delay_after(5, 0), None);
        assert_eq!(policy.delay_after(u32::MAX, 0), None);
        let unlimited = RetryPolicy {
            max_attempts: u32::MAX,
            ..policy
        };
        assert!(unlimited.delay_after(1_000_000, 7).unwrap() <= Duration::from_secs(6));
    }
}
