//! Inbox and outbox: exactly-once acceptance, and delivery with retries until success or dead letter.

use super::tasks::internal_id;
use super::{Hub, LeasedEntry, map_conflict};
use crate::error::HubError;
use crate::event::Subject;
use crate::lease::Lease;
use crate::outbox::{DeliveryResult, OutboxEntry, RetryPolicy};
use crate::ports::{IdempotencyClaim, Op, OutboxClaim, StoreError};
use interzone_protocol::vocab::{DeliveryId, PrincipalId, Timestamp, VerbatimJson};
use std::time::Duration;
use tokio::time::Instant;

/// Maximum delay that a receiver may request (Retry-After): it also delays the entries behind it in its group.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(3_600);

/// An outbox entry to add.
#[derive(Clone, Debug, PartialEq)]
pub struct NewOutboxEntry {
    /// Delivery channel.
    pub channel: String,
    /// Deduplication key: a second entry with the same channel and key is not added.
    pub key: String,
    /// Entries of one group are delivered one at a time, in order.
    pub group: Option<String>,
    /// Owner of the delivery.
    pub owner: PrincipalId,
    /// Subject of the delivery.
    pub subject: Option<Subject>,
    /// Content and destination.
    pub payload: VerbatimJson,
}

impl Hub {
    /// Accepts an incoming event once: claims all its idempotency keys and enqueues the resulting work, atomically.
    /// Returns whether it was new; if not, nothing is written.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn accept_once(
        &self,
        keys: &[String],
        retention: Duration,
        work: Vec<NewOutboxEntry>,
    ) -> Result<bool, HubError> {
        let at = self.now();
        // A duplicate key in the list must not conflict with itself.
        let keys: std::collections::BTreeSet<&String> = keys.iter().collect();
        let claims = keys.into_iter().map(|key| {
            Op::ClaimKey(IdempotencyClaim {
                key: format!("inbox/{key}"),
                value: String::new(),
                expires_at: at.plus(retention),
            })
        });
        let mut ops: Vec<Op> = claims.collect();
        for entry in work {
            ops.push(self.enqueue_op(at, entry)?);
        }
        match self.commit(at, None, ops, Vec::new()).await {
            Ok(_) => Ok(true),
            Err(StoreError::KeyTaken { .. }) => Ok(false),
            Err(error) => Err(map_conflict(error)),
        }
    }

    /// Adds entries to the outbox, all of them or none.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn enqueue(&self, entries: Vec<NewOutboxEntry>) -> Result<(), HubError> {
        let at = self.now();
        let ops = entries.into_iter().map(|entry| self.enqueue_op(at, entry));
        let ops = ops.collect::<Result<Vec<Op>, _>>()?;
        self.commit(at, None, ops, Vec::new())
            .await
            .map_err(map_conflict)?;
        Ok(())
    }

    fn enqueue_op(&self, at: Timestamp, entry: NewOutboxEntry) -> Result<Op, HubError> {
        Ok(Op::EnqueueOutbox(Box::new(OutboxEntry {
            id: internal_id(DeliveryId::new(self.new_id(at)))?,
            channel: entry.channel,
            key: entry.key,
            group: entry.group,
            owner: entry.owner,
            subject: entry.subject,
            payload: entry.payload,
            created_at: at,
            due_at: at,
            attempt: 0,
            error: None,
        })))
    }

    /// Leases due entries, so that no other node delivers them concurrently.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn lease_entries(
        &self,
        channels: &[String],
        lease: Duration,
        limit: usize,
    ) -> Result<Vec<LeasedEntry>, HubError> {
        let in_flight = self.release_abandoned_entries().await?;
        let requested_at = Instant::now();
        let claim = OutboxClaim {
            channels: channels.to_vec(),
            now: self.now(),
            lease,
            limit,
            in_flight,
        };
        let entries = self.store().claim_outbox(&claim).await?;
        let track = |entry| self.track_entry(entry, self.lease(lease, requested_at));
        Ok(entries.into_iter().map(track).collect())
    }

    /// Time until an entry of these channels is due; `None` if there is none.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn next_due(&self, channels: &[String]) -> Result<Option<Duration>, HubError> {
        Ok(self.store().next_outbox_due(channels, self.now()).await?)
    }

    /// Extends the lease of an entry whose delivery takes long. Returns whether it is still held; if not, another node
    /// has it, and the delivery must stop.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn renew_entry(
        &self,
        entry: &LeasedEntry,
        lease: Duration,
    ) -> Result<bool, HubError> {
        let (requested_at, now) = (Instant::now(), self.now());
        let renewal = self
            .store()
            .renew_outbox_lease(&entry.id, entry.attempt, lease, now);
        let is_held = renewal.await?;
        if is_held {
            entry.lease().record_renewal(requested_at);
        }
        Ok(is_held)
    }

    /// Releases an entry, to be delivered at once by any node, because this node shuts down. The attempt counts, since
    /// its progress is unknown. Returns whether it was still held.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn release_entry(&self, entry: &OutboxEntry, reason: &str) -> Result<bool, HubError> {
        let now = self.now();
        let result = DeliveryResult::Retry {
            due_at: now,
            error: reason.to_owned(),
        };
        self.settle(entry, &result, now).await
    }

    /// Marks an entry as delivered. Returns whether it was still held.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn mark_delivered(&self, entry: &OutboxEntry) -> Result<bool, HubError> {
        let now = self.now();
        self.settle(entry, &DeliveryResult::Delivered, now).await
    }

    /// Records a failed attempt: the entry is retried after the backoff delay, or the receiver's `retry_after` if
    /// longer, and dead-lettered after the last attempt or if it is not retryable. `reason` is for the operator and
    /// must not contain content.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn mark_failed(
        &self,
        entry: &OutboxEntry,
        policy: &RetryPolicy,
        reason: &str,
        retry_after: Option<Duration>,
        is_retryable: bool,
    ) -> Result<bool, HubError> {
        let delay = policy.delay_after(entry.attempt, self.inner.ids.random());
        let (error, now) = (reason.to_owned(), self.now());
        let result = match delay.filter(|_| is_retryable) {
            None => DeliveryResult::Dead { error },
            Some(delay) => {
                let delay = retry_after
                    .map_or(delay, |requested| requested.min(MAX_RETRY_AFTER).max(delay));
                DeliveryResult::Retry {
                    due_at: now.plus(delay),
                    error,
                }
            }
        };
        self.settle(entry, &result, now).await
    }

    async fn settle(
        &self,
        entry: &OutboxEntry,
        result: &DeliveryResult,
        now: Timestamp,
    ) -> Result<bool, HubError> {
        let (id, attempt) = (&entry.id, entry.attempt);
        let settling = self.store().settle_outbox(id, attempt, result, now);
        let was_held = settling.await?;
        self.inner.leases.settle_entry(id, attempt);
        Ok(was_held)
    }

    /// A lease requested at this time; it expires if the store's leases do.
    pub(super) fn lease(&self, duration: Duration, requested_at: Instant) -> Lease {
        let expires = self.store().leases_expire();
        Lease::new(expires.then_some(duration), requested_at)
    }
}
