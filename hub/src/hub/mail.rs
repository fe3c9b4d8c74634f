//! Inbox and outbox: in exactly once, and out until it has arrived or been given up.

use super::tasks::made_id;
use super::{Hub, contended};
use crate::error::HubError;
use crate::event::Subject;
use crate::outbox::{OutboxEntry, RetryPolicy, Settlement};
use crate::ports::{ClaimKey, Op, StoreError};
use interzone_protocol::vocab::{DeliveryId, Json, PrincipalId, Timestamp};
use std::time::Duration;

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

    /// Entries that are due, held for a while so that nobody else carries them too.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn take_out(
        &self,
        channels: &[String],
        hold: Duration,
        limit: usize,
    ) -> Result<Vec<OutboxEntry>, HubError> {
        let now = self.now();
        Ok(self
            .store()
            .claim_outbox(channels, now, now.after(hold), limit)
            .await?)
    }

    /// Holds an entry for a while from now on, because carrying it takes long. Answers whether it is
    /// still ours; if not, somebody else has it, and carrying it must stop.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn keep_holding(
        &self,
        entry: &OutboxEntry,
        hold: Duration,
    ) -> Result<bool, HubError> {
        let until = self.now().after(hold);
        Ok(self
            .store()
            .hold_outbox(&entry.id, entry.attempt, until)
            .await?)
    }

    /// Gives an entry back as it is, to be carried at once by whoever comes: this node stops. The
    /// attempt counts, for nobody knows how far it got. Answers whether it was still ours.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn hand_back(&self, entry: &OutboxEntry, why: &str) -> Result<bool, HubError> {
        let settlement = Settlement::Retry {
            due_at: self.now(),
            error: why.to_owned(),
        };
        self.settle(entry, &settlement).await
    }

    /// Says that an entry has arrived. Answers whether that still counted.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn arrived(&self, entry: &OutboxEntry) -> Result<bool, HubError> {
        self.settle(entry, &Settlement::Delivered).await
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
        let error = why.to_owned();
        let settlement = match wait.filter(|_| may_help) {
            None => Settlement::Dead { error },
            Some(wait) => {
                let wait = asked_wait.map_or(wait, |asked| asked.min(MOST_PATIENCE).max(wait));
                Settlement::Retry {
                    due_at: self.now().after(wait),
                    error,
                }
            }
        };
        self.settle(entry, &settlement).await
    }

    async fn settle(&self, entry: &OutboxEntry, settlement: &Settlement) -> Result<bool, HubError> {
        let now = self.now();
        Ok(self
            .store()
            .settle_outbox(&entry.id, entry.attempt, settlement, now)
            .await?)
    }
}
