//! Inbox and outbox: in exactly once, and out until it has arrived or been given up.

use super::tasks::made_id;
use super::{HeldEntry, Hub, contended};
use crate::error::HubError;
use crate::event::Subject;
use crate::lease::Lease;
use crate::outbox::{OutboxEntry, RetryPolicy, Settlement};
use crate::ports::{ClaimKey, Op, OutboxClaim, StoreError};
use interzone_protocol::vocab::{DeliveryId, Json, PrincipalId, Timestamp};
use std::time::Duration;
use tokio::time::Instant;

/// The longest that a receiver may make us wait: what stands behind it in its group waits too.
const MOST_PATIENCE: Duration = Duration::from_secs(3_600);

/// Something to send.
#[derive(Clone, Debug, PartialEq)]
pub struct NewEntry {
    /// Which way it leaves.
    pub channel: String,
    /// What makes it the same entry: a second one with this channel and key is not added.
    pub key: String,
    /// Entries of one group leave one after another.
    pub group: Option<String>,
    /// For whom it leaves.
    pub owner: PrincipalId,
    /// What it is about.
    pub subject: Option<Subject>,
    /// What leaves, and where to.
    pub payload: Json,
}

impl Hub {
    /// Takes something in, once: notes all its keys and the work that follows from it, together.
    /// Answers whether it was new; if not, nothing is written.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn receive(
        &self,
        keys: &[String],
        keep: Duration,
        work: Vec<NewEntry>,
    ) -> Result<bool, HubError> {
        let at = self.now();
        // A key that is named twice must not refuse itself.
        let keys: std::collections::BTreeSet<&String> = keys.iter().collect();
        let claims = keys.into_iter().map(|key| {
            Op::Claim(ClaimKey {
                key: format!("inbox/{key}"),
                value: String::new(),
                expires_at: at.after(keep),
            })
        });
        let mut ops: Vec<Op> = claims.collect();
        for entry in work {
            ops.push(self.enqueue_op(at, entry)?);
        }
        match self.commit(at, None, ops, Vec::new()).await {
            Ok(_) => Ok(true),
            Err(StoreError::Claimed { .. }) => Ok(false),
            Err(error) => Err(contended(error)),
        }
    }

    /// Adds entries to the outbox, all of them or none.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn enqueue(&self, entries: Vec<NewEntry>) -> Result<(), HubError> {
        let at = self.now();
        let ops = entries.into_iter().map(|entry| self.enqueue_op(at, entry));
        let ops = ops.collect::<Result<Vec<Op>, _>>()?;
        self.commit(at, None, ops, Vec::new())
            .await
            .map_err(contended)?;
        Ok(())
    }

    fn enqueue_op(&self, at: Timestamp, entry: NewEntry) -> Result<Op, HubError> {
        Ok(Op::Enqueue(Box::new(OutboxEntry {
            id: made_id(DeliveryId::new(self.new_id(at)))?,
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

    /// Entries that are due, held for a while so that no other node carries them too.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn take_out(
        &self,
        channels: &[String],
        hold: Duration,
        limit: usize,
    ) -> Result<Vec<HeldEntry>, HubError> {
        let carrying = self.free_abandoned_entries().await?;
        let asked = Instant::now();
        let claim = OutboxClaim {
            channels: channels.to_vec(),
            now: self.now(),
            hold,
            limit,
            carrying,
        };
        let entries = self.store().claim_outbox(&claim).await?;
        let held = |entry| self.held_entry(entry, self.lease(hold, asked));
        Ok(entries.into_iter().map(held).collect())
    }

    /// How long it is until an entry of these channels is due; none if none waits.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn next_out(&self, channels: &[String]) -> Result<Option<Duration>, HubError> {
        Ok(self.store().next_due(channels, self.now()).await?)
    }

    /// Holds an entry for a while from now on, because carrying it takes long. Answers whether it is
    /// still ours; if not, another node has it, and carrying it must stop.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn keep_holding(&self, entry: &HeldEntry, hold: Duration) -> Result<bool, HubError> {
        let (asked, now) = (Instant::now(), self.now());
        let held = self
            .store()
            .hold_outbox(&entry.id, entry.attempt, hold, now);
        let held = held.await?;
        if held {
            entry.lease().renewed(asked);
        }
        Ok(held)
    }

    /// Gives an entry back as it is, to be carried at once by whoever comes: this node stops. The
    /// attempt counts, for nobody knows how far it got. Answers whether it was still ours.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn hand_back(&self, entry: &OutboxEntry, why: &str) -> Result<bool, HubError> {
        let now = self.now();
        let settlement = Settlement::Retry {
            due_at: now,
            error: why.to_owned(),
        };
        self.settle(entry, &settlement, now).await
    }

    /// Says that an entry has arrived. Answers whether that still counted.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn arrived(&self, entry: &OutboxEntry) -> Result<bool, HubError> {
        let now = self.now();
        self.settle(entry, &Settlement::Delivered, now).await
    }

    /// Says that an entry did not arrive: it is tried again, after the wait that the receiver asked
    /// for if it is longer than ours, or given up after its last attempt or if trying again cannot
    /// help. `why` is for the operator, and holds nothing of the content.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn did_not_arrive(
        &self,
        entry: &OutboxEntry,
        policy: &RetryPolicy,
        why: &str,
        asked_wait: Option<Duration>,
        may_help: bool,
    ) -> Result<bool, HubError> {
        let wait = policy.wait_after(entry.attempt, self.inner.ids.random());
        let (error, now) = (why.to_owned(), self.now());
        let settlement = match wait.filter(|_| may_help) {
            None => Settlement::Dead { error },
            Some(wait) => {
                let wait = asked_wait.map_or(wait, |asked| asked.min(MOST_PATIENCE).max(wait));
                Settlement::Retry {
                    due_at: now.after(wait),
                    error,
                }
            }
        };
        self.settle(entry, &settlement, now).await
    }

    async fn settle(
        &self,
        entry: &OutboxEntry,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<bool, HubError> {
        let (id, attempt) = (&entry.id, entry.attempt);
        let settled = self.store().settle_outbox(id, attempt, settlement, now);
        let settled = settled.await?;
        self.inner.holdings.settle(id, attempt);
        Ok(settled)
    }

    /// A lease that was asked for at this moment, by the rules of the store.
    pub(super) fn lease(&self, length: Duration, asked: Instant) -> Lease {
        let ends = self.store().leases_end();
        Lease::new(ends.then_some(length), asked)
    }
}
