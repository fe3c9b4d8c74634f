//! Tasks: create, send messages, read, list and cancel.

use super::Hub;
use super::task_change::TaskChange;
use crate::access::Caller;
use crate::error::HubError;
use crate::limits::Limits;
use crate::ports::ReadMemory;
use crate::ports::{IdempotencyClaim, Op, StoreError};
use crate::task::{Task, TaskCursor, TaskQuery};
use interzone_protocol::vocab::{Artifact, Message, Role, TaskId, TaskState, Timestamp};

mod create;
mod new_task;

pub use create::StartedTask;
pub use new_task::{IdempotencyKey, NewTask};

/// A task with its messages and artifacts.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskDetail {
    /// The task.
    pub task: Task,
    /// Message that accompanies its state.
    pub status_message: Option<Message>,
    /// Its messages, oldest first; only the latest if fewer were requested.
    pub messages: Vec<Message>,
    /// Its artifacts, oldest first.
    pub artifacts: Vec<Artifact>,
}

/// One page of a task list.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskPage {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// Start of the next page, if there may be one.
    pub next: Option<TaskCursor>,
}

impl Hub {
    /// Generates the id of a task about to be created, for callers that need it beforehand.
    ///
    /// # Errors
    /// The id source returned an invalid id.
    pub fn new_task_id(&self) -> Result<TaskId, HubError> {
        internal_id(TaskId::new(self.new_id(self.now())))
    }

    /// Returns a task without messages and artifacts.
    ///
    /// # Errors
    /// There is no task with this id that the caller may see.
    pub async fn task(&self, caller: &Caller, id: &TaskId) -> Result<Task, HubError> {
        let task = self.store().task(id).await?;
        caller.authorize_task(task.ok_or_else(|| HubError::TaskNotFound(id.clone()))?)
    }

    /// Returns a task with its latest messages, up to the given number, and with its artifacts if requested: a copy of
    /// [`Hub::task_view`].
    ///
    /// # Errors
    /// See [`Hub::task`].
    pub async fn task_detail(
        &self,
        caller: &Caller,
        id: &TaskId,
        latest_messages: usize,
        artifacts: bool,
    ) -> Result<TaskDetail, HubError> {
        self.task_detail_within(caller, id, latest_messages, artifacts, None)
            .await
    }

    /// Like [`Hub::task_detail`], with memory for large contents reserved before they are read.
    ///
    /// # Errors
    /// See [`Hub::task`]; or the memory budget is used up.
    pub async fn task_detail_within(
        &self,
        caller: &Caller,
        id: &TaskId,
        latest_messages: usize,
        artifacts: bool,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<TaskDetail, HubError> {
        let view = self.task_view_within(caller, id, latest_messages, artifacts, memory);
        Ok(view.await?.into_detail())
    }

    /// Lists tasks that the caller may see, page by page, last changed first.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn list_tasks(
        &self,
        caller: &Caller,
        query: TaskQuery,
    ) -> Result<TaskPage, HubError> {
        let limit = query.limit.clamp(1, self.inner.limits.page_size.max(1));
        let owner = caller.owner_filter().or(query.owner);
        let mut query = TaskQuery {
            owner,
            limit: limit + 1,
            ..query
        };
        query.states.dedup();
        let mut tasks = self.store().tasks(&query).await?;
        let has_more = tasks.len() > limit;
        tasks.truncate(limit);
        let last = tasks.last().filter(|_| has_more);
        let next = last.map(|task| TaskCursor {
            updated_at: task.updated_at,
            id: task.id.clone(),
        });
        Ok(TaskPage { tasks, next })
    }

    /// Counts the tasks that the query selects and the caller may see.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn count_tasks(&self, caller: &Caller, query: TaskQuery) -> Result<u64, HubError> {
        let owner = caller.owner_filter().or(query.owner);
        Ok(self
            .store()
            .count_tasks(&TaskQuery { owner, ..query })
            .await?)
    }

    /// Adds a message to a task. A task that waited for input continues; a running one processes the message after the
    /// current turn.
    ///
    /// # Errors
    /// The task is not the caller's, is finished, or has too many messages.
    pub async fn send_message(
        &self,
        caller: &Caller,
        id: &TaskId,
        message: Message,
    ) -> Result<Task, HubError> {
        self.add_message(caller, id, message, None, false).await
    }

    /// Answers a task that requires input, and only such a task: of several concurrent answers, one succeeds. A
    /// repetition with the same idempotency key has no effect.
    ///
    /// # Errors
    /// See [`Hub::send_message`]; or the task requires no input.
    pub async fn answer_input(
        &self,
        caller: &Caller,
        id: &TaskId,
        message: Message,
        idempotency_key: Option<IdempotencyKey>,
    ) -> Result<Task, HubError> {
        self.add_message(caller, id, message, idempotency_key, true)
            .await
    }

    async fn add_message(
        &self,
        caller: &Caller,
        id: &TaskId,
        message: Message,
        idempotency_key: Option<IdempotencyKey>,
        requires_interrupted: bool,
    ) -> Result<Task, HubError> {
        let limits = &self.inner.limits;
        limits.check_message(&message)?;
        reject_agent_role(&message)?;
        let decide = |change: &mut TaskChange| {
            if let Some(idempotency_key) = &idempotency_key {
                change.push_op(claim_op(caller, idempotency_key, id, change.at));
            }
            let state = change.task.state;
            if state.is_terminal() {
                return Err(HubError::TaskFinished {
                    id: id.clone(),
                    state,
                });
            }
            if requires_interrupted && !state.is_interrupted() {
                return Err(HubError::IllegalTransition {
                    from: state,
                    to: TaskState::Working,
                });
            }
            let count = usize::try_from(change.task.message_count).unwrap_or(usize::MAX);
            Limits::check_count(
                "messages of a task",
                count.saturating_add(1),
                limits.messages,
            )?;
            change.add_message(message.clone());
            if state.is_interrupted() {
                change.transition(TaskState::Working, None)?;
                change.enqueue_work(self);
            }
            Ok(())
        };
        match self.change_task(Some(caller), id, None, decide).await {
            Err(HubError::Store(StoreError::KeyTaken { .. })) => self.task(caller, id).await,
            // It may be finished, or no longer interrupted, because this message was added before.
            Err(error @ (HubError::TaskFinished { .. } | HubError::IllegalTransition { .. })) => {
                match &idempotency_key {
                    Some(idempotency_key) => self
                        .find_by_idempotency_key(caller, &idempotency_key.key)
                        .await?
                        .ok_or(error),
                    None => Err(error),
                }
            }
            result => Ok(result?.0),
        }
    }

    /// Returns the task that a call with this idempotency key created or added to, if there was such a call.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn find_by_idempotency_key(
        &self,
        caller: &Caller,
        key: &str,
    ) -> Result<Option<Task>, HubError> {
        let key = idempotency_storage_key(caller, key);
        let Some(id) = self.store().claimed_value(&key, self.now()).await? else {
            return Ok(None);
        };
        let task = self.task(caller, &internal_id(TaskId::new(id))?).await?;
        Ok(Some(task))
    }

    /// Cancels a task at once. Idempotent.
    ///
    /// # Errors
    /// The task is not the caller's, or has finished in another state.
    pub async fn cancel(
        &self,
        caller: &Caller,
        id: &TaskId,
        reason: Option<&str>,
    ) -> Result<Task, HubError> {
        self.inner.limits.check_reason(reason)?;
        let decide = |change: &mut TaskChange| {
            let state = change.task.state;
            if state == TaskState::Canceled {
                return Ok(());
            }
            if state.is_terminal() {
                return Err(HubError::TaskFinished {
                    id: id.clone(),
                    state,
                });
            }
            change.transition(TaskState::Canceled, reason.map(Message::user_text))?;
            change.push_op(Op::DequeueWork(id.clone()));
            Ok(())
        };
        Ok(self.change_task(Some(caller), id, None, decide).await?.0)
    }
}

/// Rejects messages with the agent role. Only runs write agent messages; a caller could otherwise forge them, and they
/// would never be answered.
pub(super) fn reject_agent_role(message: &Message) -> Result<(), HubError> {
    if message.role() == Role::Agent {
        let reason = "the agent role is reserved for agents; use user or system";
        return Err(HubError::Invalid {
            field: "role",
            reason,
        });
    }
    Ok(())
}

/// Storage key of an idempotency key. The length prefix makes keys of different callers distinct for any
/// content.
fn idempotency_storage_key(caller: &Caller, key: &str) -> String {
    format!(
        "once/{}/{}/{key}",
        caller.principal.as_str().len(),
        caller.principal
    )
}

/// Claims the idempotency key of a call for its task.
fn claim_op(caller: &Caller, idempotency_key: &IdempotencyKey, task: &TaskId, at: Timestamp) -> Op {
    Op::ClaimKey(IdempotencyClaim {
        key: idempotency_storage_key(caller, &idempotency_key.key),
        value: task.to_string(),
        expires_at: at.plus(idempotency_key.retention),
    })
}

/// Unwraps an id made by the hub, which only a broken id source can make invalid.
pub(super) fn internal_id<T, E>(id: Result<T, E>) -> Result<T, HubError> {
    id.map_err(|_| HubError::Invalid {
        field: "id",
        reason: "the id source returned an invalid id",
    })
}
