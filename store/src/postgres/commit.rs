//! Commits: one transaction per commit, sent in two round trips.
//!
//! The first round trip begins the transaction and runs every step; the second commits it, once the
//! results show that all preconditions held. A commit that also claims work makes one more round trip in
//! between and uses SKIP LOCKED, so it waits for no lock. All nodes take locks in one order (removals,
//! topics, outbox groups, work, tasks and streams, cursors, blobs), so commits wait for each other and
//! deadlocks are rare; a transaction that hits one is retried.

use super::PostgresStore;
use super::error::PgError;
use super::ops::{self, CheckedStep, OnZeroRows, checked_step, params};
use super::pipeline::{Param, PipelineStep, begin_and_execute, query_rows};
use super::text_encoding;
use super::tx_runner::TxOutcome;
use super::work_queue::ClaimParams;
use deadpool_postgres::Object;
use interzone_hub::Subject;
use interzone_hub::ports::{ChangeHint, Commit, Op, StoreError, WorkClaim, WorkItem};
use interzone_protocol::vocab::SubscriptionId;
use std::collections::{BTreeMap, BTreeSet};

impl PostgresStore {
    /// Writes a commit and, if requested, claims work in the same transaction.
    pub(super) async fn write_commit(
        &self,
        commit: &Commit,
        claim: Option<&WorkClaim>,
    ) -> Result<Vec<WorkItem>, StoreError> {
        let mut checked = self.lock_steps(commit);
        checked.extend(precondition_steps(commit));
        checked.extend(ops::blob_steps(commit));
        for op in &commit.ops {
            checked.extend(ops::op_steps(commit, op, self.clock(), &self.turns)?);
        }
        let (steps, meanings): (Vec<PipelineStep<'_>>, Vec<OnZeroRows>) =
            checked.into_iter().unzip();
        let (steps, meanings) = (&steps, &meanings);
        let wanted = claim.map(|claim| ClaimParams::new(claim, self.clock()));
        let wanted = wanted.as_ref();
        let items = self
            .tx_runner
            .transact(&commit.id, |client| {
                Box::pin(async move {
                    let answers = begin_and_execute(&client, steps).await?;
                    for (answer, none) in answers.into_iter().zip(meanings) {
                        if answer? == 0 {
                            reject_zero_rows(&client, none).await?;
                        }
                    }
                    let items = match wanted {
                        None => Vec::new(),
                        Some(wanted) => wanted.claim(&client, false, &self.turns).await?,
                    };
                    Ok(TxOutcome::Written(items))
                })
            })
            .await?;
        self.change_notifier.publish(change_hints(commit, &items));
        Ok(items)
    }

    /// Steps that take the locks before anything is read, in the global lock order.
    fn lock_steps<'a>(&self, commit: &'a Commit) -> Vec<CheckedStep<'a>> {
        let lock_set = LockSet::from_commit(commit);
        let mut steps = Vec::new();
        let mut lock = |sql, params| steps.push(checked_step(sql, params, OnZeroRows::Ignore));
        if lock_set.removes_subscription {
            lock(
                "SELECT pg_advisory_xact_lock($1)",
                params![self.delivery_removal_lock_key()],
            );
        }
        // Publishers and subscribers must see each other's changes.
        let topics = self.tx_runner.lock_key("topics", "");
        if lock_set.changes_subscriptions {
            lock("SELECT pg_advisory_xact_lock($1)", params![topics]);
        } else if commit.epoch.is_some() {
            lock("SELECT pg_advisory_xact_lock_shared($1)", params![topics]);
        }
        if !lock_set.groups.is_empty() {
            let groups = lock_set.groups.iter();
            let mut keys: Vec<i64> = groups.map(|group| self.group_lock_key(group)).collect();
            keys.sort_unstable();
            lock(LOCK_GROUPS, params![keys]);
        }
        if !lock_set.work.is_empty() {
            let ids: Vec<&str> = lock_set.work.into_iter().collect();
            lock(
                "SELECT FROM work_queue WHERE task_id = ANY ($1) ORDER BY task_id FOR UPDATE",
                params![ids],
            );
        }
        // A single row is locked by its own write.
        if lock_set.tasks.len() > 1 {
            let ids: Vec<&str> = lock_set.tasks.into_iter().collect();
            lock(
                "SELECT FROM tasks WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE",
                params![ids],
            );
        }
        if lock_set.streams.len() > 1 {
            let ids: Vec<&str> = lock_set.streams.into_iter().collect();
            lock(
                "SELECT FROM streams WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE",
                params![ids],
            );
        }
        if lock_set.cursors.len() > 1 {
            let ids: Vec<&str> = lock_set.cursors.into_iter().collect();
            lock(
                "SELECT FROM delivery_cursors WHERE subscription_id = ANY ($1)
                 ORDER BY subscription_id FOR UPDATE",
                params![ids],
            );
        }
        steps
    }

    /// Advisory lock key of removing deliveries: two concurrent removals might each leave a signal to the other.
    pub(super) fn delivery_removal_lock_key(&self) -> i64 {
        self.tx_runner.lock_key("removal", "")
    }

    /// Advisory lock key of changing the order of an outbox group.
    pub(super) fn group_lock_key(&self, group: &str) -> i64 {
        self.tx_runner.lock_key("group", group)
    }
}

/// Takes advisory locks in the order of the list.
pub(super) const LOCK_GROUPS: &str =
    "SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key";

/// Rows and keys that a commit has to lock.
#[derive(Default)]
struct LockSet<'a> {
    changes_subscriptions: bool,
    removes_subscription: bool,
    groups: BTreeSet<&'a str>,
    work: BTreeSet<&'a str>,
    tasks: BTreeSet<&'a str>,
    streams: BTreeSet<&'a str>,
    cursors: BTreeSet<&'a str>,
}

impl<'a> LockSet<'a> {
    fn from_commit(commit: &'a Commit) -> Self {
        let mut lock_set = Self::default();
        let mut created = BTreeSet::new();
        for op in &commit.ops {
            match op {
                Op::CreateTask(task) => drop(created.insert(task.id.as_str())),
                Op::UpdateTask(task) => drop(lock_set.tasks.insert(task.id.as_str())),
                Op::UpdateStream(stream) => drop(lock_set.streams.insert(stream.id.as_str())),
                Op::EnqueueWork { task_id, .. } | Op::DequeueWork(task_id) => {
                    lock_set.work.insert(task_id.as_str());
                }
                Op::EnqueueOutbox(entry) => lock_set.groups.extend(entry.group.as_deref()),
                Op::CreateSubscription(_) | Op::UpdateSubscription(_) => {
                    lock_set.changes_subscriptions = true
                }
                Op::RemoveSubscription(id) => {
                    lock_set.changes_subscriptions = true;
                    lock_set.removes_subscription = true;
                    lock_set.cursors.insert(id.as_str());
                }
                Op::Publish { to, .. } => {
                    lock_set
                        .cursors
                        .extend(to.iter().map(SubscriptionId::as_str));
                }
                Op::ClaimKey(_)
                | Op::RecordThread { .. }
                | Op::AddMessage { .. }
                | Op::ReplaceMessage { .. }
                | Op::PutArtifact { .. }
                | Op::PutBlob { .. }
                | Op::CreateStream(_)
                | Op::AppendEvent(_)
                | Op::PutPushSubscription(_)
                | Op::RemovePushSubscription { .. } => {}
            }
        }
        // A row that this commit creates cannot be locked by another transaction.
        lock_set.work.retain(|id| !created.contains(id));
        // The fence check locks its own row.
        if let (Some(fence), 1) = (&commit.fence, lock_set.work.len()) {
            lock_set.work.remove(fence.task_id.as_str());
        }
        lock_set
    }
}

fn precondition_steps(commit: &Commit) -> Vec<CheckedStep<'_>> {
    let mut steps = Vec::new();
    if let Some(fence) = &commit.fence {
        steps.push(checked_step(
            "SELECT FROM work_queue WHERE task_id = $1 AND node = $2 AND claim = $3 FOR UPDATE",
            params![
                fence.task_id.as_str(),
                text_encoding::escape_nul(&fence.node),
                crate::codec::int_to_column(fence.claim)
            ],
            OnZeroRows::Fenced,
        ));
    }
    if let Some(epoch) = commit.epoch {
        steps.push(checked_step(
            "SELECT FROM subscription_epoch WHERE epoch <= $1",
            params![crate::codec::int_to_column(epoch)],
            OnZeroRows::StaleSubscriptions,
        ));
    }
    steps
}

/// Maps a step that affected no row to its error, if it should have.
async fn reject_zero_rows(client: &Object, none: &OnZeroRows) -> Result<(), PgError> {
    match none {
        OnZeroRows::Ignore => Ok(()),
        OnZeroRows::Conflict => Err(StoreError::Conflict.into()),
        OnZeroRows::Fenced => Err(StoreError::Fenced.into()),
        OnZeroRows::StaleSubscriptions => Err(StoreError::StaleSubscriptions.into()),
        OnZeroRows::KeyTaken(key) => {
            // Our insert has locked the row, so this row is the one that holds the key. If a later step
            // failed, the transaction is aborted and the row is read after a rollback.
            let sql = "SELECT value FROM idempotency_keys WHERE key_hash = $1";
            let rows = match query_rows(client, sql, &[&text_encoding::index_hash(key)]).await {
                Err(error) if error.code().is_some_and(|code| code.code() == "25P02") => {
                    client.batch_execute("ROLLBACK").await?;
                    query_rows(client, sql, &[&text_encoding::index_hash(key)]).await?
                }
                answer => answer?,
            };
            let row = rows.first().ok_or(StoreError::Conflict)?;
            Err(StoreError::KeyTaken {
                key: key.clone(),
                value: text_encoding::unescape_nul(row.get(0)),
            }
            .into())
        }
    }
}

/// Change hints for a commit. Work that is claimed already needs none.
fn change_hints(commit: &Commit, claimed: &[WorkItem]) -> Vec<ChangeHint> {
    let mut subjects: BTreeMap<&Subject, u64> = BTreeMap::new();
    let mut signals = BTreeSet::new();
    let (mut work, mut outbox, mut subscriptions) = (false, false, false);
    for op in &commit.ops {
        match op {
            Op::AppendEvent(event) => {
                let seq = subjects.entry(&event.subject).or_default();
                *seq = (*seq).max(event.seq);
            }
            Op::EnqueueWork { task_id, .. } => {
                work |= claimed.iter().all(|item| item.task_id != *task_id);
            }
            Op::EnqueueOutbox(_) => outbox = true,
            Op::CreateSubscription(_) | Op::UpdateSubscription(_) | Op::RemoveSubscription(_) => {
                subscriptions = true
            }
            Op::Publish { to, .. } => signals.extend(to),
            _ => {}
        }
    }
    let simple_hints = [
        (subscriptions, ChangeHint::Subscriptions),
        (work, ChangeHint::Work),
        (outbox, ChangeHint::Outbox),
    ];
    let subjects = subjects.into_iter();
    subjects
        .map(|(subject, seq)| ChangeHint::Subject(subject.clone(), seq))
        .chain(signals.into_iter().cloned().map(ChangeHint::Signals))
        .chain(
            simple_hints
                .into_iter()
                .filter_map(|(so, hint)| so.then_some(hint)),
        )
        .collect()
}
