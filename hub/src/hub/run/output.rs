//! What an agent puts out while it runs, on its way into the log.

use super::Run;
use super::text::{TEXT_BYTES, TEXT_WAITS, draft_text};
use crate::agent::Output;
use crate::bus::News;
use crate::error::HubError;
use crate::event::{EventBody, Subject};
use crate::hub::draft::Draft;
use crate::hub::{ROUNDS, contended};
use crate::limits::Limits;
use crate::packed::Packed;
use crate::ports::StoreError;
use async_trait::async_trait;
use interzone_protocol::vocab::Artifact;

#[async_trait]
impl Output for Run {
    async fn text(&self, delta: &str) -> Result<(), HubError> {
        if self.stop.is_cancelled() {
            return Err(HubError::Stopped);
        }
        let now = self.hub.now();
        let (offset, full) = {
            let mut text = self.growing();
            if text.waiting.is_empty() {
                text.since = now;
            }
            let offset = text.length;
            text.length += u64::try_from(delta.len()).unwrap_or(0);
            text.waiting.push_str(delta);
            let full = text.waiting.len() >= TEXT_BYTES || now.since(text.since) >= TEXT_WAITS;
            (offset, full)
        };
        let subject = Subject::Task(self.item.task_id.clone());
        let news = News::Text {
            run: self.item.claim,
            offset,
            delta: delta.into(),
        };
        self.hub.inner.bus.tell(&subject, news);
        if full { self.flush().await } else { Ok(()) }
    }

    async fn status(&self, text: &str) -> Result<(), HubError> {
        let _in_order = self.writing.lock().await;
        let grown = self.grown();
        let decide = |draft: &mut Draft| {
            draft_text(draft, &grown);
            draft.event(EventBody::Status {
                text: text.to_owned(),
            });
            Ok(())
        };
        self.write(decide).await?;
        self.is_written(&grown);
        Ok(())
    }

    async fn artifact(&self, artifact: Artifact, append: bool, last: bool) -> Result<(), HubError> {
        self.flush().await?;
        self.settle_in().await?;
        if append {
            return self.add_to_artifact(artifact, last).await;
        }
        let limits = &self.hub.inner.limits;
        limits.parts("the artifact", &artifact)?;
        // Once for all rounds: a file may be large, and from here on there is one copy of it.
        let (artifact, blobs) = Packed::pack(artifact);
        for _ in 0..ROUNDS {
            let task = self.head().await?;
            let known = self.hub.store().artifacts(&task.id).await?;
            let mut draft = Draft::change(task, self.hub.now());
            if place(&known, artifact.without_large()).is_none() {
                draft.task.artifacts += 1;
            }
            let count = usize::try_from(draft.task.artifacts).unwrap_or(usize::MAX);
            Limits::count("artifacts of a task", count, limits.artifacts)?;
            draft.put_whole_artifact(artifact.clone(), blobs.clone(), last);
            if self.put(draft).await? {
                return Ok(());
            }
        }
        Err(HubError::Contended)
    }
}

impl Run {
    /// Adds parts to an artifact that was handed over before, or hands it over.
    async fn add_to_artifact(&self, artifact: Artifact, last: bool) -> Result<(), HubError> {
        let limits = &self.hub.inner.limits;
        for _ in 0..ROUNDS {
            let task = self.head().await?;
            let known = self.hub.store().artifacts(&task.id).await?;
            let mut draft = Draft::change(task, self.hub.now());
            let mut whole = artifact.clone();
            match place(&known, &artifact).and_then(|place| known.into_iter().nth(place)) {
                None => draft.task.artifacts += 1,
                Some(before) => {
                    let before = self.hub.unpack_one(before).await?;
                    let parts = before
                        .parts()
                        .iter()
                        .chain(artifact.parts())
                        .cloned()
                        .collect();
                    whole = before.with_parts(parts);
                }
            }
            limits.parts("the artifact", &whole)?;
            let count = usize::try_from(draft.task.artifacts).unwrap_or(usize::MAX);
            Limits::count("artifacts of a task", count, limits.artifacts)?;
            draft.put_artifact(whole, artifact.clone(), last);
            if self.put(draft).await? {
                return Ok(());
            }
        }
        Err(HubError::Contended)
    }

    /// Writes what was decided; not if somebody else was faster.
    async fn put(&self, draft: Draft) -> Result<bool, HubError> {
        // What this run knows of the task is older then, whatever comes of it.
        *self.last_known() = None;
        match draft.write(&self.hub, Some(self.fence())).await {
            Ok(task) => {
                *self.last_known() = Some(task);
                Ok(true)
            }
            Err(StoreError::Conflict) => Ok(false),
            Err(StoreError::Fenced) => {
                self.settled();
                self.stop.cancel();
                Err(HubError::Stopped)
            }
            Err(error) => Err(contended(error)),
        }
    }
}

/// Where an artifact stands among those that are known, by its id.
fn place(known: &[Packed<Artifact>], artifact: &Artifact) -> Option<usize> {
    let id = artifact.artifact_id();
    known
        .iter()
        .position(|known| known.without_large().artifact_id() == id)
}
