//! The outbox: the only durable way out.
//!
//! What must leave is written in the same commit as the change that causes it. Whoever carries it
//! claims it, sends it, and says what became of it.

use crate::event::Subject;
use interzone_protocol::vocab::{DeliveryId, Json, PrincipalId, Timestamp};
use std::time::Duration;

/// Something that must leave.
#[derive(Clone, Debug, PartialEq)]
pub struct OutboxEntry {
    /// Its id, the same on every attempt, so that receivers can tell a repetition.
    pub id: DeliveryId,
    /// Which way it leaves: each carrier claims its own channel.
    pub channel: String,
    /// What makes it the same entry: a second one with this channel and key is not added.
    pub key: String,
    /// Entries of one group leave one after another, in the order in which they were added; one
    /// that waits for its next attempt holds up those behind it, one that is dead does not.
    pub group: Option<String>,
    /// For whom it leaves.
    pub owner: PrincipalId,
    /// What it is about.
    pub subject: Option<Subject>,
    /// What leaves, and where to: the carrier's business, not the hub's.
    pub payload: Json,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it may leave, or leave again.
    pub due_at: Timestamp,
    /// How often it has been claimed, this time included; zero if it has not.
    pub attempt: u32,
    /// What went wrong the last time, in words for the operator.
    pub error: Option<String>,
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// It arrived.
    Delivered,
    /// It did not, and is to be tried again.
    Retry {
        /// When.
        due_at: Timestamp,
        /// Why it did not, in words for the operator; nothing of its content.
        error: String,
    },
    /// It never will; the operator sees it and may replay it.
    Dead {
        /// Why, in words for the operator; nothing of its content.
        error: String,
    },
}

/// How far an entry has come, without what it carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Its id.
    pub id: DeliveryId,
    /// What makes it the same entry.
    pub key: String,
    /// Where it stands.
    pub fate: Fate,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it leaves next, if it waits.
    pub due_at: Timestamp,
    /// When it arrived or was given up.
    pub settled_at: Option<Timestamp>,
    /// How often it has been tried.
    pub attempt: u32,
    /// What went wrong the last time, in words for the operator.
    pub error: Option<String>,
}

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is due, or will be.
    Waiting,
    /// It arrived.
    Delivered,
    /// It was given up.
    Dead,
}

impl Fate {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }
}

/// When to try again, and when to give up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// How long to wait after the first failure.
    pub first: Duration,
    /// The longest wait; each is twice the one before.
    pub longest: Duration,
    /// How many attempts there are in all.
    pub attempts: u32,
}

impl RetryPolicy {
    /// How long to wait after attempt number `attempt` (the first is one) has failed, or nothing
    /// if that was the last.
    ///
    /// Half of the wait is fixed and half is random, so that what failed together is not tried
    /// again together. `random` is any number.
    pub fn wait_after(&self, attempt: u32, random: u64) -> Option<Duration> {
        if attempt >= self.attempts {
            return None;
        }
        let doubled = self.first.saturating_mul(
            1_u32
                .checked_shl(attempt.saturating_sub(1))
                .unwrap_or(u32::MAX),
        );
        let wait = doubled.min(self.longest);
        let half = u64::try_from(wait.as_millis() / 2).unwrap_or(u64::MAX);
        Some(
            wait - Duration::from_millis(half)
                + Duration::from_millis(random % half.saturating_add(1)),
        )
    }
}

/// Five attempts within about half a minute.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(2),
            longest: Duration::from_secs(60),
            attempts: 5,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_end() {
        let policy = RetryPolicy {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(6),
            attempts: 5,
        };
        for (attempt, least, most) in [
            (1, 500, 1000),
            (2, 1000, 2000),
            (3, 2000, 4000),
            (4, 3000, 6000),
        ] {
            for random in [0, 1, 499, 500, u64::MAX] {
                let wait = policy.wait_after(attempt, random).unwrap().as_millis();
                assert!((least..=most).contains(&wait), "{attempt} {random} {wait}");
            }
        }
        assert_eq!(policy.wait_after(5, 0), None);
        assert_eq!(policy.wait_after(u32::MAX, 0), None);
        let endless = RetryPolicy {
            attempts: u32::MAX,
            ..policy
        };
        assert!(endless.wait_after(1_000_000, 7).unwrap() <= Duration::from_secs(6));
    }
}
