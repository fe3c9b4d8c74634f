//! Prepares a commit for the writer: everything that can be done without the database is done here,
//! on the caller's side.

use super::error::SqliteResult;
use super::inline_rows::{self, InlinedRows};
use super::write_job::WriteSession;
use super::{apply, events};
use crate::codec::{event_json, int_to_column, message_json, to_json_text};
use interzone_hub::ports::{Commit, Fence, Op, StoreError};
use interzone_hub::{Offloaded, SignalBody, Subject};
use interzone_protocol::vocab::{Message, TaskId, Timestamp};
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
    /// The event log that it appends to starts with this commit.
    pub(super) starts_log: bool,
    /// Rows inlined into the task row that it creates.
    pub(super) inlined: InlinedRows,
    /// An earlier step has taken over its effect.
    pub(super) is_absorbed: bool,
}

impl PreparedCommit {
    pub(super) fn new(commit: Commit) -> Result<Self, StoreError> {
        let changed_tasks = changed_tasks(&commit.ops);
        let mut steps: Vec<PreparedStep> = Vec::with_capacity(commit.ops.len());
        let mut last_message = None;
        for op in commit.ops {
            if let Op::AddMessage { .. } = &op {
                last_message = Some(steps.len());
            }
            let before = last_message.and_then(|index: usize| steps.get(index));
            let step = PreparedStep::new(op, before.and_then(PreparedStep::added_message))?;
            steps.push(step);
        }
        events::coalesce(&mut steps);
        inline_rows::inline_into_task(&mut steps);
        dedup_hints(&mut steps);
        steps.iter_mut().for_each(PreparedStep::set_subject_key);
        Ok(Self {
            changed_tasks,
            at: commit.at,
            fence: commit.fence,
            epoch: commit.epoch,
            steps,
        })
    }

    /// Steps that still have to be applied.
    fn pending_steps(&self) -> impl Iterator<Item = &PreparedStep> {
        self.steps.iter().filter(|step| !step.is_absorbed)
    }

    /// Estimated number of bytes written.
    pub(super) fn estimated_bytes(&self) -> usize {
        self.pending_steps()
            .map(PreparedStep::estimated_bytes)
            .sum()
    }

    /// Tasks that it queues.
    pub(super) fn queued_tasks(&self) -> impl Iterator<Item = &TaskId> {
        self.pending_steps().filter_map(|step| match &step.op {
            Op::EnqueueWork { task_id, .. } => Some(task_id),
            Op::CreateTask(task) if step.inlined.queue_position.is_some() => Some(&task.id),
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
        self.pending_steps()
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
    for step in steps.iter_mut().rev().filter(|step| !step.is_absorbed) {
        if let Op::AppendEvent(event) = &step.op {
            step.notifies = next != Some(&event.subject);
            next = Some(&event.subject);
        }
    }
}

impl PreparedStep {
    /// Encodes an operation. `last_message` is the last added message with its encoding, which an event may reuse.
    fn new(op: Op, last_message: Option<(&Offloaded<Message>, &str)>) -> Result<Self, StoreError> {
        let mut more = None;
        let text = match &op {
            Op::CreateTask(task) | Op::UpdateTask(task) => {
                task.status_message.as_ref().map(to_json_text).transpose()?
            }
            Op::AddMessage { message, .. } | Op::ReplaceMessage { message, .. } => {
                Some(message_json(message)?)
            }
            Op::PutArtifact { artifact, .. } => Some(to_json_text(artifact)?),
            Op::CreateStream(stream) | Op::UpdateStream(stream) => {
                Some(to_json_text(&stream.participants)?)
            }
            Op::AppendEvent(event) => Some(event_json(&event.body, last_message)?),
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
            op,
            subject: None,
            text,
            extra_text: more,
            notifies: true,
            starts_log: false,
            inlined: InlinedRows::default(),
            is_absorbed: false,
        })
    }

    /// Sets the key of its subject, for operations that need it.
    fn set_subject_key(&mut self) {
        let subject = match &self.op {
            Op::AppendEvent(event) if !self.is_absorbed => Some(&event.subject),
            Op::PutBlob { subject, .. } => Some(subject),
            Op::EnqueueOutbox(entry) => entry.subject.as_ref(),
            Op::Publish { signal, .. } => match &signal.body {
                SignalBody::Event(subject, _) => Some(subject),
                SignalBody::Sent(_) => None,
            },
            _ => None,
        };
        self.subject = subject.map(Subject::key);
    }

    /// Returns the message that it adds, with its encoding.
    fn added_message(&self) -> Option<(&Offloaded<Message>, &str)> {
        match (&self.op, &self.text) {
            (Op::AddMessage { message, .. }, Some(text)) => Some((message, text)),
            _ => None,
        }
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
        ROW_OVERHEAD_BYTES
            + body
            + self.text.as_ref().map_or(0, String::len)
            + self.inlined.text_bytes()
    }
}

/// Fencing: a lease is valid until another claim takes the task. Claims are compared by number, never by
/// the clock.
fn check_fence(session: &WriteSession<'_>, fence: &Fence) -> SqliteResult<()> {
    let sql = "SELECT 1 FROM tasks WHERE id = ?1 AND work_node = ?2 AND work_claim = ?3";
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
    let sql = "SELECT value FROM meta WHERE name = 'epoch'";
    let epoch = session.first(sql, [], |row| Ok(row.get(0)?))?;
    let epoch = epoch.unwrap_or(0);
    session.counters.epoch = Some(epoch);
    Ok(epoch)
}
