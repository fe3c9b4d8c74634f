//! Single-flight readiness check.
//!
//! Any client may ask without a token, and a check costs a durable write, so concurrent requests share one check and
//! its result. The caller supplies the check.

use futures_util::future::BoxFuture;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Time for which the result of a check is reused, from the start of the check. Probes, which ask every few seconds,
/// get a new one each.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time that a request waits for a check, from the start of that check.
const RESULT_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout after which a hanging check is abandoned and another one may start. Until then it is the only one, so
/// that a hanging store does not collect checks.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);

type CheckFn<T> = Arc<dyn Fn() -> BoxFuture<'static, T> + Send + Sync>;

/// Check whose result all concurrent callers share. Runs only when a caller asks.
pub struct SharedCheck<T> {
    run: CheckFn<T>,
    interval: Duration,
    last: Mutex<Option<StartedCheck<T>>>,
}

struct StartedCheck<T> {
    at: Instant,
    result: watch::Receiver<Option<T>>,
}

impl<T: Clone + Send + Sync + 'static> SharedCheck<T> {
    /// Creates a check that runs at most once per interval. It has not run yet.
    pub fn new<F>(interval: Duration, run: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = T> + Send + 'static,
    {
        Self {
            run: Arc::new(move || Box::pin(run())),
            interval,
            last: Mutex::new(None),
        }
    }

    /// Returns the result of a check that is running or started within the interval, else of a new one. `None` if
    /// it has not finished two seconds after its start. Needs a runtime.
    pub async fn result(&self) -> Option<T> {
        let (mut result, deadline) = self.current_or_start();
        let result = tokio::time::timeout_at(deadline, result.wait_for(Option::is_some)).await;
        // An error means that the check timed out.
        result.ok()?.ok()?.clone()
    }

    fn current_or_start(&self) -> (watch::Receiver<Option<T>>, Instant) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let started = match last.take() {
            Some(started) if started.is_running() || now < started.at + self.interval => started,
            _ => self.start(now),
        };
        let shared = (started.result.clone(), started.at + RESULT_TIMEOUT);
        *last = Some(started);
        shared
    }

    /// Starts a check in its own task: a caller who disconnects does not cancel it for the others.
    fn start(&self, at: Instant) -> StartedCheck<T> {
        let (sender, result) = watch::channel(None);
        let check = (self.run)();
        tokio::spawn(async move {
            if let Ok(value) = tokio::time::timeout(CHECK_TIMEOUT, check).await {
                sender.send_replace(Some(value));
            }
        });
        StartedCheck { at, result }
    }
}

impl<T> StartedCheck<T> {
    fn is_running(&self) -> bool {
        self.result.borrow().is_none() && self.result.has_changed().is_ok()
    }
}

impl<T> fmt::Debug for SharedCheck<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedCheck").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{CHECK_INTERVAL, CHECK_TIMEOUT, RESULT_TIMEOUT, SharedCheck};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::sync::Semaphore;
    use tokio::task::JoinSet;
    use tokio::time::{Instant, advance};

    /// Check that returns its own number as soon as a permit is released.
    struct CountedCheck {
        check: Arc<SharedCheck<usize>>,
        runs: Arc<AtomicUsize>,
        release: Arc<Semaphore>,
    }

    fn probe(permits: usize) -> CountedCheck {
        let runs = Arc::new(AtomicUsize::new(0));
        let release = Arc::new(Semaphore::new(permits));
        let (counted, gate) = (runs.clone(), release.clone());
        let check = SharedCheck::new(CHECK_INTERVAL, move || {
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            let gate = gate.clone();
            async move {
                gate.acquire().await.unwrap().forget();
                number
            }
        });
        CountedCheck {
            check: Arc::new(check),
            runs,
            release,
        }
    }

    impl CountedCheck {
        fn call_concurrently(&self, callers: usize) -> JoinSet<Option<usize>> {
            let mut calls = JoinSet::new();
            for _ in 0..callers {
                let check = self.check.clone();
                calls.spawn(async move { check.result().await });
            }
            calls
        }

        fn runs(&self) -> usize {
            self.runs.load(Ordering::SeqCst)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_one_check() {
        let probe = probe(0);
        let calls = probe.call_concurrently(1000);
        tokio::task::yield_now().await;
        probe.release.add_permits(1);
        assert_eq!(calls.join_all().await, vec![Some(1); 1000]);
        assert_eq!(probe.runs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn check_runs_on_demand_at_most_once_per_interval() {
        let probe = probe(100);
        assert_eq!(probe.check.result().await, Some(1));
        advance(CHECK_INTERVAL - Duration::from_millis(1)).await;
        assert_eq!(probe.check.result().await, Some(1));
        advance(Duration::from_millis(1)).await;
        assert_eq!(probe.check.result().await, Some(2));
        // An hour later, the first caller gets the current state.
        advance(Duration::from_secs(3600)).await;
        assert_eq!(probe.runs(), 2);
        assert_eq!(probe.check.result().await, Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn hanging_check_times_out_and_is_not_repeated() {
        let probe = probe(0);
        let start = Instant::now();
        assert_eq!(probe.call_concurrently(10).join_all().await, vec![None; 10]);
        assert_eq!(start.elapsed(), RESULT_TIMEOUT);
        // Callers that ask while it hangs do not wait at all.
        for _ in 0..10 {
            assert_eq!(probe.check.result().await, None);
        }
        assert_eq!((start.elapsed(), probe.runs()), (RESULT_TIMEOUT, 1));
        // Once it has finished, the next caller starts another one.
        probe.release.add_permits(2);
        tokio::task::yield_now().await;
        assert_eq!(probe.check.result().await, Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn check_that_never_finishes_is_abandoned() {
        let probe = probe(0);
        assert_eq!(probe.check.result().await, None);
        advance(CHECK_TIMEOUT).await;
        tokio::task::yield_now().await;
        probe.release.add_permits(1);
        assert_eq!(probe.check.result().await, Some(2));
        assert_eq!(probe.runs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn disconnected_caller_does_not_cancel_a_shared_check() {
        let probe = probe(0);
        let mut first = probe.call_concurrently(1);
        tokio::task::yield_now().await;
        let second = probe.call_concurrently(1);
        tokio::task::yield_now().await;
        first.shutdown().await;
        probe.release.add_permits(1);
        assert_eq!(second.join_all().await, [Some(1)]);
        assert_eq!(probe.runs(), 1);
    }
}
