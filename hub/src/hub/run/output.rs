//! Agent output of a run: text, status and artifacts.

use super::Run;
use super::text_buffer::{FLUSH_INTERVAL, MAX_PENDING_BYTES, push_text_event};
use crate::agent::TurnOutput;
use crate::bus::BusMessage;
use crate::error::HubError;
use crate::event::{EventBody, Subject};
use crate::hub::task_change::TaskChange;
use crate::hub::{MAX_CAS_RETRIES, map_conflict};
use crate::limits::Limits;
use crate::offload::Offloaded;
use crate::ports::StoreError;
use async_trait::async_trait;
use interzone_protocol::vocab::Artifact;
use sha2::Digest;

#[async_trait]
impl TurnOutput for Run {
    async fn text(&self, delta: &str) -> Result<(), HubError> {
        if self.cancel_token.is_cancelled() {
            return Err(HubError::Stopped);
        }
        let now = self.hub.now();
        let (offset, is_due) = {
            let mut text = self.lock_text();
            if text.pending.is_empty() {
                text.pending_since = now;
            }
            let offset = text.total_bytes;
            text.total_bytes += u64::try_from(delta.len()).unwrap_or(0);
            text.pending.push_str(delta);
            text.digest.update(delta);
            let is_due = text.pending.len() >= MAX_PENDING_BYTES
                || now.duration_since(text.pending_since) >= FLUSH_INTERVAL;
            (offset, is_due)
        };
        let subject = Subject::Task(self.work_item.task_id.clone());
        let message = BusMessage::TextDelta {
            run: self.work_item.claim,
            offset,
            delta: delta.into(),
        };
        self.hub.inner.bus.publish(&subject, message);
        if is_due { self.flush().await } else { Ok(()) }
    }

    async fn status(&self, text: &str) -> Result<(), HubError> {
        let _guard = self.flush_lock.lock().await;
        let pending = self.pending_text();
        let decide = |change: &mut TaskChange| {
            push_text_event(change, &pending);
            change.push_event(EventBody::Status {
                text: text.to_owned(),
            });
            Ok(())
        };
        self.commit_change(decide).await?;
        self.mark_flushed(&pending);
        Ok(())
    }

    async fn artifact(&self, artifact: Artifact, append: bool, last: bool) -> Result<(), HubError> {
        self.flush().await?;
        self.mark_working().await?;
        if append {
            return self.append_to_artifact(artifact, last).await;
        }
        let limits = &self.hub.inner.limits;
        limits.check_parts("the artifact", &artifact)?;
        // Offload once for all retries: a file may be large, and from here on there is one copy of it.
        let (artifact, blobs) = Offloaded::offload(artifact);
        for _ in 0..MAX_CAS_RETRIES {
            let task = self.read_task().await?;
            let existing = self.hub.store().artifacts(&task.id).await?;
            let mut change = TaskChange::update(task, self.hub.now());
            if find_artifact(&existing, artifact.inline()).is_none() {
                change.task.artifact_count += 1;
            }
            let count = usize::try_from(change.task.artifact_count).unwrap_or(usize::MAX);
            Limits::check_count("artifacts of a task", count, limits.artifacts)?;
            change.put_complete_artifact(artifact.clone(), blobs.clone(), last);
            if self.try_commit(change).await? {
                return Ok(());
            }
        }
        Err(HubError::Contended)
    }
}

impl Run {
    /// Appends parts to an existing artifact, or creates it.
    async fn append_to_artifact(&self, artifact: Artifact, last: bool) -> Result<(), HubError> {
        let limits = &self.hub.inner.limits;
        for _ in 0..MAX_CAS_RETRIES {
            let task = self.read_task().await?;
            let existing = self.hub.store().artifacts(&task.id).await?;
            let mut change = TaskChange::update(task, self.hub.now());
            let mut complete = artifact.clone();
            match find_artifact(&existing, &artifact)
                .and_then(|index| existing.into_iter().nth(index))
            {
                None => change.task.artifact_count += 1,
                Some(existing) => {
                    let existing = self.hub.restore(existing).await?;
                    let parts = existing
                        .parts()
                        .iter()
                        .chain(artifact.parts())
                        .cloned()
                        .collect();
                    complete = existing.with_parts(parts);
                }
            }
            limits.check_parts("the artifact", &complete)?;
            let count = usize::try_from(change.task.artifact_count).unwrap_or(usize::MAX);
            Limits::check_count("artifacts of a task", count, limits.artifacts)?;
            change.put_artifact(complete, artifact.clone(), last);
            if self.try_commit(change).await? {
                return Ok(());
            }
        }
        Err(HubError::Contended)
    }

    /// Commits a change; returns false on a write conflict.
    async fn try_commit(&self, change: TaskChange) -> Result<bool, HubError> {
        // Whatever the result, the cached task is out of date then.
        *self.lock_last_written() = None;
        match change.commit(&self.hub, Some(self.fence())).await {
            Ok(task) => {
                *self.lock_last_written() = Some(task);
                Ok(true)
            }
            Err(StoreError::Conflict) => Ok(false),
            Err(StoreError::Fenced) => {
                self.mark_settled();
                self.cancel_token.cancel();
                Err(HubError::Stopped)
            }
            Err(error) => Err(map_conflict(error)),
        }
    }
}

/// Returns the index of the artifact with the same id.
fn find_artifact(existing: &[Offloaded<Artifact>], artifact: &Artifact) -> Option<usize> {
    let id = artifact.artifact_id();
    existing
        .iter()
        .position(|candidate| candidate.inline().artifact_id() == id)
}
