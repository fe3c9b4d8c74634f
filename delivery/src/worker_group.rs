//! The workers of a node: their tasks, their health and their shutdown.

use crate::worker_health::{HealthProbe, Heartbeat, Unhealthy};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Time without a heartbeat after which a polling worker counts as stuck.
pub const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(60);

/// Workers that are started and stopped together.
///
/// Dropping the group aborts them, as if the node had crashed; [`WorkerGroup::join`] stops them gracefully.
pub struct WorkerGroup {
    tasks: JoinSet<()>,
    probes: Vec<Arc<HealthProbe>>,
    stop: CancellationToken,
    kill: CancellationToken,
    kill_timeout: Duration,
}

impl WorkerGroup {
    /// Creates an empty group. Its workers stop when `stop` is cancelled. `kill_timeout` is the time they have to
    /// release their work after the grace period of the shutdown.
    pub fn new(stop: &CancellationToken, kill_timeout: Duration) -> Self {
        Self {
            tasks: JoinSet::new(),
            probes: Vec::new(),
            stop: stop.child_token(),
            kill: CancellationToken::new(),
            kill_timeout,
        }
    }

    /// Cancelled when the workers must start nothing new.
    pub fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Cancelled when the workers must release the work in progress.
    pub fn kill_token(&self) -> CancellationToken {
        self.kill.clone()
    }

    /// Starts a worker. It counts as stuck if its heartbeat is silent for longer than `max_silence`. Needs a Tokio
    /// runtime.
    pub fn spawn<F>(
        &mut self,
        name: &'static str,
        max_silence: Duration,
        work: impl FnOnce(Heartbeat) -> F,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let (heartbeat, probe) = Heartbeat::new(name, max_silence);
        self.probes.push(probe);
        self.tasks.spawn(work(heartbeat));
    }

    /// Checks that every worker is alive and makes progress.
    ///
    /// # Errors
    /// Names the first worker that is not.
    pub fn check_health(&self) -> Result<(), Unhealthy> {
        self.probes.iter().try_for_each(|probe| probe.check())
    }

    /// Stops the workers: nothing new starts, and work in progress may finish within the grace period. Then it is
    /// released, so that another node, or the next start of this one, takes it over at once.
    pub async fn join(mut self, grace: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(grace, self.join_all()).await.is_ok() {
            return;
        }
        self.kill.cancel();
        if tokio::time::timeout(self.kill_timeout, self.join_all())
            .await
            .is_err()
        {
            tracing::error!("workers did not stop in time, aborting");
        }
    }

    async fn join_all(&mut self) {
        while let Some(joined) = self.tasks.join_next().await {
            if let Err(error) = joined {
                tracing::error!(%error, "worker panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn join_kills_workers_after_the_grace_period() {
        let mut group = WorkerGroup::new(&CancellationToken::new(), SECOND);
        let (stop, kill) = (group.stop_token(), group.kill_token());
        let released = CancellationToken::new();
        let guard = released.clone().drop_guard();
        group.spawn("slow", SECOND, |_heartbeat| async move {
            stop.cancelled().await;
            kill.cancelled().await;
            drop(guard);
        });
        let started_at = tokio::time::Instant::now();
        group.join(10 * SECOND).await;
        assert_eq!(started_at.elapsed(), 10 * SECOND);
        assert!(released.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn join_aborts_workers_that_ignore_the_kill() {
        let mut group = WorkerGroup::new(&CancellationToken::new(), SECOND);
        let aborted = CancellationToken::new();
        let guard = aborted.clone().drop_guard();
        group.spawn("stuck", SECOND, |_heartbeat| async move {
            let _guard = guard;
            std::future::pending().await
        });
        group.join(SECOND).await;
        aborted.cancelled().await;
    }

    #[tokio::test]
    async fn ended_or_panicked_worker_is_unhealthy() {
        let stop = CancellationToken::new();
        let mut group = WorkerGroup::new(&stop, SECOND);
        assert_eq!(group.check_health(), Ok(()));
        let stopping = group.stop_token();
        group.spawn("polling", SECOND, |heartbeat| async move {
            stopping.cancelled().await;
            drop(heartbeat);
        });
        assert_eq!(group.check_health(), Ok(()));
        stop.cancel();
        while group.check_health().is_ok() {
            tokio::task::yield_now().await;
        }
        assert_eq!(group.check_health(), Err(Unhealthy::Stopped("polling")));
        group.join(SECOND).await;
    }
}
