//! Tasks: begin them, add to them, read them, call them off.

use super::Hub;
use super::draft::Draft;
use crate::access::Caller;
use crate::error::HubError;
use crate::limits::Limits;
use crate::memory::ReadMemory;
use crate::ports::{ClaimKey, Op, StoreError};
use crate::task::{Task, TaskCursor, TaskQuery};
use interzone_protocol::vocab::{Artifact, Message, Role, TaskId, TaskState, Timestamp};

mod begin;
mod new;

pub use begin::Begun;
pub use new::{NewTask, Once};

/// A task with what hangs on it.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskDetail {
    /// The task.
    pub task: Task,
    /// What is said about its state.
    pub status: Option<Message>,
    /// Its messages, oldest first; only the latest if fewer were asked for.
    pub messages: Vec<Message>,
    /// Its artifacts, oldest first.
    pub artifacts: Vec<Artifact>,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskPage {
    /// The tasks.
    pub tasks: Vec<Task>,
    /// Where the next page begins, if there may be one.
    pub next: Option<TaskCursor>,
}

impl Hub {
    /// The id of a task that is about to be begun, for whoever wants to know it before.
    ///
    /// # Errors
    /// The id source is broken.
    pub fn new_task_id(&self) -> Result<TaskId, HubError> {
        made_id(TaskId::new(self.new_id(self.now())))
    }

    /// A task, without what hangs on it.
    ///
    /// # Errors
    /// There is none with this id that the caller may see.
    pub async fn task(&self, caller: &Caller, id: &TaskId) -> Result<Task, HubError> {
        let found = self.store().task(id).await?;
        caller.task(found.ok_or_else(|| HubError::TaskNotFound(id.clone()))?)
    }

    /// A task with its latest messages, at most so many, and with its artifacts if they are wanted: a copy
    /// of what [`Hub::task_view`] shows.
    ///
    /// # Errors
    /// As [`Hub::task`].
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

    /// As [`Hub::task_detail`], with memory for what is large reserved before it is read.
    ///
    /// # Errors
    /// As [`Hub::task`], or there is no memory.
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

    /// Tasks that the caller may see, a page at a time: last changed first.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn list_tasks(
        &self,
        caller: &Caller,
        query: TaskQuery,
    ) -> Result<TaskPage, HubError> {
        let limit = query.limit.clamp(1, self.inner.limits.page.max(1));
        let owner = caller.lists().or(query.owner);
        let mut query = TaskQuery {
            owner,
            limit: limit + 1,
            ..query
        };
        query.states.dedup();
        let mut tasks = self.store().tasks(&query).await?;
        let more = tasks.len() > limit;
        tasks.truncate(limit);
        let last = tasks.last().filter(|_| more);
        let next = last.map(|task| TaskCursor {
            updated_at: task.updated_at,
            id: task.id.clone(),
        });
        Ok(TaskPage { tasks, next })
    }

    /// How many tasks there are that the caller may see, of those the query selects.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn count_tasks(&self, caller: &Caller, query: TaskQuery) -> Result<u64, HubError> {
        let owner = caller.lists().or(query.owner);
        Ok(self
            .store()
            .count_tasks(&TaskQuery { owner, ..query })
            .await?)
    }

    /// Adds a message to a task. One that waited for it goes on; one that is being worked at takes
    /// the message up when its turn ends.
    ///
    /// # Errors
    /// The task is not the caller's, is finished, or has too many messages.
    pub async fn send(
        &self,
        caller: &Caller,
        id: &TaskId,
        message: Message,
    ) -> Result<Task, HubError> {
        self.add(caller, id, message, None, false).await
    }

    /// Answers a task that asked back, and only such a task: of several who answer at once, one is heard.
    /// A repetition under the same key adds nothing.
    ///
    /// # Errors
    /// As [`Hub::send`]; or the task has asked nothing, or has its answer.
    pub async fn answer(
        &self,
        caller: &Caller,
        id: &TaskId,
        message: Message,
        once: Option<Once>,
    ) -> Result<Task, HubError> {
        self.add(caller, id, message, once, true).await
    }

    async fn add(
        &self,
        caller: &Caller,
        id: &TaskId,
        message: Message,
        once: Option<Once>,
        only_if_asked: bool,
    ) -> Result<Task, HubError> {
        let limits = &self.inner.limits;
        limits.message(&message)?;
        not_the_agents(&message)?;
        let decide = |draft: &mut Draft| {
            if let Some(once) = &once {
                draft.op(claim(caller, once, id, draft.at));
            }
            let state = draft.task.state;
            if state.is_terminal() {
                return Err(HubError::TaskFinished {
                    id: id.clone(),
                    state,
                });
            }
            if only_if_asked && !state.is_interrupted() {
                return Err(HubError::IllegalMove {
                    from: state,
                    to: TaskState::Working,
                });
            }
            let count = usize::try_from(draft.task.messages).unwrap_or(usize::MAX);
            Limits::count(
                "messages of a task",
                count.saturating_add(1),
                limits.messages,
            )?;
            draft.add_message(message.clone());
            if state.is_interrupted() {
                draft.move_to(TaskState::Working, None)?;
                draft.queue(self);
            }
            Ok(())
        };
        match self.change_task(Some(caller), id, None, decide).await {
            Err(HubError::Store(StoreError::Claimed { .. })) => self.task(caller, id).await,
            // It may be finished, or wait for nothing any more, because this was said before.
            Err(error @ (HubError::TaskFinished { .. } | HubError::IllegalMove { .. })) => {
                match &once {
                    Some(once) => self.begun_by(caller, &once.key).await?.ok_or(error),
                    None => Err(error),
                }
            }
            changed => Ok(changed?.0),
        }
    }

    /// The task that a call under this key began or added to, if there was such a call.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn begun_by(&self, caller: &Caller, key: &str) -> Result<Option<Task>, HubError> {
        let key = once_key(caller, key);
        let Some(id) = self.store().claimed(&key, self.now()).await? else {
            return Ok(None);
        };
        let task = self.task(caller, &made_id(TaskId::new(id))?).await?;
        Ok(Some(task))
    }

    /// Calls a task off, at once. Calling it off again changes nothing.
    ///
    /// # Errors
    /// The task is not the caller's, or has ended in another way.
    pub async fn cancel(
        &self,
        caller: &Caller,
        id: &TaskId,
        reason: Option<&str>,
    ) -> Result<Task, HubError> {
        self.inner.limits.reason(reason)?;
        let decide = |draft: &mut Draft| {
            let state = draft.task.state;
            if state == TaskState::Canceled {
                return Ok(());
            }
            if state.is_terminal() {
                return Err(HubError::TaskFinished {
                    id: id.clone(),
                    state,
                });
            }
            draft.move_to(TaskState::Canceled, reason.map(Message::user_text))?;
            draft.op(Op::EndWork(id.clone()));
            Ok(())
        };
        Ok(self.change_task(Some(caller), id, None, decide).await?.0)
    }
}

/// What the agent says comes from its runs. A caller who could speak for it would forge its words, and
/// nobody would answer them.
pub(super) fn not_the_agents(message: &Message) -> Result<(), HubError> {
    if message.role() == Role::Agent {
        let reason = "only the agent itself speaks as the agent; use user or system";
        return Err(HubError::Invalid {
            field: "role",
            reason,
        });
    }
    Ok(())
}

/// Callers never share keys, however they spell them.
fn once_key(caller: &Caller, key: &str) -> String {
    format!(
        "once/{}/{}/{key}",
        caller.principal.as_str().len(),
        caller.principal
    )
}

/// Takes the key of a call that may be repeated, for the task that it is about.
fn claim(caller: &Caller, once: &Once, task: &TaskId, at: Timestamp) -> Op {
    Op::Claim(ClaimKey {
        key: once_key(caller, &once.key),
        value: task.to_string(),
        expires_at: at.after(once.keep),
    })
}

/// An id of our own making, which only a broken id source could get wrong.
pub(super) fn made_id<T, E>(id: Result<T, E>) -> Result<T, HubError> {
    id.map_err(|_| HubError::Invalid {
        field: "id",
        reason: "the id source made an unusable id",
    })
}
