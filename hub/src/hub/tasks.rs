//! Tasks: create, send messages, read, list and cancel.

use super::Hub;
use super::task_change::TaskChange;
use crate::access::Caller;
use crate::error::HubError;
use crate::ports::{Op, ReadMemory};
use crate::task::{Task, TaskCursor, TaskQuery};
use interzone_protocol::vocab::{AgentId, Artifact, Message, Role, TaskId, TaskState};

mod create;
mod idempotency;
mod new_task;
mod send;

pub use create::StartedTask;
pub use idempotency::IdempotencyKey;
pub use new_task::NewTask;
pub use send::{BusyPolicy, NewMessage, SentMessage};

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

    /// Lists tasks that the caller may see, page by page, the one whose state changed last first.
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
            status_at: task.status_at,
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

/// Prepares a message of a caller for a task of this agent. A message with the role of an agent gets the caller as its
/// author, and does not carry the id of the agent that serves the task: it is no output of that agent.
pub fn adopt_message(caller: &Caller, agent: &AgentId, message: Message) -> Message {
    let message = message.without_place().with_author(None);
    let message = message.with_answers(None);
    if message.role() != Role::Agent {
        return message;
    }
    let is_other_agent = message.agent_id().is_some_and(|id| id != agent);
    let message = message.with_author(Some(caller.principal.clone()));
    match AgentId::new(caller.principal.as_str()) {
        Ok(sender) if !is_other_agent => message.with_agent_id(sender),
        _ => message,
    }
}

/// Unwraps an id made by the hub, which only a broken id source can make invalid.
pub(super) fn internal_id<T, E>(id: Result<T, E>) -> Result<T, HubError> {
    id.map_err(|_| HubError::Invalid {
        field: "id",
        reason: "the id source returned an invalid id",
    })
}
