//! Read-only view of a task that shares the store's snapshot where possible.

use super::Hub;
use super::tasks::TaskDetail;
use crate::access::Caller;
use crate::error::HubError;
use crate::limits::size_of_parts;
use crate::offload::{HasParts, Offloaded};
use crate::ports::ReadMemory;
use crate::ports::TaskRead;
use crate::task::{Task, TaskSnapshot};
use interzone_protocol::vocab::{Artifact, Message, TaskId, VerbatimJson};
use std::sync::Arc;

/// Number of bytes of a task that are read without a memory reservation. Requests that read no more are bounded by
/// their number.
const UNRESERVED_BYTES: usize = 64 * 1024;

/// Maximum number of retries for a task that has grown since its size was read.
const MAX_READ_RETRIES: usize = 4;

/// A task with its messages and artifacts, shared with other readers. [`TaskView::into_detail`] makes an owned copy.
#[derive(Clone, Debug)]
pub struct TaskView(TaskViewRepr);

#[derive(Clone, Debug)]
enum TaskViewRepr {
    /// The store's snapshot, which has no offloaded contents.
    Shared {
        snapshot: Arc<TaskSnapshot>,
        /// Number of oldest messages that are hidden.
        skip: usize,
        artifacts: bool,
    },
    /// An owned copy with restored contents.
    Restored(Box<TaskDetail>),
}

impl Hub {
    /// Returns a consistent view of a task with its latest messages, up to the given number, and with its artifacts if
    /// requested. The fastest way to read a task.
    ///
    /// # Errors
    /// There is no task with this id that the caller may see.
    pub async fn task_view(
        &self,
        caller: &Caller,
        id: &TaskId,
        latest_messages: usize,
        artifacts: bool,
    ) -> Result<TaskView, HubError> {
        self.task_view_within(caller, id, latest_messages, artifacts, None)
            .await
    }

    /// Like [`Hub::task_view`], with memory for large contents reserved before they are read.
    ///
    /// # Errors
    /// See [`Hub::task_view`]; or the memory budget is used up.
    pub async fn task_view_within(
        &self,
        caller: &Caller,
        id: &TaskId,
        latest_messages: usize,
        artifacts: bool,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<TaskView, HubError> {
        let latest = u32::try_from(latest_messages).unwrap_or(u32::MAX);
        let snapshot = self
            .task_snapshot(caller, id, latest, artifacts, memory)
            .await?;
        let skip = snapshot.messages.len().saturating_sub(latest_messages);
        let shown = snapshot.messages.get(skip..).unwrap_or_default();
        let is_inline = shown.iter().all(Offloaded::is_inline)
            && snapshot
                .task
                .status_message
                .iter()
                .all(Offloaded::is_inline)
            && (!artifacts || snapshot.artifacts.iter().all(Offloaded::is_inline));
        if is_inline {
            // Many small inline contents add up too.
            let limits = &self.inner.limits;
            limits.read(inline_bytes(shown))?;
            if artifacts {
                limits.read(inline_bytes(&snapshot.artifacts))?;
            }
            return Ok(TaskView(TaskViewRepr::Shared {
                snapshot,
                skip,
                artifacts,
            }));
        }
        // Boxed to keep the future of the common case small.
        Box::pin(self.restored_view(&snapshot, skip, artifacts, memory)).await
    }

    /// Builds a view with restored contents.
    async fn restored_view(
        &self,
        snapshot: &TaskSnapshot,
        skip: usize,
        artifacts: bool,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<TaskView, HubError> {
        let shown = snapshot.messages.get(skip..).unwrap_or_default();
        let mut blobs: Vec<_> = shown.iter().flat_map(Offloaded::blob_ids).collect();
        blobs.extend(
            snapshot
                .task
                .status_message
                .iter()
                .flat_map(Offloaded::blob_ids),
        );
        if artifacts {
            blobs.extend(snapshot.artifacts.iter().flat_map(Offloaded::blob_ids));
        }
        self.reserve_blobs(&blobs, memory).await?;
        let messages = self.restore_all(shown.to_vec()).await?;
        let artifacts = if artifacts {
            self.restore_all(snapshot.artifacts.clone()).await?
        } else {
            Vec::new()
        };
        let task = snapshot.task.clone();
        let status = match task.status_message.clone() {
            Some(status) => Some(self.restore(status).await?),
            None => None,
        };
        Ok(TaskView(TaskViewRepr::Restored(Box::new(TaskDetail {
            task,
            status_message: status,
            messages,
            artifacts,
        }))))
    }
}

impl Hub {
    /// Returns a task with at least its latest messages, up to about the given number, and its artifacts, all without
    /// offloaded contents, for callers that need only some of those. Memory for everything else is reserved before it
    /// is read.
    ///
    /// # Errors
    /// There is no task with this id that the caller may see, or the memory budget is used up.
    pub async fn task_without_blobs(
        &self,
        caller: &Caller,
        id: &TaskId,
        latest_messages: u32,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<Arc<TaskSnapshot>, HubError> {
        self.task_snapshot(caller, id, latest_messages, true, memory)
            .await
    }

    /// Returns the store's snapshot of a task. With a memory budget, memory is reserved before more than
    /// [`UNRESERVED_BYTES`] are read, for reading and for serializing.
    async fn task_snapshot(
        &self,
        caller: &Caller,
        id: &TaskId,
        latest: u32,
        artifacts: bool,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<Arc<TaskSnapshot>, HubError> {
        let not_found = || HubError::TaskNotFound(id.clone());
        let mut max_bytes = match memory {
            Some(_) => UNRESERVED_BYTES,
            None => usize::MAX,
        };
        for _ in 0..MAX_READ_RETRIES {
            let read = self
                .store()
                .task_snapshot(id, latest, artifacts, max_bytes)
                .await?;
            let bytes = match read.ok_or_else(not_found)? {
                TaskRead::Task(snapshot) if caller.can_see(&snapshot.task) => return Ok(snapshot),
                TaskRead::Task(_) => return Err(not_found()),
                TaskRead::TooLarge(bytes) => bytes,
            };
            // Authorization comes before the size limit.
            self.task(caller, id).await?;
            // At least its messages or its artifacts alone exceed the limit.
            self.inner.limits.read(bytes / 2)?;
            let additional = match max_bytes {
                UNRESERVED_BYTES => bytes,
                before => bytes.saturating_sub(before),
            };
            if let Some(memory) = memory
                && !memory.reserve(additional.saturating_mul(2)).await
            {
                return Err(HubError::NoMemory);
            }
            max_bytes = bytes;
        }
        Err(HubError::Contended)
    }
}

/// Size of the inline contents in bytes.
fn inline_bytes<T: HasParts>(items: &[Offloaded<T>]) -> usize {
    let parts = items.iter().map(|item| item.inline().parts());
    parts.map(size_of_parts).sum()
}

impl TaskView {
    /// The task.
    pub fn task(&self) -> &Task {
        match &self.0 {
            TaskViewRepr::Shared { snapshot, .. } => &snapshot.task,
            TaskViewRepr::Restored(detail) => &detail.task,
        }
    }

    /// Message that accompanies its state.
    pub fn status_message(&self) -> Option<&Message> {
        match &self.0 {
            TaskViewRepr::Shared { snapshot, .. } => {
                snapshot.task.status_message.as_ref().map(Offloaded::inline)
            }
            TaskViewRepr::Restored(detail) => detail.status_message.as_ref(),
        }
    }

    /// Its messages, oldest first; only the latest if fewer were requested.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        let (shared, owned): (&[Offloaded<Message>], &[Message]) = match &self.0 {
            TaskViewRepr::Shared { snapshot, skip, .. } => {
                (snapshot.messages.get(*skip..).unwrap_or_default(), &[])
            }
            TaskViewRepr::Restored(detail) => (&[], &detail.messages),
        };
        shared.iter().map(Offloaded::inline).chain(owned)
    }

    /// Its artifacts, oldest first, if they were requested.
    pub fn artifacts(&self) -> impl Iterator<Item = &Artifact> {
        let (shared, owned): (&[Offloaded<Artifact>], &[Artifact]) = match &self.0 {
            TaskViewRepr::Shared {
                snapshot,
                artifacts: true,
                ..
            } => (&snapshot.artifacts, &[]),
            TaskViewRepr::Shared { .. } => (&[], &[]),
            TaskViewRepr::Restored(detail) => (&[], &detail.artifacts),
        };
        shared.iter().map(Offloaded::inline).chain(owned)
    }

    /// Returns the cached rendering of the task in this format; renders it now if there is none yet. `None` if the
    /// view is partial or not shared.
    pub fn cached_rendering(
        &self,
        format: &'static str,
        render: impl FnOnce() -> Option<VerbatimJson>,
    ) -> Option<&VerbatimJson> {
        match &self.0 {
            TaskViewRepr::Shared {
                snapshot,
                skip: 0,
                artifacts: true,
            } => snapshot.rendering.get_or_render(format, render),
            _ => None,
        }
    }

    /// Converts to an owned copy.
    pub fn into_detail(self) -> TaskDetail {
        if let TaskViewRepr::Restored(detail) = self.0 {
            return *detail;
        }
        TaskDetail {
            task: self.task().clone(),
            status_message: self.status_message().cloned(),
            messages: self.messages().cloned().collect(),
            artifacts: self.artifacts().cloned().collect(),
        }
    }
}
