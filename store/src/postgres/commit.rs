//! Commits: the whole decision in one transaction, sent in two trips.
//!
//! The first trip begins the transaction and carries every step; the second commits it, once the
//! answers show that all preconditions held. Whoever claims as well makes one more trip between them, and
//! skips what is locked, so that it waits for nobody. Locks are taken in one order by everybody (removals,
//! topics, groups of the outbox, work, tasks and streams, cursors, blobs), so that commits wait for
//! each other and rarely for a deadlock to be found; one that is found is repeated.

use super::PostgresStore;
use super::fault::Fault;
use super::ops::{self, Checked, IfNone, params, step};
use super::pipeline::{Param, Step, ask, begin_and_run};
use super::session::Done;
use super::text;
use super::work::Wanted;
use deadpool_postgres::Object;
use interzone_hub::Subject;
use interzone_hub::ports::{Commit, Op, StoreError, Wake, WorkClaim, WorkItem};
use interzone_protocol::vocab::SubscriptionId;
use std::collections::{BTreeMap, BTreeSet};

impl PostgresStore {
    /// Writes a commit and, if something is wanted, claims it in the same transaction.
    pub(super) async fn write(
        &self,
        commit: &Commit,
        claim: Option<&WorkClaim>,
    ) -> Result<Vec<WorkItem>, StoreError> {
        let mut checked = self.locks(commit);
        checked.extend(preconditions(commit));
        checked.extend(ops::blobs(commit));
        for op in &commit.ops {
            checked.extend(ops::steps(commit, op, self.clock(), &self.turns)?);
        }
        let (steps, meanings): (Vec<Step<'_>>, Vec<IfNone>) = checked.into_iter().unzip();
        let (steps, meanings) = (&steps, &meanings);
        let wanted = claim.map(|claim| Wanted::new(claim, self.clock()));
        let wanted = wanted.as_ref();
        let items = self
            .session
            .transact(&commit.id, |client| {
                Box::pin(async move {
                    let answers = begin_and_run(&client, steps).await?;
                    for (answer, none) in answers.into_iter().zip(meanings) {
                        if answer? == 0 {
                            refuse(&client, none).await?;
                        }
                    }
                    let items = match wanted {
                        None => Vec::new(),
                        Some(wanted) => wanted.claim(&client, false, &self.turns).await?,
                    };
                    Ok(Done::Written(items))
                })
            })
            .await?;
        self.wakes.tell(wakes(commit, &items));
        Ok(items)
    }

    /// What must be locked before anything is looked at, in the order that everybody keeps.
    fn locks<'a>(&self, commit: &'a Commit) -> Vec<Checked<'a>> {
        let named = Named::of(commit);
        let mut steps = Vec::new();
        let mut lock = |sql, params| steps.push(step(sql, params, IfNone::Fine));
        if named.unsubscribes {
            lock(
                "SELECT pg_advisory_xact_lock($1)",
                params![self.removal_lock()],
            );
        }
        // Whoever publishes and whoever subscribes must not overlook each other.
        let topics = self.session.lock_key("topics", "");
        if named.subscribes {
            lock("SELECT pg_advisory_xact_lock($1)", params![topics]);
        } else if commit.epoch.is_some() {
            lock("SELECT pg_advisory_xact_lock_shared($1)", params![topics]);
        }
        if !named.groups.is_empty() {
            let groups = named.groups.iter();
            let mut keys: Vec<i64> = groups.map(|group| self.group_lock(group)).collect();
            keys.sort_unstable();
            lock(LOCK_GROUPS, params![keys]);
        }
        if !named.work.is_empty() {
            let ids: Vec<&str> = named.work.into_iter().collect();
            lock(
                "SELECT FROM work WHERE task_id = ANY ($1) ORDER BY task_id FOR UPDATE",
                params![ids],
            );
        }
        // One alone is locked when it is written.
        if named.tasks.len() > 1 {
            let ids: Vec<&str> = named.tasks.into_iter().collect();
            lock(
                "SELECT FROM tasks WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE",
                params![ids],
            );
        }
        if named.streams.len() > 1 {
            let ids: Vec<&str> = named.streams.into_iter().collect();
            lock(
                "SELECT FROM streams WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE",
                params![ids],
            );
        }
        if named.cursors.len() > 1 {
            let ids: Vec<&str> = named.cursors.into_iter().collect();
            lock(
                "SELECT FROM cursors WHERE subscription_id = ANY ($1)
                 ORDER BY subscription_id FOR UPDATE",
                params![ids],
            );
        }
        steps
    }

    /// The lock of whoever removes deliveries: two at once might each leave a signal to the other.
    pub(super) fn removal_lock(&self) -> i64 {
        self.session.lock_key("removal", "")
    }

    /// The lock that whoever changes the order of a group holds.
    pub(super) fn group_lock(&self, group: &str) -> i64 {
        self.session.lock_key("group", group)
    }
}

/// Takes locks in the order of the list.
pub(super) const LOCK_GROUPS: &str =
    "SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key";

/// What a commit is about, as far as locks are concerned.
#[derive(Default)]
struct Named<'a> {
    subscribes: bool,
    unsubscribes: bool,
    groups: BTreeSet<&'a str>,
    work: BTreeSet<&'a str>,
    tasks: BTreeSet<&'a str>,
    streams: BTreeSet<&'a str>,
    cursors: BTreeSet<&'a str>,
}

impl<'a> Named<'a> {
    fn of(commit: &'a Commit) -> Self {
        let mut named = Self::default();
        let mut created = BTreeSet::new();
        for op in &commit.ops {
            match op {
                Op::CreateTask(task) => drop(created.insert(task.id.as_str())),
                Op::UpdateTask(task) => drop(named.tasks.insert(task.id.as_str())),
                Op::UpdateStream(stream) => drop(named.streams.insert(stream.id.as_str())),
                Op::QueueWork { task_id, .. } | Op::EndWork(task_id) => {
                    named.work.insert(task_id.as_str());
                }
                Op::Enqueue(entry) => named.groups.extend(entry.group.as_deref()),
                Op::CreateSubscription(_) | Op::UpdateSubscription(_) => named.subscribes = true,
                Op::RemoveSubscription(id) => {
                    named.subscribes = true;
                    named.unsubscribes = true;
                    named.cursors.insert(id.as_str());
                }
                Op::Publish { to, .. } => {
                    named.cursors.extend(to.iter().map(SubscriptionId::as_str));
                }
                Op::Claim(_)
                | Op::NoteQuestion { .. }
                | Op::AddMessage { .. }
                | Op::ReplaceMessage { .. }
                | Op::PutArtifact { .. }
                | Op::PutBlob { .. }
                | Op::CreateStream(_)
                | Op::AppendEvent(_)
                | Op::PutPush(_)
                | Op::RemovePush { .. } => {}
            }
        }
        // What is not there yet cannot be held by anybody.
        named.work.retain(|id| !created.contains(id));
        // The fence locks its own.
        if let (Some(fence), 1) = (&commit.fence, named.work.len()) {
            named.work.remove(fence.task_id.as_str());
        }
        named
    }
}

fn preconditions(commit: &Commit) -> Vec<Checked<'_>> {
    let mut steps = Vec::new();
    if let Some(fence) = &commit.fence {
        steps.push(step(
            "SELECT FROM work WHERE task_id = $1 AND node = $2 AND claim = $3 FOR UPDATE",
            params![
                fence.task_id.as_str(),
                text::escaped(&fence.node),
                crate::codec::column(fence.claim)
            ],
            IfNone::Fenced,
        ));
    }
    if let Some(epoch) = commit.epoch {
        steps.push(step(
            "SELECT FROM epoch WHERE number <= $1",
            params![crate::codec::column(epoch)],
            IfNone::Stale,
        ));
    }
    steps
}

/// The answer to a step that touched no row and should have.
async fn refuse(client: &Object, none: &IfNone) -> Result<(), Fault> {
    match none {
        IfNone::Fine => Ok(()),
        IfNone::Conflict => Err(StoreError::Conflict.into()),
        IfNone::Fenced => Err(StoreError::Fenced.into()),
        IfNone::Stale => Err(StoreError::StaleSubscriptions.into()),
        IfNone::Claimed(key) => {
            // Our attempt has locked the row, so it is the one that refused us. If a later step
            // failed, the transaction can only be asked again from the start.
            let sql = "SELECT value FROM claims WHERE key_hash = $1";
            let rows = match ask(client, sql, &[&text::hash(key)]).await {
                Err(error) if error.code().is_some_and(|code| code.code() == "25P02") => {
                    client.batch_execute("ROLLBACK").await?;
                    ask(client, sql, &[&text::hash(key)]).await?
                }
                answer => answer?,
            };
            let row = rows.first().ok_or(StoreError::Conflict)?;
            Err(StoreError::Claimed {
                key: key.clone(),
                value: text::unescaped(row.get(0)),
            }
            .into())
        }
    }
}

/// Who may be waiting for this. Nobody need look for work that is taken already.
fn wakes(commit: &Commit, taken: &[WorkItem]) -> Vec<Wake> {
    let mut subjects: BTreeMap<&Subject, u64> = BTreeMap::new();
    let mut signals = BTreeSet::new();
    let (mut work, mut outbox, mut subscriptions) = (false, false, false);
    for op in &commit.ops {
        match op {
            Op::AppendEvent(event) => {
                let seq = subjects.entry(&event.subject).or_default();
                *seq = (*seq).max(event.seq);
            }
            Op::QueueWork { task_id, .. } => {
                work |= taken.iter().all(|item| item.task_id != *task_id);
            }
            Op::Enqueue(_) => outbox = true,
            Op::CreateSubscription(_) | Op::UpdateSubscription(_) | Op::RemoveSubscription(_) => {
                subscriptions = true
            }
            Op::Publish { to, .. } => signals.extend(to),
            _ => {}
        }
    }
    let plain = [
        (subscriptions, Wake::Subscriptions),
        (work, Wake::Work),
        (outbox, Wake::Outbox),
    ];
    let subjects = subjects.into_iter();
    subjects
        .map(|(subject, seq)| Wake::Subject(subject.clone(), seq))
        .chain(signals.into_iter().cloned().map(Wake::Signals))
        .chain(
            plain
                .into_iter()
                .filter_map(|(so, wake)| so.then_some(wake)),
        )
        .collect()
}
