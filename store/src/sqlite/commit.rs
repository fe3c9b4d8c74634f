//! Prepares a commit for the writer: everything that can be done without the database is done here,
//! on the caller's side.

use super::apply;
use super::error::SqliteResult;
use super::write_job::WriteSession;
use crate::codec::{int_to_column, to_json_text};
use interzone_hub::ports::{Commit, Fence, Op, StoreError};
use interzone_hub::{SignalBody, Subject};
use interzone_protocol::vocab::{TaskId, Timestamp};
use rusqlite::params;

/// A commit whose values are ready to be bound.
pub(super) struct PreparedCommit {
    at: Timestamp,
    fence: Option<Fence>,
    epoch: Option<u64>,
    steps: Vec<PreparedStep>,
    /// Existing tasks that it changes.
    changed_tasks: Vec<TaskId>,
}

/// An operation, with its encoded columns.
pub(super) struct PreparedStep {
    pub(super) op: Op,
    /// Key of its subject.
    pub(super) subject: Option<String>,
    /// Encoded body; its content depends on the operation.
    pub(super) text: Option<String>,
    /// A second encoded text.
    pub(super) extra_text: Option<String>,
    /// Send a change hint: once per run of consecutive events of one subject, by the last.
    pub(super) notifies: bool,
}

impl PreparedCommit {
    pub(super) fn new(commit: Commit) -> Result<Self, StoreError> {
        let changed_tasks = changed_tasks(&commit.ops);
        let steps = commit.ops.into_iter().map(PreparedStep::new);
        let mut steps: Vec<PreparedStep> = steps.collect::<Result<_, _>>()?;
        dedup_hints(&mut steps);
        Ok(Self {
            changed_tasks,
            at: commit.at,
            fence: commit.fence,
            epoch: commit.epoch,
            steps,
        })
    }

    /// Estimated number of bytes written.
    pub(super) fn estimated_bytes(&self) -> usize {
        self.steps.iter().map(PreparedStep::estimated_bytes).sum()
    }

    /// Tasks that it queues.
    pub(super) fn queued_tasks(&self) -> impl Iterator<Item = &TaskId> {
        self.steps.iter().filter_map(|step| match &step.op {
            Op::EnqueueWork { task_id, .. } => Some(task_id),
            _ => None,
        })
    }

    /// Checks the preconditions and writes everything, inside the writer's transaction.
    pub(super) fn apply(&self, session: &mut WriteSession<'_>) -> SqliteResult<()> {
        if let Some(fence) = &self.fence {
            check_fence(session, fence)?;
        }
        if let Some(expected) = self.epoch
            && read_epoch(session)? > int_to_column(expected)
        {
            return Err(StoreError::StaleSubscriptions.into());
        }
        session.changed_tasks.extend_from_slice(&self.changed_tasks);
        self.steps
            .iter()
            .try_for_each(|step| apply::apply_step(session, self.at, step))
    }
}

/// Returns the existing tasks whose cached snapshot these operations change.
fn changed_tasks(ops: &[Op]) -> Vec<TaskId> {
    let (mut created, mut changed): (Option<&TaskId>, Vec<TaskId>) = (None, Vec::new());
    for op in ops {
        let id = match op {
            Op::CreateTask(task) => {
                created = Some(&task.id);
                continue;
            }
            Op::UpdateTask(task) => &task.id,
            Op::AddMessage { task_id, .. }
            | Op::ReplaceMessage { task_id, .. }
            | Op::PutArtifact { task_id, .. } => task_id,
            _ => continue,
        };
        // There are few in one commit, and mostly the same one.
        if changed.last() != Some(id) && created != Some(id) {
            changed.push(id.clone());
        }
    }
    changed
}

/// Keeps one change hint per run of consecutive events of the same subject, on the last event.
fn dedup_hints(steps: &mut [PreparedStep]) {
    let mut next: Option<&Subject> = None;
    for step in steps.iter_mut().rev() {
        if let Op::AppendEvent(event) = &step.op {
            step.notifies = next != Some(&event.subject);
            next = Some(&event.subject);
        }
    }
}

impl PreparedStep {
    /// Encodes an operation.
    fn new(op: Op) -> Result<Self, StoreError> {
        let mut more = None;
        let text = match &op {
            Op::CreateTask(task) | Op::UpdateTask(task) => {
                task.status_message.as_ref().map(to_json_text).transpose()?
            }
            Op::AddMessage { message, .. } | Op::ReplaceMessage { message, .. } => {
                Some(to_json_text(message)?)
            }
            Op::PutArtifact { artifact, .. } => Some(to_json_text(artifact)?),
            Op::CreateStream(stream) | Op::UpdateStream(stream) => {
                Some(to_json_text(&stream.participants)?)
            }
            Op::AppendEvent(event) => Some(to_json_text(&event.body)?),
            Op::PutPushSubscription(push) => Some(to_json_text(&push.events)?),
            Op::CreateSubscription(subscription) | Op::UpdateSubscription(subscription) => {
                more = subscription
                    .allowed_patterns
                    .as_ref()
                    .map(to_json_text)
                    .transpose()?;
                Some(to_json_text(&subscription.patterns)?)
            }
            Op::ClaimKey(_)
            | Op::RecordThread { .. }
            | Op::PutBlob { .. }
            | Op::EnqueueWork { .. }
            | Op::DequeueWork(_)
            | Op::EnqueueOutbox(_)
            | Op::Publish { .. }
            | Op::RemovePushSubscription { .. }
            | Op::RemoveSubscription(_) => None,
        };
        Ok(Self {
            subject: subject_key(&op),
            op,
            text,
            extra_text: more,
            notifies: true,
        })
    }

    fn estimated_bytes(&self) -> usize {
        /// Cost of a row besides its body.
        const ROW_OVERHEAD_BYTES: usize = 200;
        let body = match &self.op {
            Op::PutBlob { blob, .. } => blob.bytes.len(),
            Op::EnqueueOutbox(entry) => entry.payload.as_str().len(),
            Op::Publish { signal, to } => match &signal.body {
                SignalBody::Sent(json) => json.as_str().len() + ROW_OVERHEAD_BYTES * to.len(),
                SignalBody::Event(..) => ROW_OVERHEAD_BYTES * to.len(),
            },
            _ => 0,
        };
        ROW_OVERHEAD_BYTES + body + self.text.as_ref().map_or(0, String::len)
    }
}

/// Returns the key of the subject of an operation, if it needs one.
fn subject_key(op: &Op) -> Option<String> {
    let subject = match op {
        Op::AppendEvent(event) => Some(&event.subject),
        Op::PutBlob { subject, .. } => Some(subject),
        Op::EnqueueOutbox(entry) => entry.subject.as_ref(),
        Op::Publish { signal, .. } => match &signal.body {
            SignalBody::Event(subject, _) => Some(subject),
            SignalBody::Sent(_) => None,
        },
        _ => None,
    };
    subject.map(Subject::key)
}

/// Fencing: a lease is valid until another claim takes the task. Claims are compared by number, never by
/// the clock.
fn check_fence(session: &WriteSession<'_>, fence: &Fence) -> SqliteResult<()> {
    let sql = "SELECT 1 FROM tasks WHERE id = ?1 AND queue_node = ?2 AND queue_claim = ?3";
    let values = params![
        fence.task_id.as_str(),
        fence.node,
        int_to_column(fence.claim)
    ];
    match session.first(sql, values, |_| Ok(()))? {
        Some(()) => Ok(()),
        None => Err(StoreError::Fenced.into()),
    }
}

fn read_epoch(session: &mut WriteSession<'_>) -> SqliteResult<i64> {
    if let Some(epoch) = session.counters.epoch {
        return Ok(epoch);
    }
    let sql = "SELECT value FROM meta WHERE name = 'subscription_epoch'";
    let epoch = session.first(sql, [], |row| Ok(row.get(0)?))?;
    let epoch = epoch.unwrap_or(0);
    session.counters.epoch = Some(epoch);
    Ok(epoch)
}
