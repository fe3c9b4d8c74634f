//! A task as a store reads it, within a number of bytes.

use crate::task::WholeTask;
use std::sync::Arc;

/// What [`TaskStore::whole_task`](super::TaskStore::whole_task) read.
#[derive(Clone, Debug, PartialEq)]
pub enum TaskRead {
    /// The task.
    Task(Arc<WholeTask>),
    /// Nothing, for its texts have more bytes than were allowed: so many.
    Larger(usize),
}

impl TaskRead {
    /// The task, if it was read.
    pub fn into_task(self) -> Option<Arc<WholeTask>> {
        match self {
            Self::Task(task) => Some(task),
            Self::Larger(_) => None,
        }
    }
}
