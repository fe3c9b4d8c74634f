//! A commit on its way to the writer: everything that costs time without the database is done here,
//! on the caller's side.

use super::fault::Outcome;
use super::first::{self, First};
use super::job::Session;
use super::{apply, events};
use crate::codec::{column, event_text, message_text, to_text};
use interzone_hub::ports::{Commit, Fence, Op, StoreError};
use interzone_hub::{Packed, SignalBody, Subject};
use interzone_protocol::vocab::{Message, TaskId, Timestamp};
use rusqlite::params;

/// A commit whose values are ready to be bound.
pub(super) struct Prepared {
    at: Timestamp,
    fence: Option<Fence>,
    epoch: Option<u64>,
    steps: Vec<Step>,
    /// The tasks that are there already and that it changes.
    changed: Vec<TaskId>,
}

/// An operation, with those of its columns that had to be made.
pub(super) struct Step {
    pub(super) op: Op,
    /// The key of its subject.
    pub(super) subject: Option<String>,
    /// Its body as text; which part of it that is depends on the operation.
    pub(super) text: Option<String>,
    /// One more text.
    pub(super) more: Option<String>,
    /// Whether those who watch are woken: once for events that follow each other in one log, by the last.
    pub(super) wakes: bool,
    /// Whether the log that it adds to begins with this commit.
    pub(super) begins: bool,
    /// What a task that it makes begins with.
    pub(super) first: First,
    /// Whether an earlier step does what it says.
    pub(super) is_gathered: bool,
}

impl Prepared {
    pub(super) fn new(commit: Commit) -> Result<Self, StoreError> {
        let changed = changed(&commit.ops);
        let mut steps: Vec<Step> = Vec::with_capacity(commit.ops.len());
        let mut said = None;
        for op in commit.ops {
            if let Op::AddMessage { .. } = &op {
                said = Some(steps.len());
            }
            let before = said.and_then(|place: usize| steps.get(place));
            let step = Step::new(op, before.and_then(Step::said))?;
            steps.push(step);
        }
        events::gather(&mut steps);
        first::gather(&mut steps);
        wake_once(&mut steps);
        steps.iter_mut().for_each(Step::address);
        Ok(Self {
            changed,
            at: commit.at,
            fence: commit.fence,
            epoch: commit.epoch,
            steps,
        })
    }

    /// The steps that are to be taken.
    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| !step.is_gathered)
    }

    /// About how many bytes will be written.
    pub(super) fn weight(&self) -> usize {
        self.steps().map(Step::weight).sum()
    }

    /// The tasks that it puts into the queue.
    pub(super) fn queued(&self) -> impl Iterator<Item = &TaskId> {
        self.steps().filter_map(|step| match &step.op {
            Op::QueueWork { task_id, .. } => Some(task_id),
            Op::CreateTask(task) if step.first.place.is_some() => Some(&task.id),
            _ => None,
        })
    }

    /// Checks and writes everything, inside the writer's transaction.
    pub(super) fn apply(&self, session: &mut Session<'_>) -> Outcome<()> {
        if let Some(fence) = &self.fence {
            check_fence(session, fence)?;
        }
        if let Some(known) = self.epoch
            && epoch(session)? > column(known)
        {
            return Err(StoreError::StaleSubscriptions.into());
        }
        session.changed.extend_from_slice(&self.changed);
        self.steps()
            .try_for_each(|step| apply::step(session, self.at, step))
    }
}

/// Which tasks that are there already these operations change, in what is read of a task.
fn changed(ops: &[Op]) -> Vec<TaskId> {
    let (mut made, mut changed): (Option<&TaskId>, Vec<TaskId>) = (None, Vec::new());
    for op in ops {
        let id = match op {
            Op::CreateTask(task) => {
                made = Some(&task.id);
                continue;
            }
            Op::UpdateTask(task) => &task.id,
            Op::AddMessage { task_id, .. }
            | Op::ReplaceMessage { task_id, .. }
            | Op::PutArtifact { task_id, .. } => task_id,
            _ => continue,
        };
        // Few in one commit, and mostly the same.
        if changed.last() != Some(id) && made != Some(id) {
            changed.push(id.clone());
        }
    }
    changed
}

/// Leaves the waking to the last of events that follow each other in one log.
fn wake_once(steps: &mut [Step]) {
    let mut next: Option<&Subject> = None;
    for step in steps.iter_mut().rev().filter(|step| !step.is_gathered) {
        if let Op::AppendEvent(event) = &step.op {
            step.wakes = next != Some(&event.subject);
            next = Some(&event.subject);
        }
    }
}

impl Step {
    /// With the message that was last added before it, and its text: what the log says of it need not be made anew.
    fn new(op: Op, said: Option<(&Packed<Message>, &str)>) -> Result<Self, StoreError> {
        let mut more = None;
        let text = match &op {
            Op::CreateTask(task) | Op::UpdateTask(task) => {
                task.status.as_ref().map(to_text).transpose()?
            }
            Op::AddMessage { message, .. } | Op::ReplaceMessage { message, .. } => {
                Some(message_text(message)?)
            }
            Op::PutArtifact { artifact, .. } => Some(to_text(artifact)?),
            Op::CreateStream(stream) | Op::UpdateStream(stream) => {
                Some(to_text(&stream.participants)?)
            }
            Op::AppendEvent(event) => Some(event_text(&event.body, said)?),
            Op::PutPush(push) => Some(to_text(&push.events)?),
            Op::CreateSubscription(subscription) | Op::UpdateSubscription(subscription) => {
                more = subscription.allowed.as_ref().map(to_text).transpose()?;
                Some(to_text(&subscription.patterns)?)
            }
            Op::Claim(_)
            | Op::NoteQuestion { .. }
            | Op::PutBlob { .. }
            | Op::QueueWork { .. }
            | Op::EndWork(_)
            | Op::Enqueue(_)
            | Op::Publish { .. }
            | Op::RemovePush { .. }
            | Op::RemoveSubscription(_) => None,
        };
        Ok(Self {
            op,
            subject: None,
            text,
            more,
            wakes: true,
            begins: false,
            first: First::default(),
            is_gathered: false,
        })
    }

    /// Spells the key of its subject, if it is one that needs it.
    fn address(&mut self) {
        let subject = match &self.op {
            Op::AppendEvent(event) if !self.is_gathered => Some(&event.subject),
            Op::PutBlob { subject, .. } => Some(subject),
            Op::Enqueue(entry) => entry.subject.as_ref(),
            Op::Publish { signal, .. } => match &signal.body {
                SignalBody::Event(subject, _) => Some(subject),
                SignalBody::Sent(_) => None,
            },
            _ => None,
        };
        self.subject = subject.map(Subject::key);
    }

    /// A message that it adds, and its text.
    fn said(&self) -> Option<(&Packed<Message>, &str)> {
        match (&self.op, &self.text) {
            (Op::AddMessage { message, .. }, Some(text)) => Some((message, text)),
            _ => None,
        }
    }

    fn weight(&self) -> usize {
        /// What a row costs besides its body.
        const ROW: usize = 200;
        let body = match &self.op {
            Op::PutBlob { blob, .. } => blob.bytes.len(),
            Op::Enqueue(entry) => entry.payload.as_str().len(),
            Op::Publish { signal, to } => match &signal.body {
                SignalBody::Sent(json) => json.as_str().len() + ROW * to.len(),
                SignalBody::Event(..) => ROW * to.len(),
            },
            _ => 0,
        };
        ROW + body + self.text.as_ref().map_or(0, String::len) + self.first.weight()
    }
}

/// The lease counts until somebody else has the task: a claim is compared by its number, never by
/// the clock.
fn check_fence(session: &Session<'_>, fence: &Fence) -> Outcome<()> {
    let sql = "SELECT 1 FROM tasks WHERE id = ?1 AND work_node = ?2 AND work_claim = ?3";
    let values = params![fence.task_id.as_str(), fence.node, column(fence.claim)];
    match session.first(sql, values, |_| Ok(()))? {
        Some(()) => Ok(()),
        None => Err(StoreError::Fenced.into()),
    }
}

fn epoch(session: &mut Session<'_>) -> Outcome<i64> {
    if let Some(epoch) = session.counters.epoch {
        return Ok(epoch);
    }
    let sql = "SELECT value FROM meta WHERE name = 'epoch'";
    let epoch = session.first(sql, [], |row| Ok(row.get(0)?))?;
    let epoch = epoch.unwrap_or(0);
    session.counters.epoch = Some(epoch);
    Ok(epoch)
}
