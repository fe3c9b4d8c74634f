//! Worker health: heartbeat, failure state and backoff of each background worker. A failure is logged once, not on
//! every retry.

use interzone_backoff::Backoff;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Time that a worker may be failing before the node is unhealthy.
const FAILING_GRACE: Duration = Duration::from_secs(5);

/// Delays of a worker after failures.
const FAILURE_BACKOFF: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));

/// Reason why a worker is unhealthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unhealthy {
    /// The worker has stopped.
    #[error("worker {0} has stopped; restart the node")]
    Stopped(&'static str),
    /// The worker has sent no heartbeat for too long.
    #[error("worker {0} is stuck")]
    Stuck(&'static str),
    /// The worker keeps failing.
    #[error("worker {0} is failing and will keep retrying; see the log")]
    Failing(&'static str),
}

/// Health state of a worker, as its observers see it.
pub struct HealthProbe {
    name: &'static str,
    max_silence: Duration,
    state: Mutex<WorkerState>,
}

struct WorkerState {
    last_tick: Instant,
    failing: Option<(Instant, u32)>,
    stopped: bool,
}

impl HealthProbe {
    fn state(&self) -> MutexGuard<'_, WorkerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the worker is running, ticking and not failing.
    ///
    /// # Errors
    /// The worker has stopped, is stuck, or has been failing for five seconds.
    pub fn check(&self) -> Result<(), Unhealthy> {
        let state = self.state();
        if state.stopped {
            return Err(Unhealthy::Stopped(self.name));
        }
        if state.last_tick.elapsed() > self.max_silence {
            return Err(Unhealthy::Stuck(self.name));
        }
        match state.failing {
            Some((since, _)) if since.elapsed() >= FAILING_GRACE => {
                Err(Unhealthy::Failing(self.name))
            }
            _ => Ok(()),
        }
    }
}

/// The worker's handle of its health state. Dropping it marks the worker as stopped.
pub struct Heartbeat {
    probe: Arc<HealthProbe>,
}

impl Heartbeat {
    /// Creates a heartbeat and its probe. A worker without a heartbeat for longer than `max_silence` counts as stuck.
    pub fn new(name: &'static str, max_silence: Duration) -> (Self, Arc<HealthProbe>) {
        let probe = Arc::new(HealthProbe {
            name,
            max_silence,
            state: Mutex::new(WorkerState {
                last_tick: Instant::now(),
                failing: None,
                stopped: false,
            }),
        });
        let observer = probe.clone();
        (Self { probe }, observer)
    }

    /// Records that the worker is alive.
    pub fn tick(&self) {
        self.probe.state().last_tick = Instant::now();
    }

    /// Records a success and ends a series of failures.
    pub fn report_ok(&self) {
        self.tick();
        if self.probe.state().failing.take().is_some() {
            tracing::info!(worker = self.probe.name, "worker recovered");
        }
    }

    /// Records a failure. Returns the backoff before the next attempt.
    pub fn report_failure(&self, error: &dyn std::error::Error) -> Duration {
        self.tick();
        let mut state = self.probe.state();
        let (since, failures) = state.failing.unwrap_or((Instant::now(), 0));
        state.failing = Some((since, failures.saturating_add(1)));
        drop(state);
        let worker = self.probe.name;
        if failures == 0 {
            tracing::warn!(worker, %error, "worker failed, retrying");
        } else {
            tracing::debug!(worker, %error, failures, "worker still failing");
        }
        FAILURE_BACKOFF.delay(failures)
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.probe.state().stopped = true;
    }
}

#[cfg(test)]
mod tests {
    use super::{Heartbeat, Unhealthy};
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn lasting_failure_is_unhealthy_until_success() {
        let (heartbeat, probe) = Heartbeat::new("x", Duration::from_secs(60));
        let error = std::io::Error::other("no");
        assert_eq!(heartbeat.report_failure(&error), Duration::from_millis(100));
        assert_eq!(heartbeat.report_failure(&error), Duration::from_millis(200));
        assert_eq!(probe.check(), Ok(()), "a short failure is still healthy");
        tokio::time::advance(Duration::from_secs(6)).await;
        assert_eq!(probe.check(), Err(Unhealthy::Failing("x")));
        for _ in 0..40 {
            assert!(heartbeat.report_failure(&error) <= Duration::from_secs(5));
        }
        heartbeat.report_ok();
        assert_eq!(probe.check(), Ok(()));
        assert_eq!(heartbeat.report_failure(&error), Duration::from_millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn silent_or_dropped_worker_is_unhealthy() {
        let (heartbeat, probe) = Heartbeat::new("x", Duration::from_secs(60));
        tokio::time::advance(Duration::from_secs(61)).await;
        assert_eq!(probe.check(), Err(Unhealthy::Stuck("x")));
        heartbeat.tick();
        assert_eq!(probe.check(), Ok(()));
        drop(heartbeat);
        assert_eq!(probe.check(), Err(Unhealthy::Stopped("x")));
    }
}
