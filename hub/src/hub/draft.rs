//! A decision about a task while it is being made: what the task becomes, and all that goes with it.

use super::{Emitted, Hub, contended};
use crate::access::Caller;
use crate::error::HubError;
use crate::event::{EventBody, Subject};
use crate::packed::{Blob, BlobId, FETCH, HasParts, Packed};
use crate::ports::{EventRow, Fence, Op, StoreError, WorkClaim, WorkItem};
use crate::task::{Push, Task};
use crate::transitions::move_task;
use interzone_protocol::vocab::{Artifact, Json, Message, TaskId, TaskState, Timestamp};
use std::collections::HashMap;
use std::sync::Arc;

mod heard;
mod push;

pub(super) use heard::TaskEvents;
use push::{new_pushes, push_entry};

/// A task as it will be, and what is written along with it.
pub(super) struct Draft {
    pub(super) task: Task,
    pub(super) at: Timestamp,
    /// What the clock says, for what must be due at once whatever the task's last change was.
    now: Timestamp,
    ops: Vec<Op>,
    events: Vec<EventBody>,
    is_new: bool,
    /// Whether it is known that no message has an address to fetch from.
    no_address: bool,
}

impl Draft {
    /// A new task, of which nothing is stored yet.
    pub(super) fn create(task: Task, at: Timestamp) -> Self {
        Self::create_at(task, at, at)
    }

    /// The same, written at a moment that need not be the clock's.
    pub(super) fn create_at(task: Task, at: Timestamp, now: Timestamp) -> Self {
        Self {
            task,
            at,
            now,
            ops: Vec::new(),
            events: Vec::new(),
            is_new: true,
            no_address: false,
        }
    }

    /// A change of a stored task.
    pub(super) fn change(task: Task, now: Timestamp) -> Self {
        // A clock that was set back must not make the task look older than it was.
        let at = now.max(task.updated_at);
        Self {
            task,
            at,
            now,
            ops: Vec::new(),
            events: Vec::new(),
            is_new: false,
            no_address: false,
        }
    }

    pub(super) fn subject(&self) -> Subject {
        Subject::Task(self.task.id.clone())
    }

    pub(super) fn op(&mut self, op: Op) {
        self.ops.push(op);
    }

    pub(super) fn event(&mut self, body: EventBody) {
        self.events.push(body);
    }

    /// Moves the task to a state, with what is said about it.
    pub(super) fn move_to(&mut self, to: TaskState, said: Option<Message>) -> Result<(), HubError> {
        let from = self.task.state;
        move_task(from, to)?;
        let message = said.map(|message| self.pack(message));
        self.task.state = to;
        self.task.status.clone_from(&message);
        self.task.finished_at = to.is_terminal().then_some(self.at);
        self.event(EventBody::State { from, to, message });
        Ok(())
    }

    /// Adds a message to the task's history, and gives it for the event.
    pub(super) fn keep_message(&mut self, message: Message) -> (u32, Packed<Message>) {
        let message = match message.timestamp() {
            Some(_) => message,
            None => message.with_timestamp(self.at),
        };
        let message = self.pack(message);
        let index = self.task.messages;
        self.task.messages += 1;
        let task_id = self.task.id.clone();
        self.op(Op::AddMessage {
            task_id,
            index,
            message: message.clone(),
        });
        (index, message.without_member(FETCH))
    }

    /// Says something, and moves the task to the state that it means.
    pub(super) fn say_and_move(
        &mut self,
        to: TaskState,
        said: Option<Message>,
    ) -> Result<(), HubError> {
        if let Some(message) = said.clone() {
            self.add_message(message);
        }
        // A question is also what the state says; an answer is in the history alone.
        self.move_to(to, said.filter(|_| to != TaskState::Completed))
    }

    /// All messages that are added.
    pub(super) fn added(&self) -> Vec<Packed<Message>> {
        let added = self.ops.iter().filter_map(|op| match op {
            Op::AddMessage { message, .. } => Some(message.clone()),
            _ => None,
        });
        added.collect()
    }

    /// All messages that are added, whole: what is large in them is on its way into the store, and shared
    /// with it.
    pub(super) fn said(&self) -> Option<Vec<Message>> {
        let added = self.ops.iter().filter_map(|op| match op {
            Op::AddMessage { message, .. } => Some(message),
            _ => None,
        });
        added
            .map(|message| {
                let blobs = message.blob_ids().map(|id| Some((id, self.blob(&id)?)));
                let blobs: HashMap<_, _> = blobs.collect::<Option<_>>()?;
                Some(message.clone().unpack(&blobs))
            })
            .collect()
    }

    /// A content that is on its way into the store.
    fn blob(&self, id: &BlobId) -> Option<Json> {
        self.ops.iter().find_map(|op| match op {
            Op::PutBlob { blob, .. } if blob.id == *id => blob.bytes.clone().into_json(),
            _ => None,
        })
    }

    /// Puts a message in the place of another. The log is not told: what was said stays said.
    pub(super) fn replace_message(&mut self, index: u32, message: Message) {
        let message = self.pack(message);
        let task_id = self.task.id.clone();
        self.op(Op::ReplaceMessage {
            task_id,
            index,
            message,
        });
    }

    /// Whether nothing would be written.
    pub(super) fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.events.is_empty()
    }

    /// Says that nothing has to be forgotten when the task ends.
    pub(super) fn has_no_address(&mut self) {
        self.no_address = true;
    }

    /// Adds a message to the task's history, and says so in the log.
    pub(super) fn add_message(&mut self, message: Message) {
        let (index, message) = self.keep_message(message);
        self.event(EventBody::Message { index, message });
    }

    /// Keeps an artifact that is whole, and says so in the log.
    pub(super) fn put_whole_artifact(
        &mut self,
        artifact: Packed<Artifact>,
        blobs: Vec<Blob>,
        last: bool,
    ) {
        self.keep_blobs(blobs);
        self.op(Op::PutArtifact {
            task_id: self.task.id.clone(),
            artifact_id: artifact.without_large().artifact_id().clone(),
            artifact: artifact.clone(),
        });
        self.event(EventBody::Artifact {
            artifact,
            append: false,
            last,
        });
    }

    /// Keeps an artifact whole, and says in the log what was added to it.
    pub(super) fn put_artifact(&mut self, whole: Artifact, added: Artifact, last: bool) {
        let artifact_id = whole.artifact_id().clone();
        let task_id = self.task.id.clone();
        let artifact = self.pack(whole);
        self.op(Op::PutArtifact {
            task_id,
            artifact_id,
            artifact,
        });
        let artifact = self.pack(added);
        self.event(EventBody::Artifact {
            artifact,
            append: true,
            last,
        });
    }

    /// Puts the task into the queue.
    pub(super) fn queue(&mut self, hub: &Hub) {
        self.op(Op::QueueWork {
            task_id: self.task.id.clone(),
            agent: self.task.agent.clone(),
            owner: hub.work_owner(&self.task),
            priority: self.task.priority,
            due_at: self.now,
        });
    }

    fn pack<T: HasParts>(&mut self, value: T) -> Packed<T> {
        let (packed, blobs) = Packed::pack(value);
        self.keep_blobs(blobs);
        packed
    }

    fn keep_blobs(&mut self, blobs: Vec<Blob>) {
        let subject = self.subject();
        self.ops.extend(blobs.into_iter().map(|blob| Op::PutBlob {
            subject: subject.clone(),
            blob,
        }));
    }

    /// Writes the decision. [`StoreError::Conflict`] means that the task has changed meanwhile, and
    /// that the decision must be made again.
    pub(super) async fn write(self, hub: &Hub, fence: Option<Fence>) -> Result<Task, StoreError> {
        let (task, _) = self.write_and_claim(hub, fence, None).await?;
        Ok(task)
    }

    /// The same, and claims in the same commit what is wanted.
    pub(super) async fn write_and_claim(
        mut self,
        hub: &Hub,
        fence: Option<Fence>,
        claim: Option<&WorkClaim>,
    ) -> Result<(Task, Vec<WorkItem>), StoreError> {
        if self.task.state.is_terminal() && !self.is_new && !self.no_address {
            self.forget_addresses(hub).await?;
        }
        let pushes = if self.task.pushes > 0 && !self.is_new {
            hub.store().pushes(&self.task.id).await?
        } else {
            new_pushes(&self.ops)
        };
        let at = self.at;
        let (task, ops, signals) = self.finish(hub, &pushes);
        let committed = hub.commit_and_claim(at, fence, ops, signals, claim).await?;
        Ok((task, committed.items))
    }

    /// What a new task is, for a commit that has more in it than the task.
    pub(super) fn finish_new(self, hub: &Hub) -> (Task, Vec<Op>, Vec<Emitted>) {
        let pushes = new_pushes(&self.ops);
        self.finish(hub, &pushes)
    }

    /// The task as it is to be stored, all that is written along with it, and who hears of it.
    fn finish(self, hub: &Hub, pushes: &[Push]) -> (Task, Vec<Op>, Vec<Emitted>) {
        let subject = self.subject();
        let Self {
            mut task,
            at,
            now,
            ops: mut extra,
            events,
            is_new,
            no_address: _,
        } = self;
        task.updated_at = at;
        task.revision += 1;
        let first = task.seq + 1;
        task.seq += u64::try_from(events.len()).unwrap_or(u64::MAX);
        let head = Arc::new(task.clone());
        // What may fail comes first: claims, then the task itself.
        extra.sort_by_key(|op| !matches!(op, Op::Claim(_)));
        let claims = extra
            .iter()
            .take_while(|op| matches!(op, Op::Claim(_)))
            .count();
        let head = if is_new {
            Op::CreateTask(head)
        } else {
            Op::UpdateTask(head)
        };
        extra.insert(claims, head);
        let signals = vec![Emitted::OfTask(TaskEvents {
            subject: subject.clone(),
            owner: task.owner.clone(),
            at,
            first,
            names: events.iter().map(EventBody::name).collect(),
        })];
        for (seq, body) in (first..).zip(events) {
            for push in pushes.iter().filter(|push| push.wants(&body)) {
                let entry = push_entry(hub, push, &task, seq, (at, now), &body);
                extra.extend(entry.map(|entry| Op::Enqueue(Box::new(entry))));
            }
            extra.push(Op::AppendEvent(EventRow {
                subject: subject.clone(),
                seq,
                body,
            }));
        }
        (task, extra, signals)
    }
}

impl Hub {
    /// Decides about a task and writes the decision, again from the beginning while others are
    /// faster. `decide` gets the task as it is stored at that moment. Without a caller it is the
    /// holder of the task's claim who decides.
    pub(super) async fn change_task<T>(
        &self,
        caller: Option<&Caller>,
        id: &TaskId,
        fence: Option<Fence>,
        decide: impl Fn(&mut Draft) -> Result<T, HubError>,
    ) -> Result<(Task, T), HubError> {
        self.change_task_from(None, caller, id, fence, decide).await
    }

    /// The same, where the first round need not read a task that is known. If it has changed since,
    /// nothing is written, and the next round reads it.
    pub(super) async fn change_task_from<T>(
        &self,
        mut known: Option<Task>,
        caller: Option<&Caller>,
        id: &TaskId,
        fence: Option<Fence>,
        decide: impl Fn(&mut Draft) -> Result<T, HubError>,
    ) -> Result<(Task, T), HubError> {
        for _ in 0..super::ROUNDS {
            let task = match known.take() {
                Some(known) => known,
                None => self.read_task(caller, id).await?,
            };
            let mut draft = Draft::change(task, self.now());
            let outcome = decide(&mut draft)?;
            if draft.is_empty() {
                return Ok((draft.task, outcome));
            }
            match draft.write(self, fence.clone()).await {
                Ok(task) => return Ok((task, outcome)),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(contended(error)),
            }
        }
        Err(HubError::Contended)
    }
}

impl Hub {
    async fn read_task(&self, caller: Option<&Caller>, id: &TaskId) -> Result<Task, HubError> {
        match caller {
            Some(caller) => self.task(caller, id).await,
            None => {
                let task = self.store().task(id).await?;
                task.ok_or_else(|| HubError::TaskNotFound(id.clone()))
            }
        }
    }
}
