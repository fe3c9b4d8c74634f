//! Messages to existing tasks.

use super::adopt_message;
use super::idempotency::{IdempotencyKey, KeyedResult};
use crate::access::Caller;
use crate::error::HubError;
use crate::hub::Hub;
use crate::hub::task_change::TaskChange;
use crate::limits::Limits;
use crate::ports::StoreError;
use crate::task::Task;
use interzone_protocol::vocab::{ContextId, Message, TaskId, TaskState};

/// A message to add to a task.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// The task.
    pub task_id: TaskId,
    /// The conversation that the caller takes the task to belong to, if it named one.
    pub context_id: Option<ContextId>,
    /// The message.
    pub message: Message,
    /// Makes repetitions of this call have no effect.
    pub idempotency_key: Option<IdempotencyKey>,
    /// What to do if the task does not wait for input.
    pub busy: BusyPolicy,
}

impl NewMessage {
    /// A message for a task, queued if the task is being worked on.
    pub const fn new(task_id: TaskId, message: Message) -> Self {
        Self {
            task_id,
            context_id: None,
            message,
            idempotency_key: None,
            busy: BusyPolicy::Queue,
        }
    }
}

/// Rule for a message to a task that does not wait for input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BusyPolicy {
    /// The message begins the next turn. The current one is not disturbed.
    #[default]
    Queue,
    /// The message is refused ([`HubError::IllegalTransition`]).
    Refuse,
}

/// A message that was added to a task.
#[derive(Clone, Debug, PartialEq)]
pub struct SentMessage {
    /// The task.
    pub task: Task,
    /// Index of the message in the task's history. A repetition gets that of the first call.
    pub index: u32,
    /// True if an earlier call with the same idempotency key added it.
    pub is_repetition: bool,
}

impl Hub {
    /// Adds a message to a task and queues it if the task is being worked on: [`Hub::send`] with the defaults.
    ///
    /// # Errors
    /// See [`Hub::send`].
    pub async fn send_message(
        &self,
        caller: &Caller,
        id: &TaskId,
        message: Message,
    ) -> Result<Task, HubError> {
        let new = NewMessage::new(id.clone(), message);
        Ok(self.send(caller, new).await?.task)
    }

    /// Answers a task that requires input, and only such a task: of several concurrent answers, one succeeds. A
    /// repetition with the same idempotency key has no effect.
    ///
    /// # Errors
    /// See [`Hub::send`].
    pub async fn answer_input(
        &self,
        caller: &Caller,
        id: &TaskId,
        message: Message,
        idempotency_key: Option<IdempotencyKey>,
    ) -> Result<Task, HubError> {
        let new = NewMessage {
            idempotency_key,
            busy: BusyPolicy::Refuse,
            ..NewMessage::new(id.clone(), message)
        };
        Ok(self.send(caller, new).await?.task)
    }

    /// Adds a message to a task. A task that waits for input continues with it. Of a task that is being worked on, or
    /// is about to be, it begins the next turn: if the current one ends with an answer or a question, the task stays
    /// `Working` and goes on; if it fails or is rejected or canceled, the task ends.
    ///
    /// # Errors
    /// The task is not the caller's, belongs to another context, is finished or has too many messages; it requires no
    /// input, with [`BusyPolicy::Refuse`]; or the idempotency key was used for another call.
    pub async fn send(&self, caller: &Caller, new: NewMessage) -> Result<SentMessage, HubError> {
        let NewMessage {
            task_id: id,
            context_id,
            message,
            idempotency_key,
            busy,
        } = new;
        let limits = &self.inner.limits;
        limits.check_message(&message)?;
        let decide = |change: &mut TaskChange| {
            if context_id
                .as_ref()
                .is_some_and(|context| *context != change.task.context_id)
            {
                return Err(HubError::ContextMismatch(id.clone()));
            }
            let state = change.task.state;
            if state.is_terminal() {
                return Err(HubError::TaskFinished {
                    id: id.clone(),
                    state,
                });
            }
            if busy == BusyPolicy::Refuse && !state.is_interrupted() {
                return Err(HubError::IllegalTransition {
                    from: state,
                    to: TaskState::Working,
                });
            }
            let index = change.task.message_count;
            let count = usize::try_from(index).unwrap_or(usize::MAX);
            Limits::check_count(
                "messages of a task",
                count.saturating_add(1),
                limits.messages,
            )?;
            if let Some(key) = &idempotency_key {
                let agent = &change.task.agent;
                let claim = self.claim_op(caller, agent, key, (&id, Some(index)), change.at)?;
                change.push_op(claim);
            }
            let message = adopt_message(caller, &change.task.agent, message.clone());
            change.add_message(message);
            if state.is_interrupted() {
                change.transition(TaskState::Working, None)?;
                change.enqueue_work(self);
            }
            Ok(index)
        };
        let error = match self.change_task(Some(caller), &id, None, decide).await {
            Ok((task, index)) => {
                return Ok(SentMessage {
                    task,
                    index,
                    is_repetition: false,
                });
            }
            Err(error) => error,
        };
        let Some(key) = &idempotency_key else {
            return Err(error);
        };
        let first = match &error {
            HubError::Store(StoreError::KeyTaken { value, .. }) => {
                Some(KeyedResult::parse(value, key)?)
            }
            // The task may be in this state because this message was added before.
            HubError::TaskFinished { .. }
            | HubError::IllegalTransition { .. }
            | HubError::TooMany { .. } => {
                let agent = self.task(caller, &id).await?.agent;
                self.find_keyed_result(caller, &agent, key).await?
            }
            _ => None,
        };
        let first = first.ok_or(error)?;
        Ok(SentMessage {
            task: self.task(caller, &first.task).await?,
            index: first.message.unwrap_or(0),
            is_repetition: true,
        })
    }
}
