//! Waiting with a limit, for what is nearly always there at once. What is waited for is not known here.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// What `work` comes to, or nothing if it takes longer than `limit`.
///
/// Setting a timer and taking it back costs more than many answers do, and the first poll of a request
/// hardly ever ends it, because its body is handed over between two polls. So the timer is set at the
/// second one, which we see to ourselves.
pub(crate) async fn within<F: Future>(work: F, limit: Duration) -> Option<F::Output> {
    let mut work = pin!(work);
    let mut again = false;
    let first = poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if again => Poll::Ready(None),
        Poll::Pending => {
            again = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
    match first {
        Some(done) => Some(done),
        // In a box, for few need the room and every connection would keep it.
        None => Box::pin(tokio::time::timeout(limit, work)).await.ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::within;
    use std::future::pending;
    use std::time::Duration;
    use tokio::time::{Instant, timeout};

    const LIMIT: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn what_comes_in_time_is_handed_over() {
        assert_eq!(within(async { 1 }, LIMIT).await, Some(1));
        let yields = async {
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            2
        };
        assert_eq!(within(yields, LIMIT).await, Some(2));
        let late = async {
            let nearly = LIMIT - Duration::from_millis(1);
            let waited: Result<(), _> = timeout(nearly, pending()).await;
            waited.err().map(|_| 3)
        };
        assert_eq!(within(late, LIMIT).await, Some(Some(3)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_is_given_up_at_the_limit() {
        let began = Instant::now();
        assert_eq!(within(pending::<()>(), LIMIT).await, None);
        assert_eq!(began.elapsed(), LIMIT);
    }
}
