//! Outbox worker: delivers the entries of one channel with bounded concurrency, in order within a group, with lease
//! renewal, and with retries until delivered or dead-lettered.

use crate::reply::{PostHandler, PostOutcome};
use async_trait::async_trait;
use futures_util::FutureExt;
use interzone_edge::telemetry::Metrics;
use interzone_edge::worker_health::Heartbeat;
use interzone_hub::ports::StoreError;
use interzone_hub::{Hub, HubError, LeasedEntry, OutboxEntry, RetryPolicy};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Maximum number of entries claimed at once.
const CLAIM_BATCH: usize = 64;

/// Maximum attempts to record a delivery outcome.
const MAX_RECORD_ATTEMPTS: u32 = 5;

/// Maximum age of an entry that Slack keeps deferring; later its asker no longer waits.
const MAX_DEFERRED_AGE: Duration = Duration::from_secs(24 * 3600);

/// Record kind of the number of deferrals of an entry, keyed by entry id.
const DEFERRALS_KIND: &str = "slack.waits";

/// Delivers the entries of one channel.
#[async_trait]
pub(crate) trait OutboxHandler: Send + Sync {
    /// Delivers one entry. The attempt may be aborted, and the same entry may come again.
    async fn deliver(&self, entry: &OutboxEntry) -> PostOutcome;

    /// Called after the last attempt, with the reason of the failure.
    async fn on_dead_letter(&self, entry: &OutboxEntry, reason: &str) {
        let _ = (entry, reason);
    }
}

#[async_trait]
impl OutboxHandler for PostHandler {
    async fn deliver(&self, entry: &OutboxEntry) -> PostOutcome {
        Self::deliver(self, entry).await
    }

    async fn on_dead_letter(&self, entry: &OutboxEntry, why: &str) {
        Self::on_dead_letter(self, entry, why).await;
    }
}

/// Options of one outbox channel.
#[derive(Clone, Copy, Debug)]
pub struct ChannelOptions {
    /// Maximum concurrent deliveries.
    pub concurrency: usize,
    /// Lease of an entry without renewal. The entries of a crashed node become due again after this time; a running
    /// node renews its leases.
    pub lease: Duration,
    /// Timeout of one attempt.
    pub attempt_timeout: Duration,
    /// Retry policy.
    pub retry: RetryPolicy,
}

/// Worker of one outbox channel.
#[derive(Clone)]
pub(super) struct ChannelWorker {
    pub(super) hub: Hub,
    pub(super) channel: &'static str,
    pub(super) handler: Arc<dyn OutboxHandler>,
    pub(super) options: ChannelOptions,
    pub(super) poll_interval: Duration,
    /// True if entries that are due on shutdown are still delivered.
    pub(super) drain_on_stop: bool,
    pub(super) metrics: Arc<Metrics>,
}

impl ChannelWorker {
    /// Delivers due entries until stopped; then waits for deliveries in flight. Aborted entries are released, so that
    /// another node, or the next start of this one, takes them over at once.
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
            let (wait, has_failed) = match self.claim(&channels, &mut in_flight, &kill).await {
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
        // Delivers entries that are due by now, and their follow-ups, before the node exits.
        while self.drain_on_stop && !kill.is_cancelled() {
            if self.claim(&channels, &mut in_flight, &kill).await.is_err() {
                break;
            }
            if in_flight.join_next().await.is_none() {
                break;
            }
        }
        while in_flight.join_next().await.is_some() {}
    }

    /// Claims due entries up to the free concurrency. Returns the time to wait for more.
    async fn claim(
        &self,
        channels: &[String],
        in_flight: &mut JoinSet<()>,
        kill: &CancellationToken,
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
            let max_in_flight = self.options.concurrency.max(1);
            let free = max_in_flight
                .saturating_sub(in_flight.len())
                .min(CLAIM_BATCH);
            if free == 0 {
                // A delivery that finishes frees capacity.
                return Ok(self.poll_interval);
            }
            let entries = self
                .hub
                .lease_entries(channels, self.options.lease, free)
                .await?;
            if entries.is_empty() {
                // Another node has claimed them.
                return Ok(self.poll_interval);
            }
            for entry in entries {
                let (outbox, kill) = (self.clone(), kill.clone());
                in_flight.spawn(async move { outbox.deliver(entry, &kill).await });
            }
        }
    }

    async fn deliver(&self, entry: LeasedEntry, kill: &CancellationToken) {
        if entry.lease().is_lost() {
            tracing::warn!(channel = self.channel, id = %entry.id, "delivery lease expired before the attempt");
            return;
        }
        let started_at = Instant::now();
        let work = AssertUnwindSafe(self.handler.deliver(&entry)).catch_unwind();
        let retry = |reason: &str| PostOutcome::Retry {
            reason: reason.to_owned(),
            delay: None,
        };
        let outcome = tokio::select! {
            biased;
            carried = work => carried.unwrap_or_else(|_| {
                // The panic message may contain user content, so it is not logged.
                tracing::error!(channel = self.channel, id = %entry.id, "delivery handler panicked");
                retry("the delivery handler panicked")
            }),
            () = self.renew_lease(&entry) => {
                tracing::warn!(channel = self.channel, id = %entry.id, "delivery lease lost to another node");
                return;
            }
            () = kill.cancelled() => {
                self.release(&entry).await;
                return;
            }
            () = tokio::time::sleep(self.options.attempt_timeout) => retry("delivery timed out"),
        };
        let label = match &outcome {
            PostOutcome::Delivered => "delivered",
            PostOutcome::Retry { .. } => "retry",
            PostOutcome::Failed { .. } => "dead_letter",
        };
        let latency = started_at.elapsed().as_secs_f64();
        self.metrics.record_request(self.channel, label, latency);
        self.record_outcome(&entry, &outcome).await;
    }

    /// Renews the lease of an entry for as long as it is polled. Returns when the lease is lost or may be.
    async fn renew_lease(&self, entry: &LeasedEntry) {
        let lease = self.options.lease;
        let (normal_wait, retry_wait) = (lease / 3, (lease / 15).min(Duration::from_secs(1)));
        let mut wait = normal_wait;
        while let Some(remaining) = entry.lease().remaining() {
            tokio::time::sleep(wait.min(remaining)).await;
            let remaining = entry.lease().remaining().unwrap_or_default();
            if remaining.is_zero() {
                tracing::warn!(channel = self.channel, id = %entry.id, "delivery lease not renewed in time");
                return;
            }
            match tokio::time::timeout(remaining, self.hub.renew_entry(entry, lease)).await {
                Ok(Ok(true)) => wait = normal_wait,
                Ok(Ok(false)) => return,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "lease renewal failed, retrying");
                    wait = retry_wait;
                }
                Err(_) => {}
            }
        }
        // The lease lasts for as long as this process lives.
        std::future::pending().await
    }

    async fn release(&self, entry: &OutboxEntry) {
        if let Err(error) = self.hub.release_entry(entry, "the node was stopped").await {
            let (channel, id) = (self.channel, &entry.id);
            tracing::warn!(channel, %id, %error, "releasing outbox entry failed");
        }
    }

    fn is_expired(&self, entry: &OutboxEntry) -> bool {
        self.hub.now().duration_since(entry.created_at) >= MAX_DEFERRED_AGE
    }

    /// Adds to the number of deferrals of an entry and returns it. Only the lease holder calls it.
    async fn add_deferrals(&self, entry: &OutboxEntry, more: u32) -> u32 {
        let (store, now, id) = (self.hub.store(), self.hub.now(), entry.id.as_str());
        let stored = store.record(DEFERRALS_KIND, id, now).await;
        let stored = stored.map(|known| known.and_then(|known| known.value.parse::<u32>().ok()));
        // If the count cannot be read, deferrals count as attempts.
        let count = stored.ok().flatten().unwrap_or(0).min(entry.attempt);
        if more == 0 {
            return count;
        }
        let count = count.saturating_add(more).min(entry.attempt);
        let expires_at = Some(now.plus(MAX_DEFERRED_AGE.saturating_mul(2)));
        let value = count.to_string();
        let written = store.put_record(DEFERRALS_KIND, id, &value, None, expires_at, now);
        if let Err(error) = written.await {
            tracing::debug!(%id, %error, "recording deferral failed");
        }
        count
    }

    async fn record_outcome(&self, entry: &OutboxEntry, outcome: &PostOutcome) {
        let retry = &self.options.retry;
        let (reason, is_last) = match outcome {
            PostOutcome::Delivered => ("", false),
            // A deferral by Slack is not a failure and does not count as an attempt.
            PostOutcome::Retry {
                reason: why,
                delay: Some(_),
            } => {
                self.add_deferrals(entry, 1).await;
                (why.as_str(), self.is_expired(entry))
            }
            PostOutcome::Retry {
                reason: why,
                delay: None,
            } => {
                let is_exhausted = entry.attempt >= retry.max_attempts
                    && entry.attempt - self.add_deferrals(entry, 0).await >= retry.max_attempts;
                (why.as_str(), is_exhausted)
            }
            PostOutcome::Failed { reason: why } => (why.as_str(), true),
        };
        if is_last {
            let (channel, id) = (self.channel, &entry.id);
            tracing::error!(channel, %id, reason, "outbox entry dead-lettered");
            self.handler.on_dead_letter(entry, reason).await;
        }
        let mut wait = Duration::from_millis(50);
        for attempt in 1..=MAX_RECORD_ATTEMPTS {
            let recorded = match outcome {
                PostOutcome::Delivered => self.hub.mark_delivered(entry).await,
                PostOutcome::Retry {
                    reason: why,
                    delay: after,
                } => {
                    let (hub, retry) = (&self.hub, retry_policy(retry, *after));
                    hub.mark_failed(entry, &retry, why, *after, !is_last).await
                }
                PostOutcome::Failed { reason: why } => {
                    let hub = &self.hub;
                    hub.mark_failed(entry, retry, why, None, false).await
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

/// Returns true if a retry may help. A write whose result is in doubt is resolved by a retry.
fn is_retryable(error: &HubError) -> bool {
    error.is_transient() || matches!(error, HubError::Store(StoreError::InDoubt(_)))
}

/// Returns the retry policy for the next attempt. If Slack requested a delay, the backoff does not grow: otherwise many
/// short delays would become a long one. The caller decides whether there is another attempt.
fn retry_policy(retry: &RetryPolicy, requested_delay: Option<Duration>) -> RetryPolicy {
    let max_delay = match requested_delay {
        Some(_) => retry.initial_delay,
        None => retry.max_delay,
    };
    RetryPolicy {
        max_attempts: u32::MAX,
        max_delay,
        ..*retry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_does_not_grow_for_a_delay_requested_by_slack() {
        let retry = RetryPolicy::default();
        for attempt in [1, 5, 18, 1_000] {
            let policy = retry_policy(&retry, Some(Duration::from_secs(1)));
            assert!(policy.delay_after(attempt, 7).unwrap() <= retry.initial_delay);
        }
        let delay = retry_policy(&retry, None).delay_after(18, 7).unwrap();
        assert!(delay >= retry.max_delay / 2, "{delay:?}");
    }
}
