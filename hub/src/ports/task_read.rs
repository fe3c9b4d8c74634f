//! Result of a size-limited task read.

use crate::task::TaskSnapshot;
use std::sync::Arc;

/// Result of [`TaskStore::task_snapshot`](super::TaskStore::task_snapshot).
#[derive(Clone, Debug, PartialEq)]
pub enum TaskRead {
    /// The snapshot.
    Task(Arc<TaskSnapshot>),
    /// The texts exceed the limit; contains their size in bytes.
    TooLarge(usize),
}

impl TaskRead {
    /// Returns the snapshot, if it was read.
    pub fn into_task(self) -> Option<Arc<TaskSnapshot>> {
        match self {
            Self::Task(task) => Some(task),
            Self::TooLarge(_) => None,
        }
    }
}
