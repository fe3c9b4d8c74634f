//! Outbox worker: delivers the entries of one channel with bounded concurrency, in order within a group, with lease
//! renewal, and with retries until delivered or dead-lettered.

use crate::worker_health::Heartbeat;
use async_trait::async_trait;
use futures_util::FutureExt;
use interzone_backoff::Backoff;
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

/// Maximum retries to record a delivery outcome, and the delays before them.
const MAX_RECORD_RETRIES: u32 = 4;
const RECORD_BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(1));

/// Record kind of the number of deferrals of an entry, keyed by entry id.
const DEFERRALS_KIND: &str = "outbox.deferrals";

/// Outcome of a delivery attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// Delivered.
    Delivered,
    /// Failed temporarily: the entry is retried until its attempts are used up.
    Retry {
        /// Reason for the operator, without content.
        reason: String,
        /// Minimum delay that the receiver requested.
        retry_after: Option<Duration>,
    },
    /// Failed permanently: the entry is dead-lettered.
    Failed {
        /// Reason for the operator, without content.
        reason: String,
    },
    /// The handler has already recorded the outcome in the hub.
    Recorded {
        /// True if it was delivered.
        is_delivered: bool,
    },
}

impl DeliveryOutcome {
    /// Failed temporarily; the backoff decides when it is retried.
    pub fn retry(reason: impl ToString) -> Self {
        Self::Retry {
            reason: reason.to_string(),
            retry_after: None,
        }
    }

    /// Failed permanently.
    pub fn failed(reason: impl ToString) -> Self {
        Self::Failed {
            reason: reason.to_string(),
        }
    }
}

/// Delivers the entries of one channel.
#[async_trait]
pub trait DeliveryHandler: Send + Sync {
    /// Delivers one entry. The attempt may be aborted, and the same entry may come again with the same id.
    ///
    /// # Errors
    /// The store failed; the entry is retried if that may help.
    async fn deliver(&self, entry: &OutboxEntry) -> Result<DeliveryOutcome, HubError>;

    /// Called before an entry is dead-lettered, with the reason of the failure. May be called again for the same entry
    /// if the node crashes.
    async fn on_dead_letter(&self, entry: &OutboxEntry, reason: &str) {
        let _ = (entry, reason);
    }
}

/// Delivery options of one outbox channel.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryOptions {
    /// Maximum concurrent deliveries.
    pub concurrency: usize,
    /// Lease of an entry without renewal. The entries of a crashed node become due again after this time; a running
    /// node renews its leases.
    pub lease: Duration,
    /// Timeout of one attempt.
    pub attempt_timeout: Duration,
    /// Retry policy.
    pub retry: RetryPolicy,
    /// Maximum age of an entry that the receiver keeps deferring. Until then a failure with a requested delay does not
    /// count as an attempt. With `None`, it counts.
    pub max_deferred_age: Option<Duration>,
}

/// Result of an attempt, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// Delivered.
    Delivered,
    /// Failed temporarily.
    Retry,
    /// Failed permanently.
    Failed,
    /// The handler panicked; the entry is retried.
    Panicked,
}

/// Called after each attempt with its result and duration.
pub type OnAttempt = dyn Fn(AttemptResult, Duration) + Send + Sync;

/// Worker of one outbox channel.
#[derive(Clone)]
pub struct OutboxWorker {
    /// The hub with the outbox.
    pub hub: Hub,
    /// Name of the channel.
    pub channel: &'static str,
    /// Delivers the entries.
    pub handler: Arc<dyn DeliveryHandler>,
    /// Concurrency, timeouts and retries.
    pub options: DeliveryOptions,
    /// Poll interval, for entries without a change notification.
    pub poll_interval: Duration,
    /// True if entries that are due on shutdown are still delivered.
    pub drain_on_stop: bool,
    /// Records metrics.
    pub on_attempt: Arc<OnAttempt>,
}

impl OutboxWorker {
    /// Delivers due entries until stopped; then waits for deliveries in flight. Deliveries aborted by `kill` are
    /// released, so that another node, or the next start of this one, takes them over at once. `wakeup` is notified
    /// when an entry may be due.
    pub async fn run(
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
            let limit = self.options.concurrency.max(1);
            let free = limit.saturating_sub(in_flight.len()).min(CLAIM_BATCH);
            if free == 0 {
                // A delivery that finishes frees capacity.
                return Ok(self.poll_interval);
            }
            let lease = self.options.lease;
            let entries = self.hub.lease_entries(channels, lease, free).await?;
            if entries.is_empty() {
                // Another node has claimed them.
                return Ok(self.poll_interval);
            }
            for entry in entries {
                let (worker, kill) = (self.clone(), kill.clone());
                in_flight.spawn(async move { worker.deliver(entry, &kill).await });
            }
        }
    }

    async fn deliver(&self, entry: LeasedEntry, kill: &CancellationToken) {
        if entry.lease().is_lost() {
            tracing::warn!(channel = self.channel, id = %entry.id, "delivery lease expired before the attempt");
            return;
        }
        let started_at = Instant::now();
        let attempt = AssertUnwindSafe(self.handler.deliver(&entry)).catch_unwind();
        let (outcome, has_panicked) = tokio::select! {
            biased;
            result = attempt => match result {
                Ok(Ok(outcome)) => (outcome, false),
                Ok(Err(error @ HubError::Invalid { .. })) => (DeliveryOutcome::failed(error), false),
                Ok(Err(error)) => (DeliveryOutcome::retry(error), false),
                Err(_) => {
                    // The panic message may contain user content, so it is not logged.
                    tracing::error!(channel = self.channel, id = %entry.id, "delivery handler panicked");
                    (DeliveryOutcome::retry("the delivery handler panicked"), true)
                }
            },
            () = self.renew_lease(&entry) => {
                tracing::warn!(channel = self.channel, id = %entry.id, "delivery lease lost to another node");
                return;
            }
            () = kill.cancelled() => {
                self.release(&entry).await;
                return;
            }
            () = tokio::time::sleep(self.options.attempt_timeout) => {
                (DeliveryOutcome::retry("delivery timed out"), false)
            }
        };
        let result = match &outcome {
            _ if has_panicked => AttemptResult::Panicked,
            DeliveryOutcome::Delivered | DeliveryOutcome::Recorded { is_delivered: true } => {
                AttemptResult::Delivered
            }
            DeliveryOutcome::Retry { .. } => AttemptResult::Retry,
            DeliveryOutcome::Failed { .. }
            | DeliveryOutcome::Recorded {
                is_delivered: false,
            } => AttemptResult::Failed,
        };
        (self.on_attempt)(result, started_at.elapsed());
        self.record_outcome(&entry, outcome).await;
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

    async fn record_outcome(&self, entry: &OutboxEntry, outcome: DeliveryOutcome) {
        let (reason, retry_after, is_last) = match outcome {
            DeliveryOutcome::Recorded { .. } => return,
            DeliveryOutcome::Delivered => {
                return self.record(entry, || self.hub.mark_delivered(entry)).await;
            }
            DeliveryOutcome::Retry {
                reason,
                retry_after,
            } => {
                let is_last = self.is_last_attempt(entry, retry_after).await;
                (reason, retry_after, is_last)
            }
            DeliveryOutcome::Failed { reason } => (reason, None, true),
        };
        if is_last {
            let (channel, id) = (self.channel, &entry.id);
            tracing::warn!(channel, %id, reason, "outbox entry dead-lettered");
            self.handler.on_dead_letter(entry, &reason).await;
        }
        let policy = self.options.delay_policy(retry_after);
        self.record(entry, || {
            self.hub
                .mark_failed(entry, &policy, &reason, retry_after, !is_last)
        })
        .await;
    }

    /// Records an outcome, with retries.
    async fn record<F: Future<Output = Result<bool, HubError>>>(
        &self,
        entry: &OutboxEntry,
        write: impl Fn() -> F,
    ) {
        for retry in 0.. {
            match write().await {
                Ok(_) => return,
                Err(error) if retry < MAX_RECORD_RETRIES && error.is_retryable() => {
                    tokio::time::sleep(RECORD_BACKOFF.delay(retry)).await;
                }
                Err(error) => {
                    let (channel, id) = (self.channel, &entry.id);
                    tracing::warn!(channel, %id, %error, "recording the delivery outcome failed");
                    return;
                }
            }
        }
    }

    /// Returns true if a failed entry is not retried any more. Counts a deferral, if this is one.
    async fn is_last_attempt(&self, entry: &OutboxEntry, retry_after: Option<Duration>) -> bool {
        let is_exhausted = entry.attempt >= self.options.retry.max_attempts;
        match (self.options.max_deferred_age, retry_after) {
            (None, _) => is_exhausted,
            (Some(max_age), Some(_)) => {
                self.count_deferral(entry, max_age).await;
                self.hub.now().duration_since(entry.created_at) >= max_age
            }
            (Some(_), None) => {
                is_exhausted
                    && entry.attempt - self.deferrals(entry).await
                        >= self.options.retry.max_attempts
            }
        }
    }

    /// Returns the number of deferrals of an entry. If it cannot be read, deferrals count as attempts.
    async fn deferrals(&self, entry: &OutboxEntry) -> u32 {
        let (store, now) = (self.hub.store(), self.hub.now());
        let stored = store.record(DEFERRALS_KIND, entry.id.as_str(), now).await;
        let record = stored.ok().flatten();
        let count = record.and_then(|record| record.value.parse().ok());
        count.unwrap_or(0).min(entry.attempt)
    }

    /// Adds a deferral of an entry. Only the lease holder calls it.
    async fn count_deferral(&self, entry: &OutboxEntry, max_age: Duration) {
        let count = self.deferrals(entry).await.saturating_add(1);
        let (value, id) = (count.min(entry.attempt).to_string(), entry.id.as_str());
        let (store, now) = (self.hub.store(), self.hub.now());
        let expires_at = Some(now.plus(max_age.saturating_mul(2)));
        let written = store.put_record(DEFERRALS_KIND, id, &value, None, expires_at, now);
        if let Err(error) = written.await {
            tracing::debug!(%id, %error, "recording deferral failed");
        }
    }
}

impl DeliveryOptions {
    /// Returns the policy for the delay before the next attempt; the worker decides whether there is one. After a
    /// deferral the backoff does not grow: otherwise many short delays would become a long one.
    fn delay_policy(&self, retry_after: Option<Duration>) -> RetryPolicy {
        let is_deferral = self.max_deferred_age.is_some() && retry_after.is_some();
        RetryPolicy {
            max_attempts: u32::MAX,
            max_delay: if is_deferral {
                self.retry.initial_delay
            } else {
                self.retry.max_delay
            },
            ..self.retry
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_does_not_grow_for_a_deferral() {
        let retry = RetryPolicy::default();
        let requested = Some(Duration::from_secs(1));
        let options = |max_deferred_age| DeliveryOptions {
            concurrency: 1,
            lease: Duration::from_secs(10),
            attempt_timeout: Duration::from_secs(10),
            retry,
            max_deferred_age,
        };
        let deferring = options(Some(Duration::from_secs(60)));
        for attempt in [1, 5, 18, 1_000] {
            let policy = deferring.delay_policy(requested);
            assert!(policy.delay_after(attempt, 7).unwrap() <= retry.initial_delay);
        }
        for policy in [
            deferring.delay_policy(None),
            options(None).delay_policy(requested),
        ] {
            let delay = policy.delay_after(18, 7).unwrap();
            assert!(delay >= retry.max_delay / 2, "{delay:?}");
        }
    }
}
