//! What an agent puts out while it runs, on its way into the log.

use super::{Run, TEXT_BYTES, TEXT_WAITS};
use crate::agent::Output;
use crate::bus::News;
use crate::error::HubError;
use crate::event::{EventBody, Subject};
use crate::hub::draft::Draft;
use crate::hub::{ROUNDS, contended};
use crate::limits::Limits;
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
        self.flush().await?;
        let decide = |draft: &mut Draft| {
            draft.event(EventBody::Status {
                text: text.to_owned(),
            });
            Ok(())
        };
        self.write(decide).await?;
        Ok(())
    }

    async fn artifact(&self, artifact: Artifact, append: bool, last: bool) -> Result<(), HubError> {
        self.flush().await?;
        let limits = &self.hub.inner.limits;
        for _ in 0..ROUNDS {
            let task = self.head().await?;
            let packed = self.hub.store().artifacts(&task.id).await?;
            let id = artifact.artifact_id();
            let place = packed
                .iter()
                .position(|known| known.without_large().artifact_id() == id);
            let mut draft = Draft::change(task, self.hub.now());
            let mut whole = artifact.clone();
            match place.and_then(|place| packed.into_iter().nth(place)) {
                None => draft.task.artifacts += 1,
                Some(before) if append => {
                    let before = self.hub.unpack_one(before).await?;
                    let parts = before
                        .parts()
                        .iter()
                        .chain(artifact.parts())
                        .cloned()
                        .collect();
                    whole = before.with_parts(parts);
                }
                Some(_) => {}
            }
            limits.parts("the artifact", &whole)?;
            let count = usize::try_from(draft.task.artifacts).unwrap_or(usize::MAX);
            Limits::count("artifacts of a task", count, limits.artifacts)?;
            draft.put_artifact(whole, artifact.clone(), append, last);
            match draft.write(&self.hub, self.fence()).await {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict) => {}
                Err(StoreError::Fenced) => {
                    self.stop.cancel();
                    return Err(HubError::Stopped);
                }
                Err(error) => return Err(contended(error)),
            }
        }
        Err(HubError::Contended)
    }
}
