//! Start of a turn: checks that there is work to do and loads the agent's input.

use super::Run;
use crate::agent::Turn;
use crate::error::HubError;
use crate::hub::task_change::TaskChange;
use crate::limits::size_of_parts;
use crate::offload::{Offloaded, has_fetch_url};
use crate::ports::Op;
use crate::ports::ReadMemory;
use interzone_protocol::vocab::{Message, TaskState};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Result of starting a turn.
pub enum TurnStart {
    /// The agent's turn.
    Turn(Box<Turn>),
    /// There is nothing to do: the task is finished or failed.
    NothingToDo,
}

impl Run {
    /// Starts the turn: moves the task to `Working` and loads the agent's input. A task with too many attempts is
    /// failed instead. A task that was canceled or claimed by another node meanwhile has nothing to do.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn start_turn(&self) -> Result<TurnStart, HubError> {
        self.start_turn_within(None).await
    }

    /// Like [`Run::start_turn`], with memory for the agent's input reserved before it is read and before the task moves
    /// to `Working`. The reservation must be kept for the duration of the run.
    ///
    /// # Errors
    /// The store operation failed, or the memory budget is used up.
    pub async fn start_turn_within(
        &self,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<TurnStart, HubError> {
        if let Some(turn) = self.fresh_turn() {
            reserve_preparation(memory, &turn.message).await?;
            return Ok(TurnStart::Turn(Box::new(turn)));
        }
        // A claim that was lost while this node was suspended must not run concurrently with the new one.
        if !self.renew_lease(self.lease_duration).await? {
            return Ok(TurnStart::NothingToDo);
        }
        if self.work_item.attempt > self.hub.inner.limits.attempts {
            let message = attempts_exhausted_message(self.work_item.attempt - 1);
            return self.fail_unstarted(message).await;
        }
        // The input is loaded before the transition, so that a task that waits for memory is not shown as working.
        let mut history = Vec::new();
        let mut message_count = u32::MAX;
        let task = loop {
            let loaded = u32::try_from(history.len()).unwrap_or(u32::MAX);
            let id = &self.work_item.task_id;
            let further = self.hub.store().messages(id, loaded..message_count).await?;
            match self.restore_within(further, memory).await {
                Ok(further) => history.extend(further),
                // It would not be smaller the next time.
                Err(HubError::TooLarge { .. }) => {
                    let reason =
                        "The task has become too large to be processed; create another one";
                    return self.fail_unstarted(Message::agent_text(reason)).await;
                }
                Err(error) => return Err(error),
            }
            if let Some(message) = history.iter().rfind(|one| !one.is_agent_output()) {
                reserve_preparation(memory, message).await?;
            }
            let loaded = history.len();
            let decide = |change: &mut TaskChange| {
                let state = change.task.state;
                // Messages that were added since are loaded first.
                let is_complete =
                    usize::try_from(change.task.message_count).is_ok_and(|count| count <= loaded);
                if is_complete && state != TaskState::Working {
                    change.transition(TaskState::Working, None)?;
                }
                Ok(is_complete.then_some(state))
            };
            match self.commit_change(decide).await {
                Ok((task, Some(state))) => {
                    let is_first_turn = state == TaskState::Submitted;
                    self.is_first_turn.store(is_first_turn, Ordering::Relaxed);
                    break task;
                }
                Ok((task, None)) => message_count = task.message_count,
                Err(HubError::Stopped) => {
                    self.mark_settled();
                    return Ok(TurnStart::NothingToDo);
                }
                Err(error) => return Err(error),
            }
        };
        let message_index = history
            .iter()
            .rposition(|message| !message.is_agent_output());
        let Some(message_index) = message_index else {
            return Ok(TurnStart::NothingToDo);
        };
        let has_url = |message: &Message| message.parts().iter().any(has_fetch_url);
        let no_fetch_urls = !history.iter().any(has_url);
        self.no_fetch_urls.store(no_fetch_urls, Ordering::Relaxed);
        let message = history.remove(message_index);
        // A turn is started again only if the store did not respond, and then it is the same message.
        let _ = self
            .message_index
            .set(u32::try_from(message_index).unwrap_or(u32::MAX));
        let attempt = self.work_item.attempt;
        let cancel_token = self.cancel_token.clone();
        Ok(TurnStart::Turn(Box::new(Turn {
            task,
            message,
            history,
            attempt,
            cancel_token,
        })))
    }
}

impl Run {
    /// Fails a task whose turn cannot start.
    async fn fail_unstarted(&self, message: Message) -> Result<TurnStart, HubError> {
        let decide = |change: &mut TaskChange| {
            change.transition(TaskState::Failed, Some(message.clone()))?;
            change.push_op(Op::DequeueWork(change.task.id.clone()));
            Ok(())
        };
        match self.commit_change(decide).await {
            Ok(_) | Err(HubError::Stopped) => {
                self.mark_settled();
                Ok(TurnStart::NothingToDo)
            }
            Err(error) => Err(error),
        }
    }

    /// Restores the messages of the task. Memory for large contents is reserved before they are read, for the remainder
    /// once its size is known.
    async fn restore_within(
        &self,
        offloaded: Vec<Offloaded<Message>>,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<Vec<Message>, HubError> {
        let Some(memory) = memory else {
            return self.hub.restore_all(offloaded).await;
        };
        let reserve = async |bytes: usize| match bytes == 0 || memory.reserve(bytes).await {
            true => Ok(()),
            false => Err(HubError::NoMemory),
        };
        let ids: BTreeSet<_> = offloaded.iter().flat_map(Offloaded::blob_ids).collect();
        let ids: Vec<_> = ids.into_iter().collect();
        let mut reserved = 0_usize;
        if !ids.is_empty() {
            let sizes = self.hub.store().blob_sizes(&ids).await?;
            reserved = sizes
                .values()
                .fold(0, |sum: usize, size| sum.saturating_add(*size));
            reserve(reserved).await?;
        }
        let messages = self.hub.restore_all(offloaded).await?;
        let size = |message: &Message| size_of_parts(message.parts());
        let total = messages.iter().map(size).fold(0, usize::saturating_add);
        reserve(total.saturating_sub(reserved)).await?;
        Ok(messages)
    }
}

/// Reserves memory for the preparation of a message.
async fn reserve_preparation(
    memory: Option<&dyn ReadMemory>,
    message: &Message,
) -> Result<(), HubError> {
    let Some(memory) = memory else { return Ok(()) };
    let bytes = memory.preparation_bytes(message);
    match bytes == 0 || memory.reserve(bytes).await {
        true => Ok(()),
        false => Err(HubError::NoMemory),
    }
}

fn attempts_exhausted_message(attempts: u32) -> Message {
    Message::agent_text(format!(
        "The task was started {attempts} times and never finished, so it has failed."
    ))
}
