//! Retention periods of finished data. Nothing grows without bound.

use serde::Deserialize;
use std::time::Duration;

/// Retention periods.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Finished tasks and closed streams with all attached data.
    pub finished: Duration,
    /// Events of finished tasks and closed streams, which may be removed earlier than the tasks and streams.
    pub events: Duration,
    /// Delivered entries of the outbox and acknowledged signals.
    pub delivered: Duration,
    /// Dead outbox entries and dead signals, which an operator may still replay.
    #[serde(rename = "dead_letters")]
    pub dead: Duration,
    /// Denied, revoked or expired subscriptions.
    pub ended_subscriptions: Duration,
    /// Signals that were never fetched: they are then dead-lettered and kept as such.
    #[serde(rename = "unread_signals")]
    pub unfetched: Duration,
    /// Request log entries.
    #[serde(skip)]
    pub requests: Duration,
    /// Maximum number of request log entries, regardless of their age; the newest are kept.
    #[serde(skip)]
    pub max_requests: u64,
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
            requests: DAY.saturating_mul(30),
            max_requests: 1_000_000,
        }
    }
}

/// Numbers of items removed by a purge.
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
    /// Expired idempotency keys, quotas and records.
    pub expired: u64,
    /// Unreferenced blobs.
    pub blobs: u64,
    /// Request log entries.
    pub requests: u64,
}

impl Purged {
    /// Total number of items.
    pub const fn total(&self) -> u64 {
        self.tasks
            + self.streams
            + self.events
            + self.outbox
            + self.signals
            + self.subscriptions
            + self.expired
            + self.blobs
            + self.requests
    }
}
