//! Agent output: writes to the run and flushes buffered text.

use async_trait::async_trait;
use interzone_hub::{HubError, Run, TurnOutput};
use interzone_protocol::vocab::Artifact;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Flush delay, slightly longer than the run buffers text.
const FLUSH_DELAY: Duration = Duration::from_millis(55);

/// Delay after a failed flush.
const FLUSH_RETRY_DELAY: Duration = Duration::from_secs(1);

pub(super) struct RunOutput {
    run: Arc<Run>,
    text_added: Notify,
}

impl RunOutput {
    pub(super) fn new(run: Arc<Run>) -> Arc<Self> {
        let text_added = Notify::new();
        Arc::new(Self { run, text_added })
    }

    /// Flushes buffered text after a short delay. Sleeps while there is none.
    pub(super) async fn flush_loop(&self) -> std::convert::Infallible {
        loop {
            self.text_added.notified().await;
            tokio::time::sleep(FLUSH_DELAY).await;
            if let Err(error) = self.run.flush_if_due().await {
                // The run itself notices what stops it; other errors may be transient.
                tracing::debug!(%error, "flushing text failed, retrying");
                tokio::time::sleep(FLUSH_RETRY_DELAY).await;
                self.text_added.notify_one();
            }
        }
    }
}

#[async_trait]
impl TurnOutput for RunOutput {
    async fn text(&self, delta: &str) -> Result<(), HubError> {
        let result = self.run.text(delta).await;
        self.text_added.notify_one();
        result
    }

    async fn status(&self, text: &str) -> Result<(), HubError> {
        self.run.status(text).await
    }

    async fn artifact(&self, artifact: Artifact, append: bool, last: bool) -> Result<(), HubError> {
        self.run.artifact(artifact, append, last).await
    }
}
