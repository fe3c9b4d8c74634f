//! Tasks of a zone and their shutdown order.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Workers of a zone of either kind.
pub(super) trait WorkerSet: Send {
    /// Returns true if all workers are running without failures.
    fn is_healthy(&self) -> bool;
    /// Stops them within the grace period.
    fn join(self, grace: Duration) -> impl Future<Output = ()> + Send;
}

impl WorkerSet for interzone_execution::workers::Workers {
    fn is_healthy(&self) -> bool {
        self.healthy().is_ok()
    }

    async fn join(self, grace: Duration) {
        Self::join(self, grace).await;
    }
}

impl WorkerSet for interzone_verification::workers::Workers {
    fn is_healthy(&self) -> bool {
        self.check_health().is_ok()
    }

    async fn join(self, grace: Duration) {
        Self::join(self, grace).await;
    }
}

/// Shared handle on the workers; empty before they start and after they were stopped.
pub(super) struct WorkerHandle<W>(Arc<Mutex<Option<W>>>);

impl<W> Clone for WorkerHandle<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: WorkerSet> WorkerHandle<W> {
    pub(super) fn empty() -> Self {
        Self(Arc::default())
    }

    pub(super) fn set(&self, workers: W) {
        *self.lock() = Some(workers);
    }

    /// Returns the readiness reason if the workers are not healthy.
    pub(super) fn not_ready_reason(&self) -> Option<&'static str> {
        match self.lock().as_ref().map(W::is_healthy) {
            Some(true) => None,
            Some(false) => Some("workers"),
            None => Some("stopping"),
        }
    }

    /// Queries the workers, if they are running.
    pub(super) fn query<T>(&self, read: impl FnOnce(&W) -> T) -> Option<T> {
        self.lock().as_ref().map(read)
    }

    fn lock(&self) -> MutexGuard<'_, Option<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All tasks of a zone.
pub(super) struct ServerTasks<W> {
    pub(super) workers: WorkerHandle<W>,
    /// Listeners.
    pub(super) listeners: JoinSet<()>,
    /// Tasks that the others depend on.
    pub(super) background: JoinSet<()>,
    /// Stops listeners and watches.
    pub(super) stop: CancellationToken,
    /// Stops the background tasks, last of all.
    pub(super) shutdown: CancellationToken,
}

impl<W: WorkerSet> ServerTasks<W> {
    pub(super) fn new() -> Self {
        Self {
            workers: WorkerHandle::empty(),
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
