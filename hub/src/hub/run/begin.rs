//! Beginning a run: whether there is anything to do, and what the agent is given to do it.

use super::Run;
use crate::agent::Turn;
use crate::error::HubError;
use crate::hub::draft::Draft;
use crate::limits::size_of_parts;
use crate::memory::ReadMemory;
use crate::packed::{Packed, has_address};
use crate::ports::Op;
use interzone_protocol::vocab::{Message, Role, TaskState};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// What came of beginning a run.
pub enum TurnStart {
    /// The agent's turn.
    Turn(Box<Turn>),
    /// There is nothing to do: the task was finished or given up.
    Nothing,
}

impl Run {
    /// Begins the turn: the task is now being worked at, and here is all that the agent needs. A task
    /// that was begun too often is given up instead, and of one that was called off or claimed by
    /// somebody else meanwhile there is nothing to do.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn begin(&self) -> Result<TurnStart, HubError> {
        self.begin_within(None).await
    }

    /// As [`Run::begin`], with memory for what the agent is given reserved before it is read. It must be kept for as
    /// long as the run lasts.
    ///
    /// # Errors
    /// The store did not do it, or there is no memory.
    pub async fn begin_within(
        &self,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<TurnStart, HubError> {
        if let Some(turn) = self.newborn_turn() {
            return Ok(TurnStart::Turn(Box::new(turn)));
        }
        // A claim that was lost while this node was away must not begin beside the one that took over.
        if !self.renew(self.length).await? {
            return Ok(TurnStart::Nothing);
        }
        let too_often = self.item.attempt > self.hub.inner.limits.attempts;
        let decide = |draft: &mut Draft| {
            if too_often {
                draft.move_to(TaskState::Failed, Some(gave_up(self.item.attempt - 1)))?;
                draft.op(Op::EndWork(draft.task.id.clone()));
                return Ok(false);
            }
            if draft.task.state != TaskState::Working {
                draft.move_to(TaskState::Working, None)?;
            }
            Ok(true)
        };
        let task = match self.write(decide).await {
            Ok((task, true)) => task,
            Ok((_, false)) | Err(HubError::Stopped) => {
                self.settled();
                return Ok(TurnStart::Nothing);
            }
            Err(error) => return Err(error),
        };
        let packed = self
            .hub
            .store()
            .messages(&task.id, 0..task.messages)
            .await?;
        let mut history = match self.unpack_within(packed, memory).await {
            Ok(history) => history,
            // It would be no smaller the next time.
            Err(HubError::TooLarge { .. }) => {
                self.write(|draft: &mut Draft| {
                    let why = "The task has become too large to be worked at; begin another";
                    draft.move_to(TaskState::Failed, Some(Message::agent_text(why)))?;
                    draft.op(Op::EndWork(draft.task.id.clone()));
                    Ok(())
                })
                .await?;
                return Ok(TurnStart::Nothing);
            }
            Err(error) => return Err(error),
        };
        let asked = history
            .iter()
            .rposition(|message| message.role() != Role::Agent);
        let Some(asked) = asked else {
            return Ok(TurnStart::Nothing);
        };
        let addressed = |message: &Message| message.parts().iter().any(has_address);
        let none = !history.iter().any(addressed);
        self.no_address.store(none, Ordering::Relaxed);
        let message = history.remove(asked);
        // A run is begun again only if the store did not answer, and then it is the same message.
        let _ = self.asked.set(u32::try_from(asked).unwrap_or(u32::MAX));
        let attempt = self.item.attempt;
        let stop = self.stop.clone();
        Ok(TurnStart::Turn(Box::new(Turn {
            task,
            message,
            history,
            attempt,
            stop,
        })))
    }
}

impl Run {
    /// Unpacks the messages of the task. Large contents are counted before they are read, the rest once it is known.
    async fn unpack_within(
        &self,
        packed: Vec<Packed<Message>>,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<Vec<Message>, HubError> {
        let Some(memory) = memory else {
            return self.hub.unpack(packed).await;
        };
        let reserve = async |bytes: usize| match bytes == 0 || memory.reserve(bytes).await {
            true => Ok(()),
            false => Err(HubError::NoMemory),
        };
        let ids: BTreeSet<_> = packed.iter().flat_map(Packed::blob_ids).collect();
        let ids: Vec<_> = ids.into_iter().collect();
        let mut reserved = 0_usize;
        if !ids.is_empty() {
            let sizes = self.hub.store().blob_sizes(&ids).await?;
            reserved = sizes
                .values()
                .fold(0, |sum: usize, size| sum.saturating_add(*size));
            reserve(reserved).await?;
        }
        let messages = self.hub.unpack(packed).await?;
        let size = |message: &Message| size_of_parts(message.parts());
        let all = messages.iter().map(size).fold(0, usize::saturating_add);
        reserve(all.saturating_sub(reserved)).await?;
        Ok(messages)
    }
}

fn gave_up(attempts: u32) -> Message {
    Message::agent_text(format!(
        "This was begun {attempts} times and never finished, so it is given up."
    ))
}
