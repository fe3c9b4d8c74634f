//! A task as somebody looks at it, without a copy where none is needed.

use super::Hub;
use super::tasks::TaskDetail;
use crate::access::Caller;
use crate::error::HubError;
use crate::limits::size_of_parts;
use crate::packed::{HasParts, Packed};
use crate::task::{Task, WholeTask};
use interzone_protocol::vocab::{Artifact, Json, Message, TaskId};
use std::sync::Arc;

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
        let latest = u32::try_from(latest_messages).unwrap_or(u32::MAX);
        let whole = self.store().whole_task(id, latest, artifacts).await?;
        let whole = whole
            .filter(|whole| caller.sees(&whole.task))
            .ok_or_else(|| HubError::TaskNotFound(id.clone()))?;
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
    /// their large contents: for whoever wants but some of those.
    ///
    /// # Errors
    /// There is none with this id that the caller may see.
    pub async fn task_packed(
        &self,
        caller: &Caller,
        id: &TaskId,
        latest_messages: u32,
    ) -> Result<Arc<WholeTask>, HubError> {
        let whole = self.store().whole_task(id, latest_messages, true).await?;
        whole
            .filter(|whole| caller.sees(&whole.task))
            .ok_or_else(|| HubError::TaskNotFound(id.clone()))
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
