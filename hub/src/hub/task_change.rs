//! Unit of work for one task: the new state of the task and everything written with it.

use super::{Emission, Hub, map_conflict};
use crate::access::Caller;
use crate::error::HubError;
use crate::event::{EventBody, Subject};
use crate::offload::{Blob, BlobId, FETCH_URL_FIELD, HasParts, Offloaded};
use crate::ports::{EventRow, Fence, Op, StoreError, WorkClaim, WorkItem};
use crate::task::{PushSubscription, Task};
use crate::transitions::check_task_transition;
use interzone_protocol::vocab::{Artifact, Message, TaskId, TaskState, Timestamp, VerbatimJson};
use std::collections::HashMap;
use std::sync::Arc;

mod push_entries;
mod task_signals;

use push_entries::{PushedEvent, new_push_subscriptions, push_outbox_entry};
pub(super) use task_signals::TaskSignals;

/// A pending change of a task with its operations and events, committed with optimistic concurrency.
pub(super) struct TaskChange {
    pub(super) task: Task,
    pub(super) at: Timestamp,
    /// Clock time, for entries that must be due at once even if the task's last change is later.
    now: Timestamp,
    ops: Vec<Op>,
    events: Vec<PendingEvent>,
    is_new: bool,
    /// True if no message can have a fetch URL.
    skip_url_redaction: bool,
}

/// An event to append.
struct PendingEvent {
    body: EventBody,
    /// True if it gets a [generation](crate::Event::generation).
    has_generation: bool,
}

/// How the message that ends a turn is logged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AnswerFlags {
    /// The message is the complete answer to the first message of the task.
    pub(super) is_direct: bool,
    /// The events of the run have already reported the text of the message.
    pub(super) is_streamed: bool,
    /// Index of the message that began the turn.
    pub(super) answers: Option<u32>,
}

impl TaskChange {
    /// Creates a new task.
    pub(super) fn create(task: Task, at: Timestamp) -> Self {
        Self::create_with_time(task, at, at)
    }

    /// Creates a new task with a timestamp that may differ from the clock.
    pub(super) fn create_with_time(task: Task, at: Timestamp, now: Timestamp) -> Self {
        Self {
            task,
            at,
            now,
            ops: Vec::new(),
            events: Vec::new(),
            is_new: true,
            skip_url_redaction: false,
        }
    }

    /// Changes a stored task.
    pub(super) fn update(task: Task, now: Timestamp) -> Self {
        // A clock that was set back must not make the task look older than it is.
        let at = now.max(task.updated_at);
        Self {
            task,
            at,
            now,
            ops: Vec::new(),
            events: Vec::new(),
            is_new: false,
            skip_url_redaction: false,
        }
    }

    pub(super) fn subject(&self) -> Subject {
        Subject::Task(self.task.id.clone())
    }

    pub(super) fn push_op(&mut self, op: Op) {
        self.ops.push(op);
    }

    /// Adds an event. All but messages have a generation; see [`Self::add_answer`].
    pub(super) fn push_event(&mut self, body: EventBody) {
        let has_generation = !matches!(body, EventBody::Message { .. });
        self.events.push(PendingEvent {
            body,
            has_generation,
        });
    }

    /// Moves the task to a state, with an optional status message.
    pub(super) fn transition(
        &mut self,
        to: TaskState,
        status: Option<Message>,
    ) -> Result<(), HubError> {
        let from = self.task.state;
        check_task_transition(from, to)?;
        let message = status.map(|message| self.offload(message));
        self.task.state = to;
        self.task.status_at = self.at;
        self.task.status_message.clone_from(&message);
        self.task.finished_at = to.is_terminal().then_some(self.at);
        self.push_event(EventBody::State { from, to, message });
        Ok(())
    }

    /// Appends a message to the task's history and returns its index and the copy for the event.
    pub(super) fn append_message(&mut self, message: Message) -> (u32, Offloaded<Message>) {
        let message = match message.timestamp() {
            Some(_) => message,
            None => message.with_timestamp(self.at),
        };
        let message = self.offload(message);
        let index = self.task.message_count;
        self.task.message_count += 1;
        let task_id = self.task.id.clone();
        self.push_op(Op::AddMessage {
            task_id,
            index,
            message: message.clone(),
        });
        (index, message.without_field(FETCH_URL_FIELD))
    }

    /// Adds an optional message of the agent and moves the task to the resulting state.
    pub(super) fn respond_and_transition(
        &mut self,
        to: TaskState,
        message: Option<Message>,
        flags: AnswerFlags,
    ) -> Result<(), HubError> {
        match message.clone() {
            Some(message) if to == TaskState::Completed => {
                self.task.is_direct = flags.is_direct;
                self.add_answer(message, flags);
            }
            // The event of the new state reports it.
            Some(message) => self.add_message(message),
            None => {}
        }
        // A question is also the status message; an answer is in the history only.
        self.transition(to, message.filter(|_| to != TaskState::Completed))
    }

    /// Messages added by this change.
    pub(super) fn new_messages(&self) -> Vec<Offloaded<Message>> {
        let messages = self.ops.iter().filter_map(|op| match op {
            Op::AddMessage { message, .. } => Some(message.clone()),
            _ => None,
        });
        messages.collect()
    }

    /// Messages added by this change, with restored contents: these are shared with the blobs about to be stored.
    pub(super) fn restored_messages(&self) -> Option<Vec<Message>> {
        let messages = self.ops.iter().filter_map(|op| match op {
            Op::AddMessage { message, .. } => Some(message),
            _ => None,
        });
        messages
            .map(|message| {
                let blobs = message.blob_ids().map(|id| Some((id, self.blob(&id)?)));
                let blobs: HashMap<_, _> = blobs.collect::<Option<_>>()?;
                Some(message.clone().restore(&blobs))
            })
            .collect()
    }

    /// Content of a blob about to be stored.
    fn blob(&self, id: &BlobId) -> Option<VerbatimJson> {
        self.ops.iter().find_map(|op| match op {
            Op::PutBlob { blob, .. } if blob.id == *id => blob.bytes.clone().into_json(),
            _ => None,
        })
    }

    /// Replaces a stored message. No event is emitted; the event log keeps the original.
    pub(super) fn replace_message(&mut self, index: u32, message: Message) {
        let message = self.offload(message);
        let task_id = self.task.id.clone();
        self.push_op(Op::ReplaceMessage {
            task_id,
            index,
            message,
        });
    }

    /// Returns true if there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.ops.is_empty() && self.events.is_empty()
    }

    /// Skips the removal of fetch URLs at the end of the task, because there are none.
    pub(super) fn skip_url_redaction(&mut self) {
        self.skip_url_redaction = true;
    }

    /// Adds a message to the task's history, with an event.
    pub(super) fn add_message(&mut self, message: Message) {
        let (index, message) = self.append_message(message);
        self.push_event(EventBody::Message {
            index,
            message,
            direct: false,
        });
    }

    /// Adds the agent's answer of a turn to the task's history, with an event.
    pub(super) fn add_answer(&mut self, message: Message, flags: AnswerFlags) {
        let message = message.with_answers(flags.answers);
        let (index, message) = self.append_message(message);
        self.events.push(PendingEvent {
            body: EventBody::Message {
                index,
                message,
                direct: flags.is_direct,
            },
            has_generation: !flags.is_streamed,
        });
    }

    /// Stores a complete artifact, with an event.
    pub(super) fn put_complete_artifact(
        &mut self,
        artifact: Offloaded<Artifact>,
        blobs: Vec<Blob>,
        last: bool,
    ) {
        self.put_blobs(blobs);
        self.push_op(Op::PutArtifact {
            task_id: self.task.id.clone(),
            artifact_id: artifact.inline().artifact_id().clone(),
            artifact: artifact.clone(),
        });
        self.push_event(EventBody::Artifact {
            artifact,
            append: false,
            last,
        });
    }

    /// Stores a complete artifact, with an event that contains only the added parts.
    pub(super) fn put_artifact(&mut self, complete: Artifact, added: Artifact, last: bool) {
        let artifact_id = complete.artifact_id().clone();
        let task_id = self.task.id.clone();
        let artifact = self.offload(complete);
        self.push_op(Op::PutArtifact {
            task_id,
            artifact_id,
            artifact,
        });
        let artifact = self.offload(added);
        self.push_event(EventBody::Artifact {
            artifact,
            append: true,
            last,
        });
    }

    /// Enqueues the task in the work queue.
    pub(super) fn enqueue_work(&mut self, hub: &Hub) {
        self.push_op(Op::EnqueueWork {
            task_id: self.task.id.clone(),
            agent: self.task.agent.clone(),
            owner: hub.work_owner(&self.task),
            priority: self.task.priority,
            due_at: self.now,
        });
    }

    fn offload<T: HasParts>(&mut self, value: T) -> Offloaded<T> {
        let (offloaded, blobs) = Offloaded::offload(value);
        self.put_blobs(blobs);
        offloaded
    }

    fn put_blobs(&mut self, blobs: Vec<Blob>) {
        let subject = self.subject();
        self.ops.extend(blobs.into_iter().map(|blob| Op::PutBlob {
            subject: subject.clone(),
            blob,
        }));
    }

    /// Commits the change. [`StoreError::Conflict`] means that the task has changed in the meantime; read it and decide
    /// again.
    pub(super) async fn commit(self, hub: &Hub, fence: Option<Fence>) -> Result<Task, StoreError> {
        let (task, _) = self.commit_and_claim(hub, fence, None).await?;
        Ok(task)
    }

    /// Like [`Self::commit`], and claims work in the same commit.
    pub(super) async fn commit_and_claim(
        mut self,
        hub: &Hub,
        fence: Option<Fence>,
        claim: Option<&WorkClaim>,
    ) -> Result<(Task, Vec<WorkItem>), StoreError> {
        if self.task.state.is_terminal() && !self.is_new && !self.skip_url_redaction {
            self.strip_fetch_urls(hub).await?;
        }
        let push_subscriptions = if self.task.push_count > 0 && !self.is_new {
            hub.store().push_subscriptions(&self.task.id).await?
        } else {
            new_push_subscriptions(&self.ops)
        };
        let at = self.at;
        let (task, ops, signals) = self.finish(hub, &push_subscriptions);
        let result = hub.commit_and_claim(at, fence, ops, signals, claim).await?;
        Ok((task, result.claimed))
    }

    /// Returns the parts of a new task for a commit that contains more than the task.
    pub(super) fn finish_new(self, hub: &Hub) -> (Task, Vec<Op>, Vec<Emission>) {
        let pushes = new_push_subscriptions(&self.ops);
        self.finish(hub, &pushes)
    }

    /// Returns the task as it is to be stored, the operations and the signals.
    fn finish(
        self,
        hub: &Hub,
        push_subscriptions: &[PushSubscription],
    ) -> (Task, Vec<Op>, Vec<Emission>) {
        let subject = self.subject();
        let Self {
            mut task,
            at,
            now,
            ops: mut all_ops,
            events,
            is_new,
            skip_url_redaction: _,
        } = self;
        task.updated_at = at;
        task.revision += 1;
        let first_seq = task.seq + 1;
        task.seq += u64::try_from(events.len()).unwrap_or(u64::MAX);
        let mut last_generation = task.generation;
        let generations = events.iter().filter(|event| event.has_generation).count();
        task.generation += u64::try_from(generations).unwrap_or(u64::MAX);
        let stored = Arc::new(task.clone());
        // Operations that may fail come first: idempotency keys, then the task itself.
        all_ops.sort_by_key(|op| !matches!(op, Op::ClaimKey(_)));
        let claim_count = all_ops
            .iter()
            .take_while(|op| matches!(op, Op::ClaimKey(_)))
            .count();
        let task_op = if is_new {
            Op::CreateTask(stored)
        } else {
            Op::UpdateTask(stored)
        };
        all_ops.insert(claim_count, task_op);
        let signals = vec![Emission::TaskEvents(TaskSignals {
            subject: subject.clone(),
            owner: task.owner.clone(),
            at,
            first_seq,
            event_names: events.iter().map(|event| event.body.name()).collect(),
        })];
        for (seq, event) in (first_seq..).zip(events) {
            let PendingEvent {
                body,
                has_generation,
            } = event;
            let generation = has_generation.then(|| {
                last_generation += 1;
                last_generation
            });
            for push in push_subscriptions
                .iter()
                .filter(|push| push.wants_event(&body))
            {
                let event = PushedEvent {
                    seq,
                    generation,
                    body: &body,
                };
                let entry = push_outbox_entry(hub, push, &task, event, (at, now));
                all_ops.extend(entry.map(|entry| Op::EnqueueOutbox(Box::new(entry))));
            }
            all_ops.push(Op::AppendEvent(EventRow {
                subject: subject.clone(),
                seq,
                generation,
                body,
            }));
        }
        (task, all_ops, signals)
    }
}

impl Hub {
    /// Decides about a task and commits the change; repeats this from the start on write conflicts. `decide` gets the
    /// task as it is stored at that time. Without a caller the holder of the task's claim decides.
    pub(super) async fn change_task<T>(
        &self,
        caller: Option<&Caller>,
        id: &TaskId,
        fence: Option<Fence>,
        decide: impl Fn(&mut TaskChange) -> Result<T, HubError>,
    ) -> Result<(Task, T), HubError> {
        self.change_cached_task(None, caller, id, fence, decide)
            .await
    }

    /// Like [`Self::change_task`], but the first attempt uses `cached` instead of reading the task. If that is out of
    /// date, nothing is written, and the next attempt reads the task.
    pub(super) async fn change_cached_task<T>(
        &self,
        mut cached: Option<Task>,
        caller: Option<&Caller>,
        id: &TaskId,
        fence: Option<Fence>,
        decide: impl Fn(&mut TaskChange) -> Result<T, HubError>,
    ) -> Result<(Task, T), HubError> {
        for _ in 0..super::MAX_CAS_RETRIES {
            let task = match cached.take() {
                Some(cached) => cached,
                None => self.read_task(caller, id).await?,
            };
            let mut change = TaskChange::update(task, self.now());
            let outcome = decide(&mut change)?;
            if change.is_empty() {
                return Ok((change.task, outcome));
            }
            match change.commit(self, fence.clone()).await {
                Ok(task) => return Ok((task, outcome)),
                Err(StoreError::Conflict) => {}
                Err(error) => return Err(map_conflict(error)),
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
