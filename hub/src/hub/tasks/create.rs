//! Task creation: queued, dispatched to a free run slot, or with an inline answer of the agent.

use super::idempotency::{IdempotencyKey, KeyedResult};
use super::{adopt_message, internal_id};
use crate::access::Caller;
use crate::error::HubError;
use crate::event::EventBody;
use crate::hub::run::Dispatch;
use crate::hub::task_change::{AnswerFlags, TaskChange};
use crate::hub::{Hub, NewTask, Watch, map_conflict};
use crate::limits::Limits;
use crate::offload::has_fetch_url;
use crate::ports::{Op, StoreError};
use crate::task::{SnapshotRendering, Task, TaskSnapshot};
use interzone_protocol::vocab::{ContextId, Message, TaskState};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Maximum length of a context id that a caller chooses, in characters.
const MAX_CONTEXT_ID_CHARS: usize = 128;

/// A task to create, or the one that the same call created before.
enum NewOrExisting {
    New(Box<TaskChange>),
    Existing(Box<Task>),
}

/// A task that was created for a waiting caller.
pub struct StartedTask {
    /// The task.
    pub task: Task,
    /// Watch of its events, if it was created by this call and is not finished.
    pub watch: Option<Watch>,
    /// Snapshot of the task, if it was created by this call and answered inline.
    pub answered: Option<TaskSnapshot>,
}

impl Hub {
    /// Creates a task. It is durable and queued when this returns.
    ///
    /// # Errors
    /// A limit is exceeded, or no agent is available. With [`NewTask::idempotency_key`], a repetition is no error: it
    /// returns the task of the first call.
    pub async fn create_task(&self, caller: &Caller, new: NewTask) -> Result<Task, HubError> {
        let start_now = new.start_now;
        let key = new.idempotency_key.clone();
        let mut change = match self.new_task_or_existing(caller, new).await? {
            NewOrExisting::New(change) => *change,
            NewOrExisting::Existing(task) => return Ok(*task),
        };
        change.enqueue_work(self);
        let slot = match start_now {
            true => self.acquire_slot(&change.task),
            false => None,
        };
        let result = match slot {
            Some(slot) => self.create_and_claim(slot, change).await,
            None => change.commit(self, None).await,
        };
        self.resolve_duplicate(caller, key.as_ref(), result).await
    }

    /// Like [`Self::create_task`], for a caller that waits for the outcome. An inline answer of the agent is written
    /// with the task in one commit: neither is published before both are durable.
    ///
    /// # Errors
    /// See [`Hub::create_task`].
    pub async fn create_and_start(
        &self,
        caller: &Caller,
        new: NewTask,
    ) -> Result<StartedTask, HubError> {
        let (start_now, allow_inline_answer) = (new.start_now, new.allow_inline_answer);
        let key = new.idempotency_key.clone();
        let mut change = match self.new_task_or_existing(caller, new).await? {
            NewOrExisting::New(change) => *change,
            NewOrExisting::Existing(task) => {
                return Ok(StartedTask {
                    task: *task,
                    watch: None,
                    answered: None,
                });
            }
        };
        let mut slot = match start_now || allow_inline_answer {
            true => self.acquire_slot(&change.task),
            false => None,
        };
        if let Some(free_slot) = slot.take_if(|_| allow_inline_answer) {
            match self.apply_inline_answer(&mut change)? {
                Some(label) => {
                    let started = self.commit_answered(caller, key.as_ref(), change).await?;
                    // A repetition releases the slot, and counts as no run.
                    if started.answered.is_some() {
                        (free_slot.dispatch)(Dispatch::AnsweredInline(label));
                    }
                    return Ok(started);
                }
                None => slot = Some(free_slot),
            }
        }
        let id = change.task.id.clone();
        // Subscribe before the task is committed, so no event can be missed and nothing has to be replayed.
        let watch = self.watch_from_creation(id.clone());
        change.enqueue_work(self);
        let result = match slot {
            Some(slot) => self.create_and_claim(slot, change).await,
            None => change.commit(self, None).await,
        };
        let task = self.resolve_duplicate(caller, key.as_ref(), result).await?;
        Ok(StartedTask {
            watch: (task.id == id).then_some(watch),
            task,
            answered: None,
        })
    }

    async fn commit_answered(
        &self,
        caller: &Caller,
        key: Option<&IdempotencyKey>,
        change: TaskChange,
    ) -> Result<StartedTask, HubError> {
        let messages = change.new_messages();
        let result = change.commit(self, None).await;
        let answered = result.as_ref().ok().map(|task| TaskSnapshot {
            task: task.clone(),
            messages,
            artifacts: Vec::new(),
            rendering: SnapshotRendering::default(),
        });
        Ok(StartedTask {
            task: self.resolve_duplicate(caller, key, result).await?,
            watch: None,
            answered,
        })
    }

    /// Adds the agent's inline answer to a new task, with everything that a turn would have written. Returns the
    /// label of the outcome, or `None` if the agent needs a turn.
    fn apply_inline_answer(
        &self,
        change: &mut TaskChange,
    ) -> Result<Option<&'static str>, HubError> {
        let Some(agent) = self.agents().get(&change.task.agent) else {
            return Ok(None);
        };
        // Content that has yet to be fetched requires a turn.
        let has_url = |message: &Message| message.parts().iter().any(has_fetch_url);
        let messages = change
            .restored_messages()
            .filter(|said| !said.iter().any(has_url));
        let Some((message, history)) = messages.as_deref().and_then(<[Message]>::split_last) else {
            return Ok(None);
        };
        // If it panics, it will do so again in its turn, where that is handled.
        let answer = catch_unwind(AssertUnwindSafe(|| agent.answer_inline(message, history)));
        let Ok(Some(outcome)) = answer else {
            return Ok(None);
        };
        let label = outcome.label();
        let flags = AnswerFlags {
            is_direct: outcome.is_direct(),
            is_streamed: false,
            answers: change.task.message_count.checked_sub(1),
        };
        let (to, response) = outcome.into_transition(&change.task.agent);
        let is_within_limits = |message: &Message| self.limits().check_message(message).is_ok();
        if !response.as_ref().is_none_or(is_within_limits) {
            return Ok(None);
        }
        change.transition(TaskState::Working, None)?;
        change.respond_and_transition(to, response, flags)?;
        Ok(Some(label))
    }

    /// Builds a new task. A task that an earlier call with the same idempotency key created does not need an available
    /// agent.
    async fn new_task_or_existing(
        &self,
        caller: &Caller,
        new: NewTask,
    ) -> Result<NewOrExisting, HubError> {
        let key = new.idempotency_key.clone();
        let route = key.is_some().then(|| new.route.clone());
        let error = match self.new_task_change(caller, new) {
            Ok(change) => return Ok(NewOrExisting::New(Box::new(change))),
            Err(error) => error,
        };
        let agent = route.and_then(|route| self.agents().select(&route).cloned());
        if let (HubError::AgentUnavailable, Some(key), Some(agent)) = (&error, &key, agent)
            && let Some(task) = self.find_by_idempotency_key(caller, &agent, key).await?
        {
            return Ok(NewOrExisting::Existing(Box::new(task)));
        }
        Err(error)
    }

    /// Builds a new task that is not queued yet.
    fn new_task_change(&self, caller: &Caller, new: NewTask) -> Result<TaskChange, HubError> {
        let limits = self.limits();
        limits.check_message(&new.message)?;
        let messages = new.history.len().saturating_add(1);
        Limits::check_count("messages of a task", messages, limits.messages)?;
        for message in &new.history {
            limits.check_message(message)?;
        }
        limits.check_metadata(new.metadata.as_ref())?;
        Limits::check_count(
            "subscriptions of a task",
            new.push_subscriptions.len(),
            limits.push_subscriptions,
        )?;
        let agent = self.agents().route(&new.route)?;
        let now = self.now();
        let id = match new.id {
            Some(id) => id,
            None => self.new_task_id()?,
        };
        let context_id = match new.context_id {
            Some(context_id) if context_id.as_str().chars().count() > MAX_CONTEXT_ID_CHARS => {
                return Err(HubError::Invalid {
                    field: "context_id",
                    reason: "a context id has at most 128 characters; give a shorter one, or none",
                });
            }
            Some(context_id) => context_id,
            // A context that starts with a task has that task's id, which costs the stores nothing.
            None => internal_id(ContextId::new(id.as_str()))?,
        };
        let mut change = TaskChange::create(
            Task {
                id: id.clone(),
                context_id,
                owner: caller.principal.clone(),
                agent,
                state: TaskState::Submitted,
                priority: new.priority,
                metadata: new.metadata,
                status_message: None,
                created_at: now,
                status_at: now,
                updated_at: now,
                finished_at: None,
                revision: 0,
                seq: 0,
                generation: 0,
                is_direct: false,
                message_count: 0,
                artifact_count: 0,
                push_count: 0,
            },
            now,
        );
        if let Some(key) = &new.idempotency_key {
            let agent = &change.task.agent;
            let claim = self.claim_op(caller, agent, key, (&id, None), now)?;
            change.push_op(claim);
        }
        if let Some(origin) = new.thread_origin {
            change.push_op(Op::RecordThread {
                task_id: id,
                origin: Box::new(origin),
            });
        }
        for message in new.history {
            change.append_message(message);
        }
        let message = adopt_message(caller, &change.task.agent, new.message);
        let (_, message) = change.append_message(message);
        change.push_event(EventBody::Created { message });
        for push in new.push_subscriptions {
            self.attach_push_subscription(caller, &mut change, push)?;
        }
        Ok(change)
    }

    /// Returns the created task, or the one that the same call created before.
    async fn resolve_duplicate(
        &self,
        caller: &Caller,
        key: Option<&IdempotencyKey>,
        result: Result<Task, StoreError>,
    ) -> Result<Task, HubError> {
        match (result, key) {
            (Ok(task), _) => Ok(task),
            (Err(StoreError::KeyTaken { value, .. }), Some(key)) => {
                let first = KeyedResult::parse(&value, key)?;
                self.task(caller, &first.task).await
            }
            (Err(error), _) => Err(map_conflict(error)),
        }
    }
}
