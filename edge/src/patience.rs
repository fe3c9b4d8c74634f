//! Waiting with a limit, for what is nearly always there at once. What is waited for is not known here.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::time::Sleep;

/// What `work` comes to, or nothing if it takes longer than `limit`.
///
/// Setting a timer and taking it back costs more than many answers do, and most are there at once. So the
/// timer is set when `work` has to wait, and `work` is not asked again for its sake.
pub(crate) async fn within<F: Future>(work: F, limit: Duration) -> Option<F::Output> {
    let mut work = pin!(work);
    // In a box, for few need the room and every connection would keep it.
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        if let Poll::Ready(done) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(done));
        }
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        // Whatever the work has used up of its turn, its end is looked at.
        let timer = pin!(tokio::task::unconstrained(timer.as_mut()));
        timer.poll(cx).map(|()| None)
    })
    .await
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
