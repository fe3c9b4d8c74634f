//! Store port for conversations: tasks by thread, and feedback. A task's thread is written with the task
//! ([`Op::RecordThread`](super::Op::RecordThread)); thread and feedback are removed with the task.

use super::StoreError;
use crate::conversation::{Conversation, ConversationQuery, Feedback, ThreadKey, ThreadTask};
use async_trait::async_trait;
use interzone_protocol::vocab::TaskId;

/// One page of a list of conversations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversationPage {
    /// The conversations, most recent task first.
    pub conversations: Vec<Conversation>,
    /// Value of [`ConversationQuery::before`] for the next page, if there may be more.
    pub next: Option<u64>,
}

/// Conversations and feedback.
#[async_trait]
pub trait ConversationStore: Send + Sync {
    /// Lists threads by their last task, or by the last one of the given user, each once across pages. A store scans a
    /// bounded number of tasks per call, so a page may be short or empty while there is more: see
    /// [`ConversationPage::next`].
    async fn conversations(
        &self,
        query: &ConversationQuery,
    ) -> Result<ConversationPage, StoreError>;

    /// Lists the tasks of a thread, newest first. Ignores the query's user.
    async fn thread_tasks(
        &self,
        thread: &ThreadKey,
        query: &ConversationQuery,
    ) -> Result<Vec<ThreadTask>, StoreError>;

    /// Returns the thread origin of a task, if it has one.
    async fn thread_task(&self, id: &TaskId) -> Result<Option<ThreadTask>, StoreError>;

    /// Stores a user's feedback on a task, replacing earlier feedback of the same user unless that is newer. Returns
    /// whether this or newer feedback is stored: false if there is no such task, or if [`Feedback::MAX_PER_TASK`]
    /// others have given feedback already.
    ///
    /// **Idempotent:** yes.
    async fn put_feedback(&self, feedback: &Feedback) -> Result<bool, StoreError>;

    /// Returns the feedback on these tasks, newest first for each.
    async fn feedback(&self, tasks: &[TaskId]) -> Result<Vec<Feedback>, StoreError>;
}
