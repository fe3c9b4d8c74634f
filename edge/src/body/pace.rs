//! How fast a body must arrive: all of it in a given time, and after a grace at no less than a given rate. A
//! body that trickles is ended long before one that is merely large.

use super::{BodyError, next};
use crate::limits::HttpLimits;
use axum::BoxError;
use bytes::Bytes;
use http_body::Body;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;
use tokio::time::{Instant, Sleep};

/// How long a body may take before its rate counts.
const GRACE: Duration = Duration::from_secs(10);

pub(super) struct Pace {
    /// The longest that a body may take.
    most: Duration,
    /// The least bytes in a second.
    rate: u64,
    /// When the body was first waited for, and a timer for when it is too slow. Nearly every body is there at
    /// once and needs neither.
    waiting: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Pace {
    pub(super) fn new(limits: &HttpLimits) -> Self {
        Self {
            most: limits.body_time,
            rate: limits.body_rate.try_into().unwrap_or(u64::MAX).max(1),
            waiting: None,
        }
    }

    /// How long a body may take of which so much has arrived.
    fn allowed(&self, received: usize) -> Duration {
        let received = u64::try_from(received).unwrap_or(u64::MAX);
        let earned = Duration::from_millis(received.saturating_mul(1000) / self.rate);
        GRACE.saturating_add(earned).min(self.most)
    }

    /// The next piece of a body of which so much has arrived.
    pub(super) async fn next<B>(
        &mut self,
        body: &mut B,
        received: usize,
    ) -> Result<Option<Bytes>, BodyError>
    where
        B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
    {
        let allowed = self.allowed(received);
        let mut piece = pin!(next(body));
        poll_fn(|cx| {
            if let Poll::Ready(piece) = piece.as_mut().poll(cx) {
                return Poll::Ready(piece);
            }
            let (began, timer) = self.waiting.get_or_insert_with(|| {
                let began = Instant::now();
                (began, Box::pin(tokio::time::sleep_until(began + allowed)))
            });
            let until = *began + allowed;
            loop {
                // Whatever the body has used up of this task's turn, the time is looked at.
                let ended = pin!(tokio::task::unconstrained(timer.as_mut()));
                if ended.poll(cx).is_pending() {
                    return Poll::Pending;
                }
                // The timer was set when less had arrived.
                if timer.deadline() >= until {
                    return Poll::Ready(Err(BodyError::TooSlow { after: allowed }));
                }
                timer.as_mut().reset(until);
            }
        })
        .await
    }
}
