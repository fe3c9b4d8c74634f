//! Removal of fetch URLs. A fetch URL grants access to an attachment, so it is kept no longer than the task may
//! need it.

use super::task_change::TaskChange;
use super::{Hub, map_conflict};
use crate::access::Caller;
use crate::error::HubError;
use crate::offload::{FETCH_URL_FIELD, has_fetch_url};
use crate::ports::{Op, StoreError};
use crate::task::{TaskCursor, TaskQuery};
use interzone_protocol::vocab::TaskState;

/// Number of tasks per page of the backfill.
const BACKFILL_PAGE_SIZE: usize = 200;

/// Record that marks the backfill as done for this store.
const BACKFILL_RECORD: (&str, &str) = ("hub", "addresses_forgotten");

impl TaskChange {
    /// Removes all fetch URLs from the task's messages. The messages are read at the task's revision; otherwise the
    /// commit fails with a conflict.
    pub(super) async fn strip_fetch_urls(&mut self, hub: &Hub) -> Result<(), StoreError> {
        let task_id = self.task.id.clone();
        let indexes = 0..self.task.message_count;
        let messages = hub.store().messages(&task_id, indexes).await?;
        for (index, message) in (0..).zip(messages) {
            if message.inline().parts().iter().any(has_fetch_url) {
                self.push_op(Op::ReplaceMessage {
                    task_id: task_id.clone(),
                    index,
                    message: message.without_field(FETCH_URL_FIELD),
                });
            }
        }
        Ok(())
    }
}

impl Hub {
    /// One-time backfill per store: removes fetch URLs from tasks that finished before this was done on completion.
    /// Returns the number of changed tasks.
    ///
    /// # Errors
    /// The caller is not an operator, or the store operation failed.
    pub async fn backfill_strip_fetch_urls(&self, caller: &Caller) -> Result<usize, HubError> {
        caller.require_operator()?;
        let (kind, key) = BACKFILL_RECORD;
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
                status_since: None,
                after: after.take(),
                limit: BACKFILL_PAGE_SIZE,
            };
            let tasks = self.store().tasks(&query).await?;
            after = tasks.last().map(|last| TaskCursor {
                status_at: last.status_at,
                id: last.id.clone(),
            });
            let is_full_page = tasks.len() == BACKFILL_PAGE_SIZE;
            for task in tasks {
                // Keep the time of the last change.
                let updated_at = task.updated_at;
                let mut change = TaskChange::update(task, updated_at);
                change.strip_fetch_urls(self).await?;
                if change.is_empty() {
                    continue;
                }
                change.skip_url_redaction();
                match change.commit(self, None).await {
                    Ok(_) => changed += 1,
                    // Another node runs the same backfill.
                    Err(StoreError::Conflict) => {}
                    Err(error) => return Err(map_conflict(error)),
                }
            }
            if !is_full_page {
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
