//! Minimum rate and timeout of a request body: all of it within a given time, and after a grace period at no less than
//! a given rate. A trickling body is rejected long before one that is merely large. A body that still arrives at a
//! good rate at its timeout gets more time, so that a large body can be sent over a slow line.

use super::{BodyError, next_chunk};
use crate::limits::HttpLimits;
use axum::BoxError;
use bytes::Bytes;
use http_body::Body;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// Grace period before the minimum rate applies.
const RATE_GRACE: Duration = Duration::from_secs(10);
/// Length of one extension of the timeout.
const TIMEOUT_EXTENSION: Duration = Duration::from_secs(10);
/// Bytes a second that earn an extension. Bytes from before the last extension do not count, so a client must keep
/// sending to hold the memory of a body.
const EXTENSION_RATE: u128 = 128 * 1024;

pub(super) struct BodyDeadline {
    /// Timeout of the body, with its extensions.
    timeout: Duration,
    /// Period that must have the good rate for the next extension, and the bytes received before it.
    rate_window: (Duration, usize),
    /// Minimum bytes a second.
    min_rate: u64,
    /// Start of the first wait, and the timer. Nearly every body is available at once and needs neither.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl BodyDeadline {
    pub(super) fn new(limits: &HttpLimits) -> Self {
        Self {
            timeout: limits.body_timeout,
            rate_window: (limits.body_timeout, 0),
            min_rate: limits.min_body_rate.try_into().unwrap_or(u64::MAX).max(1),
            waiting: None,
        }
    }

    /// Returns the time that a body may take at the minimum rate, for the bytes received.
    fn allowed_time(&self, received: usize) -> Duration {
        let received = u64::try_from(received).unwrap_or(u64::MAX);
        let earned = Duration::from_millis(received.saturating_mul(1000) / self.min_rate);
        RATE_GRACE.saturating_add(earned)
    }

    /// Extends the timeout if the body arrives at a good rate.
    fn extend(&mut self, received: usize) -> bool {
        let (time, before) = self.rate_window;
        let recent = u128::try_from(received.saturating_sub(before)).unwrap_or(u128::MAX);
        if recent.saturating_mul(1000) < EXTENSION_RATE.saturating_mul(time.as_millis()) {
            return false;
        }
        self.timeout = self.timeout.saturating_add(TIMEOUT_EXTENSION);
        self.rate_window = (TIMEOUT_EXTENSION, received);
        true
    }

    /// Returns the next chunk of a body of which `received` bytes have arrived.
    pub(super) async fn next_within_deadline<B>(
        &mut self,
        body: &mut B,
        received: usize,
    ) -> Result<Option<Bytes>, BodyError>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
    {
        let earned = self.allowed_time(received);
        let mut allowed = earned.min(self.timeout);
        let mut chunk = pin!(next_chunk(body));
        poll_fn(|cx| {
            if let Poll::Ready(piece) = chunk.as_mut().poll(cx) {
                return Poll::Ready(piece);
            }
            loop {
                let (start, timer) = self.waiting.get_or_insert_with(|| {
                    let start = Instant::now();
                    (start, Box::pin(tokio::time::sleep_until(start + allowed)))
                });
                let until = *start + allowed;
                // Unconstrained: the timer is polled even if the body has used up the coop budget.
                let ended = pin!(tokio::task::unconstrained(timer.as_mut()));
                if ended.poll(cx).is_pending() {
                    return Poll::Pending;
                }
                // The timer was armed when less had arrived.
                if timer.deadline() < until {
                    timer.as_mut().reset(until);
                    continue;
                }
                if allowed == earned || !self.extend(received) {
                    return Poll::Ready(Err(BodyError::TooSlow { after: allowed }));
                }
                allowed = earned.min(self.timeout);
            }
        })
        .await
    }
}
