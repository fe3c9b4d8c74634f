//! How long things are kept after they are finished. Nothing grows without bound.

use std::time::Duration;

/// How long what is finished is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Finished tasks and closed streams, with all that hangs on them.
    pub finished: Duration,
    /// The events of finished tasks and closed streams, which may go before the rest.
    pub events: Duration,
    /// Delivered entries of the outbox and acknowledged signals.
    pub delivered: Duration,
    /// Dead entries of the outbox and dead signals, which an operator may still want to replay.
    pub dead: Duration,
    /// Subscriptions that are denied, revoked or expired.
    pub ended_subscriptions: Duration,
    /// Signals that nobody fetches: they are given up then, and kept as dead ones.
    pub unfetched: Duration,
    /// That requests were answered.
    pub pairs: Duration,
    /// How many of those at most, whatever their age: the newest.
    pub most_pairs: u64,
}

impl Default for Retention {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(86_400);
        Self {
            finished: DAY.saturating_mul(90),
            events: DAY.saturating_mul(30),
            delivered: DAY,
            dead: DAY.saturating_mul(30),
            ended_subscriptions: DAY.saturating_mul(7),
            unfetched: DAY.saturating_mul(30),
            pairs: DAY.saturating_mul(30),
            most_pairs: 1_000_000,
        }
    }
}

/// What a purge removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Tasks.
    pub tasks: u64,
    /// Streams.
    pub streams: u64,
    /// Events.
    pub events: u64,
    /// Outbox entries.
    pub outbox: u64,
    /// Signals and their deliveries.
    pub signals: u64,
    /// Subscriptions.
    pub subscriptions: u64,
    /// Claims, quotas and records whose time is over.
    pub claims: u64,
    /// Blobs that nothing points at.
    pub blobs: u64,
    /// Notes of answered requests.
    pub pairs: u64,
}

impl Purged {
    /// How many things in all.
    pub const fn total(&self) -> u64 {
        self.tasks
            + self.streams
            + self.events
            + self.outbox
            + self.signals
            + self.subscriptions
            + self.claims
            + self.blobs
            + self.pairs
    }
}
