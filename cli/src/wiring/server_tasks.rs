//! Tasks of a zone and their shutdown order.

use interzone_delivery::WorkerGroup;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Shared handle on the workers; empty before they start and after they were stopped.
#[derive(Clone, Default)]
pub(super) struct WorkerHandle(Arc<Mutex<Option<WorkerGroup>>>);

impl WorkerHandle {
    pub(super) fn set(&self, workers: WorkerGroup) {
        *self.lock() = Some(workers);
    }

    /// Returns the readiness reason if the workers are not healthy.
    pub(super) fn not_ready_reason(&self) -> Option<&'static str> {
        match self.lock().as_ref().map(WorkerGroup::check_health) {
            Some(Ok(())) => None,
            Some(Err(_)) => Some("workers"),
            None => Some("stopping"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<WorkerGroup>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All tasks of a zone.
pub(super) struct ServerTasks {
    pub(super) workers: WorkerHandle,
    /// Listeners.
    pub(super) listeners: JoinSet<()>,
    /// Tasks that the others depend on.
    pub(super) background: JoinSet<()>,
    /// Stops listeners and watches.
    pub(super) stop: CancellationToken,
    /// Stops the background tasks, last of all.
    pub(super) shutdown: CancellationToken,
}

impl ServerTasks {
    pub(super) fn new() -> Self {
        Self {
            workers: WorkerHandle::default(),
            listeners: JoinSet::new(),
            background: JoinSet::new(),
            stop: CancellationToken::new(),
            shutdown: CancellationToken::new(),
        }
    }

    /// Stops accepting work, waits for running work within the grace period and releases the remaining runs;
    /// then awaits `last`, which stops what the workers used, and ends the background tasks.
    pub(super) async fn shut_down(mut self, grace: Duration, last: impl Future<Output = ()>) {
        self.stop.cancel();
        let workers = self.workers.lock().take();
        let work = async {
            if let Some(workers) = workers {
                workers.join(grace).await;
            }
        };
        let serving = async {
            while let Some(served) = self.listeners.join_next().await {
                if let Err(error) = served {
                    tracing::error!(%error, "listener task failed");
                }
            }
        };
        tokio::join!(serving, work);
        self.shutdown.cancel();
        last.await;
        while self.background.join_next().await.is_some() {}
    }
}
