//! Talks: which tasks were asked for in which thread, and what people think of them. A task's question
//! is written with the task ([`Op::NoteQuestion`](super::Op::NoteQuestion)) and goes with it, and so does
//! what people think.

use super::StoreError;
use crate::talk::{Conversation, Feedback, Question, TalkQuery, Thread};
use async_trait::async_trait;
use interzone_protocol::vocab::TaskId;

/// What came of a list of conversations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conversations {
    /// The conversations, the one that was asked in last first.
    pub found: Vec<Conversation>,
    /// Where to go on ([`TalkQuery::before`]), if there may be more.
    pub next: Option<u64>,
}

/// Who asked what where, and what they think of it.
#[async_trait]
pub trait TalkStore: Send + Sync {
    /// Threads by their last question, or by the last one of the user who is named, each once however far
    /// the list goes on. A store looks at a bounded number of questions at a time, so a page may be short
    /// or empty while there is more: see [`Conversations::next`].
    async fn conversations(&self, query: &TalkQuery) -> Result<Conversations, StoreError>;

    /// The questions of a thread, the newest first. Who asked is not looked at.
    async fn questions(
        &self,
        thread: &Thread,
        query: &TalkQuery,
    ) -> Result<Vec<Question>, StoreError>;

    /// Where a task was asked for, if it was in a thread.
    async fn question(&self, id: &TaskId) -> Result<Option<Question>, StoreError>;

    /// Keeps what somebody thinks of a task, in the place of what they thought before, unless that is
    /// newer. Answers whether it is kept now, or something newer is: not if there is no such task, or if
    /// [`Feedback::MOST`] others have said something already.
    ///
    /// **Idempotent:** yes.
    async fn give_feedback(&self, feedback: &Feedback) -> Result<bool, StoreError>;

    /// What people think of these tasks, of each the newest first.
    async fn feedback(&self, tasks: &[TaskId]) -> Result<Vec<Feedback>, StoreError>;
}
