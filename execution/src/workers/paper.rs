//! What an agent writes on: the run itself, and a sign that growing text waits to be kept.

use async_trait::async_trait;
use interzone_hub::{HubError, Output, Run};
use interzone_protocol::vocab::Artifact;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// A little longer than growing text waits before it is written.
const SOON: Duration = Duration::from_millis(55);

/// How long to wait when it could not be written.
const LATER: Duration = Duration::from_secs(1);

pub(super) struct Paper {
    run: Arc<Run>,
    grown: Notify,
}

impl Paper {
    pub(super) fn new(run: Arc<Run>) -> Arc<Self> {
        let grown = Notify::new();
        Arc::new(Self { run, grown })
    }

    /// Keeps growing text from waiting for the next words. It sleeps for as long as there are none.
    pub(super) async fn keep(&self) -> std::convert::Infallible {
        loop {
            self.grown.notified().await;
            tokio::time::sleep(SOON).await;
            if let Err(error) = self.run.tick().await {
                // What stops the run has been noticed by it; all else may work later.
                tracing::debug!(%error, "growing text is not kept yet");
                tokio::time::sleep(LATER).await;
                self.grown.notify_one();
            }
        }
    }
}

#[async_trait]
impl Output for Paper {
    async fn text(&self, delta: &str) -> Result<(), HubError> {
        let kept = self.run.text(delta).await;
        self.grown.notify_one();
        kept
    }

    async fn status(&self, text: &str) -> Result<(), HubError> {
        self.run.status(text).await
    }

    async fn artifact(&self, artifact: Artifact, append: bool, last: bool) -> Result<(), HubError> {
        self.run.artifact(artifact, append, last).await
    }
}
