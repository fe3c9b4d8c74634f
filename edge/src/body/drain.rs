//! Rate limit for draining rejected bodies. They are read only so that clients see the rejection, and clients without a
//! token can send as many as they like: the CPU time for all of them together is bounded.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Maximum number of bodies drained at the same time. Further ones are closed at once.
pub(super) static SLOTS: Semaphore = Semaphore::const_new(256);
/// Bytes a second of all of them together: a few percent of what one core decrypts.
const DRAIN_RATE: u64 = 16 * 1024 * 1024;

/// Time at which the next chunk may be read.
static NEXT_READ: Mutex<Option<Instant>> = Mutex::new(None);

/// Waits until the rate limit allows a chunk of this size.
pub(super) async fn throttle(bytes: usize) {
    let now = Instant::now();
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    let cost = Duration::from_micros(bytes.saturating_mul(1_000_000) / DRAIN_RATE);
    let until = {
        let mut next = NEXT_READ.lock().unwrap_or_else(PoisonError::into_inner);
        let until = next.unwrap_or(now).max(now) + cost;
        *next = Some(until);
        until
    };
    tokio::time::sleep_until(until).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn concurrent_drains_share_the_rate() {
        let start = Instant::now();
        let chunk = usize::try_from(DRAIN_RATE / 8).unwrap();
        tokio::join!(
            throttle(chunk),
            throttle(chunk),
            throttle(chunk),
            throttle(chunk)
        );
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(500), "{took:?}");
        assert!(took < Duration::from_millis(510), "{took:?}");
    }
}
