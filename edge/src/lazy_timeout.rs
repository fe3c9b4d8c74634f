//! Timeout for futures that are nearly always ready at once.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::time::Sleep;

/// Returns the output of `future`, or `None` if it takes longer than `limit`.
///
/// Arming and cancelling a timer costs more than many responses, and most futures are ready at the first poll.
/// So the timer is armed only when `future` is pending, and arming it causes no extra poll of `future`.
pub(crate) async fn timeout_lazy<F: Future>(future: F, limit: Duration) -> Option<F::Output> {
    let mut work = pin!(future);
    // Boxed: few calls need the timer, and every connection would reserve its space.
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        if let Poll::Ready(output) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        // Unconstrained: the timer is polled even if `future` has used up its coop budget.
        let timer = pin!(tokio::task::unconstrained(timer.as_mut()));
        timer.poll(cx).map(|()| None)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::timeout_lazy;
    use std::future::pending;
    use std::time::Duration;
    use tokio::time::{Instant, timeout};

    const LIMIT: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn future_within_limit_returns_its_output() {
        assert_eq!(timeout_lazy(async { 1 }, LIMIT).await, Some(1));
        let yields = async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            2
        };
        assert_eq!(timeout_lazy(yields, LIMIT).await, Some(2));
        let late = async {
            let nearly = LIMIT - Duration::from_millis(1);
            let waited: Result<(), _> = timeout(nearly, pending()).await;
            waited.err().map(|_| 3)
        };
        assert_eq!(timeout_lazy(late, LIMIT).await, Some(Some(3)));
    }

    #[tokio::test(start_paused = true)]
    async fn pending_future_times_out_at_the_limit() {
        let start = Instant::now();
        assert_eq!(timeout_lazy(pending::<()>(), LIMIT).await, None);
        assert_eq!(start.elapsed(), LIMIT);
    }
}
