//! How fast refused bodies are discarded. They are read only so that their callers see the refusal, and callers without
//! a token can send as many as they like: the processor time for all of them together is bounded.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// Bodies that are discarded at the same time. Further ones are closed at once.
pub(super) static SLOTS: Semaphore = Semaphore::const_new(256);
/// Bytes a second of all of them together: a few percent of what one core decrypts.
const RATE: u64 = 16 * 1024 * 1024;

/// When the next piece may be read.
static NEXT: Mutex<Option<Instant>> = Mutex::new(None);

/// Waits until a piece of so many bytes has been paid for.
pub(super) async fn pace(bytes: usize) {
    let now = Instant::now();
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    let cost = Duration::from_micros(bytes.saturating_mul(1_000_000) / RATE);
    let until = {
        let mut next = NEXT.lock().unwrap_or_else(PoisonError::into_inner);
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
    async fn all_pieces_together_are_read_at_the_rate() {
        let began = Instant::now();
        let piece = usize::try_from(RATE / 8).unwrap();
        tokio::join!(pace(piece), pace(piece), pace(piece), pace(piece));
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(500), "{took:?}");
        assert!(took < Duration::from_millis(510), "{took:?}");
    }
}
