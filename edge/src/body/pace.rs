//! How fast a body must arrive: all of it in a given time, and after a grace at no less than a given rate. A
//! body that trickles is ended long before one that is merely large. One that keeps arriving at a good rate when its
//! time is over is given more, so that a large body can be sent over a slow line.

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
/// How much longer than its time a body may take at once.
const EXTENSION: Duration = Duration::from_secs(10);
/// Bytes in a second that earn an extension. What arrived before the last extension does not count, so a caller must
/// go on sending to hold the memory of a body.
const GOOD_RATE: u128 = 128 * 1024;

pub(super) struct Pace {
    /// The longest that the body may take, with its extensions.
    most: Duration,
    /// The time that must have brought bytes at the good rate for the next extension, and what had arrived before.
    judged: (Duration, usize),
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
            judged: (limits.body_time, 0),
            rate: limits.body_rate.try_into().unwrap_or(u64::MAX).max(1),
            waiting: None,
        }
    }

    /// How long a body may take at the least rate of which so much has arrived.
    fn earned(&self, received: usize) -> Duration {
        let received = u64::try_from(received).unwrap_or(u64::MAX);
        let earned = Duration::from_millis(received.saturating_mul(1000) / self.rate);
        GRACE.saturating_add(earned)
    }

    /// Gives more time to a body whose time is over, if it arrives at a good rate.
    fn extend(&mut self, received: usize) -> bool {
        let (time, before) = self.judged;
        let arrived = u128::try_from(received.saturating_sub(before)).unwrap_or(u128::MAX);
        if arrived.saturating_mul(1000) < GOOD_RATE.saturating_mul(time.as_millis()) {
            return false;
        }
        self.most = self.most.saturating_add(EXTENSION);
        self.judged = (EXTENSION, received);
        true
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
        let earned = self.earned(received);
        let mut allowed = earned.min(self.most);
        let mut piece = pin!(next(body));
        poll_fn(|cx| {
            if let Poll::Ready(piece) = piece.as_mut().poll(cx) {
                return Poll::Ready(piece);
            }
            loop {
                let (began, timer) = self.waiting.get_or_insert_with(|| {
                    let began = Instant::now();
                    (began, Box::pin(tokio::time::sleep_until(began + allowed)))
                });
                let until = *began + allowed;
                // Whatever the body has used up of this task's turn, the time is looked at.
                let ended = pin!(tokio::task::unconstrained(timer.as_mut()));
                if ended.poll(cx).is_pending() {
                    return Poll::Pending;
                }
                // The timer was set when less had arrived.
                if timer.deadline() < until {
                    timer.as_mut().reset(until);
                    continue;
                }
                if allowed == earned || !self.extend(received) {
                    return Poll::Ready(Err(BodyError::TooSlow { after: allowed }));
                }
                allowed = earned.min(self.most);
            }
        })
        .await
    }
}
