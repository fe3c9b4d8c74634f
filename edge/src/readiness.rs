//! One check for all requests that ask whether the zone is ready.
//!
//! Every caller may ask without a token, and a check costs a durable write, so requests share one check
//! and its result for a moment. What is checked is told from outside: no store may enter here.

use futures_util::future::BoxFuture;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long the result of a check that writes counts, from the start of the check. Probes, which ask
/// every few seconds, get a new one each.
pub const INTERVAL: Duration = Duration::from_secs(1);
/// How long a request waits for a check, from the start of that check.
const WAIT: Duration = Duration::from_secs(2);
/// When a check that does not end is given up, so that another one may begin. Until then it is the only
/// one: what hangs is not asked again and again.
const GIVE_UP: Duration = Duration::from_secs(30);

type Run<T> = Arc<dyn Fn() -> BoxFuture<'static, T> + Send + Sync>;

/// A check whose result all concurrent callers share. It runs only when a caller asks.
pub struct SharedCheck<T> {
    run: Run<T>,
    interval: Duration,
    last: Mutex<Option<Started<T>>>,
}

struct Started<T> {
    at: Instant,
    result: watch::Receiver<Option<T>>,
}

impl<T: Clone + Send + Sync + 'static> SharedCheck<T> {
    /// A check that has not run yet, and that runs at most once in this interval.
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

    /// The result of a check that still runs or began within the interval, else of a new one. `None` if
    /// it has not ended two seconds after it began. Needs a runtime.
    pub async fn result(&self) -> Option<T> {
        let (mut result, deadline) = self.current();
        let result = tokio::time::timeout_at(deadline, result.wait_for(Option::is_some)).await;
        // An error means that the check was given up.
        result.ok()?.ok()?.clone()
    }

    fn current(&self) -> (watch::Receiver<Option<T>>, Instant) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let started = match last.take() {
            Some(started) if started.is_running() || now < started.at + self.interval => started,
            _ => self.start(now),
        };
        let shared = (started.result.clone(), started.at + WAIT);
        *last = Some(started);
        shared
    }

    /// Starts a check in a task of its own: a caller who hangs up does not end it for the others.
    fn start(&self, at: Instant) -> Started<T> {
        let (sender, result) = watch::channel(None);
        let check = (self.run)();
        tokio::spawn(async move {
            if let Ok(value) = tokio::time::timeout(GIVE_UP, check).await {
                sender.send_replace(Some(value));
            }
        });
        Started { at, result }
    }
}

impl<T> Started<T> {
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
    use super::{GIVE_UP, INTERVAL, SharedCheck, WAIT};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;
    use tokio::sync::Semaphore;
    use tokio::task::JoinSet;
    use tokio::time::{Instant, advance};

    /// A check that gives its own number, as soon as it is let go.
    struct Probe {
        check: Arc<SharedCheck<usize>>,
        runs: Arc<AtomicUsize>,
        release: Arc<Semaphore>,
    }

    fn probe(permits: usize) -> Probe {
        let runs = Arc::new(AtomicUsize::new(0));
        let release = Arc::new(Semaphore::new(permits));
        let (counted, gate) = (runs.clone(), release.clone());
        let check = SharedCheck::new(INTERVAL, move || {
            let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
            let gate = gate.clone();
            async move {
                gate.acquire().await.unwrap().forget();
                number
            }
        });
        Probe {
            check: Arc::new(check),
            runs,
            release,
        }
    }

    impl Probe {
        fn ask(&self, callers: usize) -> JoinSet<Option<usize>> {
            let mut asked = JoinSet::new();
            for _ in 0..callers {
                let check = self.check.clone();
                asked.spawn(async move { check.result().await });
            }
            asked
        }

        fn runs(&self) -> usize {
            self.runs.load(Ordering::SeqCst)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_one_check() {
        let probe = probe(0);
        let asked = probe.ask(1000);
        tokio::task::yield_now().await;
        probe.release.add_permits(1);
        assert_eq!(asked.join_all().await, vec![Some(1); 1000]);
        assert_eq!(probe.runs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn there_is_at_most_one_check_a_second_and_none_unasked() {
        let probe = probe(100);
        assert_eq!(probe.check.result().await, Some(1));
        advance(INTERVAL - Duration::from_millis(1)).await;
        assert_eq!(probe.check.result().await, Some(1));
        advance(Duration::from_millis(1)).await;
        assert_eq!(probe.check.result().await, Some(2));
        // Later, the first to ask gets the state of now, not that of an hour ago.
        advance(Duration::from_secs(3600)).await;
        assert_eq!(probe.runs(), 2);
        assert_eq!(probe.check.result().await, Some(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_is_answered_in_time_and_not_repeated() {
        let probe = probe(0);
        let began = Instant::now();
        assert_eq!(probe.ask(10).join_all().await, vec![None; 10]);
        assert_eq!(began.elapsed(), WAIT);
        // Those who ask while it hangs do not wait at all.
        for _ in 0..10 {
            assert_eq!(probe.check.result().await, None);
        }
        assert_eq!((began.elapsed(), probe.runs()), (WAIT, 1));
        // It ends after all: the next one to ask starts another one.
        probe.release.add_permits(2);
        tokio::task::yield_now().await;
        assert_eq!(probe.check.result().await, Some(2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_never_ends_is_given_up() {
        let probe = probe(0);
        assert_eq!(probe.check.result().await, None);
        advance(GIVE_UP).await;
        tokio::task::yield_now().await;
        probe.release.add_permits(1);
        assert_eq!(probe.check.result().await, Some(2));
        assert_eq!(probe.runs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_who_hangs_up_does_not_end_the_check_of_others() {
        let probe = probe(0);
        let mut first = probe.ask(1);
        tokio::task::yield_now().await;
        let second = probe.ask(1);
        tokio::task::yield_now().await;
        first.shutdown().await;
        probe.release.add_permits(1);
        assert_eq!(second.join_all().await, [Some(1)]);
        assert_eq!(probe.runs(), 1);
    }
}
