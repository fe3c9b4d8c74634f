//! Forgetting addresses. Whoever knows where an attachment can be fetched may fetch it, so an address is
//! kept no longer than the task may need it.

use super::draft::Draft;
use super::{Hub, contended};
use crate::access::Caller;
use crate::error::HubError;
use crate::packed::{FETCH, has_address};
use crate::ports::{Op, StoreError};
use crate::task::{TaskCursor, TaskQuery};
use interzone_protocol::vocab::TaskState;

/// How many tasks are looked at in one step.
const STEP: usize = 200;

/// Where it is noted that tasks which ended under an earlier version have been looked at.
const DONE: (&str, &str) = ("hub", "addresses_forgotten");

impl Draft {
    /// Takes every address out of the task's messages. What is read here is what is stored at the task's
    /// revision, or the commit meets another.
    pub(super) async fn forget_addresses(&mut self, hub: &Hub) -> Result<(), StoreError> {
        let task_id = self.task.id.clone();
        let stored = 0..self.task.messages;
        let messages = hub.store().messages(&task_id, stored).await?;
        for (index, message) in (0..).zip(messages) {
            if message.without_large().parts().iter().any(has_address) {
                self.op(Op::ReplaceMessage {
                    task_id: task_id.clone(),
                    index,
                    message: message.without_member(FETCH),
                });
            }
        }
        Ok(())
    }
}

impl Hub {
    /// Takes the addresses out of tasks that ended before tasks did so themselves. Once for a store:
    /// then it is noted. Answers how many tasks had some.
    ///
    /// # Errors
    /// The caller is no operator, or the store did not do it.
    pub async fn forget_old_addresses(&self, caller: &Caller) -> Result<usize, HubError> {
        caller.decide()?;
        let (kind, key) = DONE;
        if self.store().record(kind, key, self.now()).await?.is_some() {
            return Ok(0);
        }
        let (mut after, mut changed) = (None, 0);
        loop {
            let query = TaskQuery {
                owner: None,
                context_id: None,
                states: vec![
                    TaskState::Completed,
                    TaskState::Failed,
                    TaskState::Canceled,
                    TaskState::Rejected,
                ],
                agent: None,
                updated_since: None,
                after: after.take(),
                limit: STEP,
            };
            let tasks = self.store().tasks(&query).await?;
            after = tasks.last().map(|last| TaskCursor {
                updated_at: last.updated_at,
                id: last.id.clone(),
            });
            let full = tasks.len() == STEP;
            for task in tasks {
                // It stays as old as it is.
                let then = task.updated_at;
                let mut draft = Draft::change(task, then);
                draft.forget_addresses(self).await?;
                if draft.is_empty() {
                    continue;
                }
                draft.has_no_address();
                match draft.write(self, None).await {
                    Ok(_) => changed += 1,
                    // Another node does the same.
                    Err(StoreError::Conflict) => {}
                    Err(error) => return Err(contended(error)),
                }
            }
            if !full {
                break;
            }
        }
        let now = self.now();
        self.store()
            .put_record(kind, key, "1", None, None, now)
            .await?;
        Ok(changed)
    }
}
