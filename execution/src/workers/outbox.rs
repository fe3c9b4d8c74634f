//! Outbox worker: delivers the entries of one channel with bounded concurrency, in order within a group, with retries
//! until delivered or dead-lettered.

use super::is_retryable;
use super::options::{DeliveryOptions, WorkerMetrics};
use async_trait::async_trait;
use futures_util::FutureExt;
use interzone_edge::worker_health::Heartbeat;
use interzone_hub::{Hub, HubError, LeasedEntry, OutboxEntry};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Maximum number of entries claimed at once.
const CLAIM_BATCH: usize = 64;

/// Maximum attempts to record a delivery outcome.
const MAX_RECORD_ATTEMPTS: u32 = 5;

/// Outcome of a delivery attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// Delivered.
    Delivered,
    /// Not delivered.
    Failed {
        /// Reason for the operator, without content.
        reason: String,
        /// Retry delay that the receiver asked for.
        retry_after: Option<Duration>,
        /// True if a retry may help.
        is_retryable: bool,
    },
    /// The handler has already recorded the outcome in the hub.
    Recorded {
        /// True if it was delivered.
        is_delivered: bool,
    },
}

/// Delivers the entries of one channel.
#[async_trait]
pub trait DeliveryHandler: Send + Sync {
    /// Delivers one entry. The attempt may be aborted, and the same entry may come again with the same id.
    ///
    /// # Errors
    /// The store failed; the entry is retried if that may help.
    async fn deliver(&self, hub: &Hub, entry: &OutboxEntry) -> Result<DeliveryOutcome, HubError>;
}

/// Worker of one outbox channel.
#[derive(Clone)]
pub(super) struct OutboxWorker {
    pub(super) hub: Hub,
    pub(super) channel: &'static str,
    pub(super) handler: Arc<dyn DeliveryHandler>,
    pub(super) limits: DeliveryOptions,
    pub(super) poll_interval: Duration,
    pub(super) metrics: Arc<dyn WorkerMetrics>,
}

impl OutboxWorker {
    /// Delivers due entries until stopped; then waits for deliveries in flight, unless killed.
    pub(super) async fn run(
        self,
        wakeup: Arc<Notify>,
        heartbeat: Heartbeat,
        stop: CancellationToken,
        kill: CancellationToken,
    ) {
        let channels = [self.channel.to_owned()];
        let mut in_flight = JoinSet::new();
        while !stop.is_cancelled() {
            let (wait, has_failed) = match self.claim(&channels, &mut in_flight).await {
                Ok(wait) => {
                    heartbeat.report_ok();
                    (wait, false)
                }
                Err(error) => (heartbeat.report_failure(&error), true),
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = wakeup.notified(), if !has_failed => {}
                Some(_) = in_flight.join_next(), if !in_flight.is_empty() && !has_failed => {}
                () = tokio::time::sleep(wait) => {}
            }
            while in_flight.try_join_next().is_some() {}
        }
        // An aborted entry is due again when its lease expires, or when the database file is opened next.
        tokio::select! {
            () = kill.cancelled() => {}
            () = async { while in_flight.join_next().await.is_some() {} } => {}
        }
    }

    /// Claims due entries up to the free concurrency. Returns the time to wait for more.
    async fn claim(
        &self,
        channels: &[String],
        in_flight: &mut JoinSet<()>,
    ) -> Result<Duration, HubError> {
        loop {
            // A look at the next due time is cheap, and most notifications concern another channel.
            let Some(wait) = self.hub.next_due(channels).await? else {
                return Ok(self.poll_interval);
            };
            if !wait.is_zero() {
                let wait = wait.max(Duration::from_millis(1));
                return Ok(wait.min(self.poll_interval));
            }
            let limit = self.limits.concurrency.max(1);
            let free = limit.saturating_sub(in_flight.len()).min(CLAIM_BATCH);
            if free == 0 {
                // A delivery that finishes frees capacity.
                return Ok(self.poll_interval);
            }
            let entries = self
                .hub
                .lease_entries(channels, self.limits.lease, free)
                .await?;
            if entries.is_empty() {
                // Another node has claimed them.
                return Ok(self.poll_interval);
            }
            for entry in entries {
                let outbox = self.clone();
                in_flight.spawn(async move { outbox.deliver(entry).await });
            }
        }
    }

    async fn deliver(&self, entry: LeasedEntry) {
        let limit = self.limits.lease.saturating_mul(3) / 4;
        // If the node was suspended meanwhile, less time is left, or another node has claimed the entry.
        let limit = entry
            .lease()
            .remaining()
            .map_or(limit, |remaining| remaining.min(limit));
        if limit.is_zero() {
            tracing::warn!(channel = self.channel, id = %entry.id, "delivery lease expired before the attempt");
            return;
        }
        let delivery = AssertUnwindSafe(self.handler.deliver(&self.hub, &entry)).catch_unwind();
        let failure = |reason: &str, is_retryable| DeliveryOutcome::Failed {
            reason: reason.to_owned(),
            retry_after: None,
            is_retryable,
        };
        let (outcome, label) = match tokio::time::timeout(limit, delivery).await {
            Ok(Ok(Ok(outcome))) => {
                let is_delivered = matches!(
                    outcome,
                    DeliveryOutcome::Delivered | DeliveryOutcome::Recorded { is_delivered: true }
                );
                (outcome, if is_delivered { "delivered" } else { "failed" })
            }
            Ok(Ok(Err(error))) => {
                let is_retryable = !matches!(error, HubError::Invalid { .. });
                (failure(&error.to_string(), is_retryable), "failed")
            }
            Ok(Err(_)) => {
                tracing::error!(channel = self.channel, id = %entry.id, "delivery handler panicked");
                (failure("the delivery handler panicked", true), "panicked")
            }
            Err(_) => (failure("delivery timed out", true), "failed"),
        };
        self.metrics.delivery(self.channel, label);
        self.record_outcome(&entry, &outcome).await;
    }

    async fn record_outcome(&self, entry: &OutboxEntry, outcome: &DeliveryOutcome) {
        let mut wait = Duration::from_millis(50);
        for attempt in 1..=MAX_RECORD_ATTEMPTS {
            let recorded = match outcome {
                DeliveryOutcome::Recorded { .. } => return,
                DeliveryOutcome::Delivered => self.hub.mark_delivered(entry).await,
                DeliveryOutcome::Failed {
                    reason: why,
                    retry_after: wait,
                    is_retryable: may_help,
                } => {
                    let retry = &self.limits.retry;
                    self.hub
                        .mark_failed(entry, retry, why, *wait, *may_help)
                        .await
                }
            };
            match recorded {
                Ok(_) => return,
                Err(error) if attempt == MAX_RECORD_ATTEMPTS || !is_retryable(&error) => {
                    let (channel, id) = (self.channel, &entry.id);
                    tracing::warn!(channel, %id, %error, "recording the delivery outcome failed");
                    return;
                }
                Err(_) => tokio::time::sleep(wait).await,
            }
            wait = wait.saturating_mul(2);
        }
    }
}
