//! A task as somebody looks at it, without a copy where none is needed.

use super::Hub;
use super::tasks::TaskDetail;
use crate::access::Caller;
use crate::error::HubError;
use crate::limits::size_of_parts;
use crate::memory::ReadMemory;
use crate::packed::{HasParts, Packed};
use crate::ports::TaskRead;
use crate::task::{Task, WholeTask};
use interzone_protocol::vocab::{Artifact, Json, Message, TaskId};
use std::sync::Arc;

/// How many bytes of a task are read without memory being reserved for them. Requests that read no more are bounded
/// by their number.
const UNRESERVED: usize = 64 * 1024;

/// How often a task is read again that has grown since its size was known.
const ROUNDS: usize = 4;

/// A task with what hangs on it, shared with whoever else looks at it. [`TaskView::into_detail`] makes
/// it one's own.
#[derive(Clone, Debug)]
pub struct TaskView(Inner);

#[derive(Clone, Debug)]
enum Inner {
    /// As the store has it: nothing of it is elsewhere.
    Shared {
        whole: Arc<WholeTask>,
        /// How many messages are not shown.
        skip: usize,
        artifacts: bool,
    },
    /// Put together.
    Unpacked(Box<TaskDetail>),
}

impl Hub {
    /// A task with its latest messages, at most so many, and with its artifacts if they are wanted, all
    /// as they were at one moment. The fastest way to read a task.
    ///
    /// # Errors
    /// There is none with this id that the caller may see.
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

    /// As [`Hub::task_view`], with memory for what is large reserved before it is read.
    ///
    /// # Errors
    /// As [`Hub::task_view`], or there is no memory.
    pub async fn task_view_within(
        &self,
        caller: &Caller,
        id: &TaskId,
        latest_messages: usize,
        artifacts: bool,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<TaskView, HubError> {
        let latest = u32::try_from(latest_messages).unwrap_or(u32::MAX);
        let whole = self
            .whole_task(caller, id, latest, artifacts, memory)
            .await?;
        let skip = whole.messages.len().saturating_sub(latest_messages);
        let shown = whole.messages.get(skip..).unwrap_or_default();
        let complete = shown.iter().all(Packed::is_complete)
            && whole.task.status.iter().all(Packed::is_complete)
            && (!artifacts || whole.artifacts.iter().all(Packed::is_complete));
        if complete {
            // What is small enough to be kept in its row adds up too.
            let limits = &self.inner.limits;
            limits.read(inline(shown))?;
            if artifacts {
                limits.read(inline(&whole.artifacts))?;
            }
            return Ok(TaskView(Inner::Shared {
                whole,
                skip,
                artifacts,
            }));
        }
        // Boxed, to keep the future of the usual case small.
        Box::pin(self.unpacked(&whole, skip, artifacts, memory)).await
    }

    /// A task with its large contents put back.
    async fn unpacked(
        &self,
        whole: &WholeTask,
        skip: usize,
        artifacts: bool,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<TaskView, HubError> {
        let shown = whole.messages.get(skip..).unwrap_or_default();
        let mut blobs: Vec<_> = shown.iter().flat_map(Packed::blob_ids).collect();
        blobs.extend(whole.task.status.iter().flat_map(Packed::blob_ids));
        if artifacts {
            blobs.extend(whole.artifacts.iter().flat_map(Packed::blob_ids));
        }
        self.reserve_for(&blobs, memory).await?;
        let messages = self.unpack(shown.to_vec()).await?;
        let artifacts = if artifacts {
            self.unpack(whole.artifacts.clone()).await?
        } else {
            Vec::new()
        };
        let task = whole.task.clone();
        let status = match task.status.clone() {
            Some(status) => Some(self.unpack_one(status).await?),
            None => None,
        };
        Ok(TaskView(Inner::Unpacked(Box::new(TaskDetail {
            task,
            status,
            messages,
            artifacts,
        }))))
    }
}

impl Hub {
    /// A task with its latest messages, at most so many or a few more, and its artifacts, all without
    /// their large contents, for callers that need only some of those. Memory for the rest is reserved before it is read.
    ///
    /// # Errors
    /// There is none with this id that the caller may see, or there is no memory.
    pub async fn task_packed(
        &self,
        caller: &Caller,
        id: &TaskId,
        latest_messages: u32,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<Arc<WholeTask>, HubError> {
        self.whole_task(caller, id, latest_messages, true, memory)
            .await
    }

    /// A task as the store has it. Where memory is metered it is reserved before more than [`UNRESERVED`] bytes are
    /// read, for what is read and for what is written of it.
    async fn whole_task(
        &self,
        caller: &Caller,
        id: &TaskId,
        latest: u32,
        artifacts: bool,
        memory: Option<&dyn ReadMemory>,
    ) -> Result<Arc<WholeTask>, HubError> {
        let unknown = || HubError::TaskNotFound(id.clone());
        let mut most = match memory {
            Some(_) => UNRESERVED,
            None => usize::MAX,
        };
        for _ in 0..ROUNDS {
            let read = self.store().whole_task(id, latest, artifacts, most).await?;
            let bytes = match read.ok_or_else(unknown)? {
                TaskRead::Task(whole) if caller.sees(&whole.task) => return Ok(whole),
                TaskRead::Task(_) => return Err(unknown()),
                TaskRead::Larger(bytes) => bytes,
            };
            // Whether it is the caller's comes before how large it is.
            self.task(caller, id).await?;
            // Its messages or its artifacts alone are more than may be read.
            self.inner.limits.read(bytes / 2)?;
            let more = match most {
                UNRESERVED => bytes,
                before => bytes.saturating_sub(before),
            };
            if let Some(memory) = memory
                && !memory.reserve(more.saturating_mul(2)).await
            {
                return Err(HubError::NoMemory);
            }
            most = bytes;
        }
        Err(HubError::Contended)
    }
}

/// The bytes of what is not elsewhere.
fn inline<T: HasParts>(packed: &[Packed<T>]) -> usize {
    let parts = packed.iter().map(|one| one.without_large().parts());
    parts.map(size_of_parts).sum()
}

impl TaskView {
    /// The task.
    pub fn task(&self) -> &Task {
        match &self.0 {
            Inner::Shared { whole, .. } => &whole.task,
            Inner::Unpacked(detail) => &detail.task,
        }
    }

    /// What is said about its state.
    pub fn status(&self) -> Option<&Message> {
        match &self.0 {
            Inner::Shared { whole, .. } => whole.task.status.as_ref().map(Packed::without_large),
            Inner::Unpacked(detail) => detail.status.as_ref(),
        }
    }

    /// Its messages, oldest first; only the latest if fewer were asked for.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        let (shared, own): (&[Packed<Message>], &[Message]) = match &self.0 {
            Inner::Shared { whole, skip, .. } => {
                (whole.messages.get(*skip..).unwrap_or_default(), &[])
            }
            Inner::Unpacked(detail) => (&[], &detail.messages),
        };
        shared.iter().map(Packed::without_large).chain(own)
    }

    /// Its artifacts, oldest first, if they were asked for.
    pub fn artifacts(&self) -> impl Iterator<Item = &Artifact> {
        let (shared, own): (&[Packed<Artifact>], &[Artifact]) = match &self.0 {
            Inner::Shared {
                whole,
                artifacts: true,
                ..
            } => (&whole.artifacts, &[]),
            Inner::Shared { .. } => (&[], &[]),
            Inner::Unpacked(detail) => (&[], &detail.artifacts),
        };
        shared.iter().map(Packed::without_large).chain(own)
    }

    /// The whole of it in the form of this name, as somebody has written it before, or as it is written
    /// now. Nothing if some of it is not shown, or not shared.
    pub fn written(
        &self,
        form: &'static str,
        write: impl FnOnce() -> Option<Json>,
    ) -> Option<&Json> {
        match &self.0 {
            Inner::Shared {
                whole,
                skip: 0,
                artifacts: true,
            } => whole.written.once(form, write),
            _ => None,
        }
    }

    /// A copy that one may take apart.
    pub fn into_detail(self) -> TaskDetail {
        if let Inner::Unpacked(detail) = self.0 {
            return *detail;
        }
        TaskDetail {
            task: self.task().clone(),
            status: self.status().cloned(),
            messages: self.messages().cloned().collect(),
            artifacts: self.artifacts().cloned().collect(),
        }
    }
}
