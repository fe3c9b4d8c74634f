//! What a zone has running, and the one order in which it ends. What it is that runs, the zone decides.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// The workers of a zone of either kind.
pub(super) trait Workers: Send {
    /// Whether all of them are alive and get on.
    fn is_well(&self) -> bool;
    /// Stops them within the grace.
    fn join(self, grace: Duration) -> impl Future<Output = ()> + Send;
}

impl Workers for interzone_execution::workers::Workers {
    fn is_well(&self) -> bool {
        self.healthy().is_ok()
    }

    async fn join(self, grace: Duration) {
        Self::join(self, grace).await;
    }
}

impl Workers for interzone_verification::workers::Workers {
    fn is_well(&self) -> bool {
        self.healthy().is_ok()
    }

    async fn join(self, grace: Duration) {
        Self::join(self, grace).await;
    }
}

/// The workers, for whoever looks after them; none before they begin, and when they end.
pub(super) struct Crew<W>(Arc<Mutex<Option<W>>>);

impl<W> Clone for Crew<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: Workers> Crew<W> {
    pub(super) fn none_yet() -> Self {
        Self(Arc::default())
    }

    pub(super) fn begin(&self, workers: W) {
        *self.lock() = Some(workers);
    }

    /// The word for what is wrong with them, if anything is.
    pub(super) fn unwell(&self) -> Option<&'static str> {
        match self.lock().as_ref().map(W::is_well) {
            Some(true) => None,
            Some(false) => Some("workers"),
            None => Some("stopping"),
        }
    }

    /// What they tell of themselves, if they are there.
    pub(super) fn ask<T>(&self, question: impl FnOnce(&W) -> T) -> Option<T> {
        self.lock().as_ref().map(question)
    }

    fn lock(&self) -> MutexGuard<'_, Option<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Everything that runs.
pub(super) struct Works<W> {
    pub(super) crew: Crew<W>,
    /// Doors.
    pub(super) serving: JoinSet<()>,
    /// What the rest needs.
    pub(super) background: JoinSet<()>,
    /// Ends listening and watching.
    pub(super) stop: CancellationToken,
    /// Ends what the rest needs until the last moment.
    pub(super) end: CancellationToken,
}

impl<W: Workers> Works<W> {
    pub(super) fn new() -> Self {
        Self {
            crew: Crew::none_yet(),
            serving: JoinSet::new(),
            background: JoinSet::new(),
            stop: CancellationToken::new(),
            end: CancellationToken::new(),
        }
    }

    /// Takes nothing new, lets what runs finish within the grace, hands the rest back; then lets `last` end
    /// what the workers needed, and then what everybody did.
    pub(super) async fn wind_up(mut self, grace: Duration, last: impl Future<Output = ()>) {
        self.stop.cancel();
        let workers = self.crew.lock().take();
        let work = async {
            if let Some(workers) = workers {
                workers.join(grace).await;
            }
        };
        let serving = async {
            while let Some(served) = self.serving.join_next().await {
                if let Err(error) = served {
                    tracing::error!(%error, "a door broke");
                }
            }
        };
        tokio::join!(serving, work);
        self.end.cancel();
        last.await;
        while self.background.join_next().await.is_some() {}
    }
}
