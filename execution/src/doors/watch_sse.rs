//! `GET /tasks/{id}/events` and `GET /streams/{id}/events`: server-sent events, first what has
//! happened, then what happens.
//!
//! A watcher is one small state that is looked at when its connection can take more: it has no task
//! and no queue of its own, so a slow one costs nobody anything. It reads on in the log when it can.

use super::answer::{refused, with_headers};
use super::attach::{Attached, attach, named};
use super::seats::Seat;
use crate::events::{self, Told, Untold};
use crate::rpc::acp::convert;
use crate::rpc::{Known, Origin, errors};
use crate::zone::Zone;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use interzone_edge::listener::Peer;
use interzone_edge::telemetry::Open;
use interzone_hub::{Seen, Subject, Watch};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::sync::WaitForCancellationFutureOwned;

/// How long nothing may be said before a sign of life is given.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const STILL_HERE: Bytes = Bytes::from_static(b": keep-alive\n\n");
const EXPIRED: Bytes = Bytes::from_static(b": the token has expired; come back with a new one\n\n");
const REVOKED: Bytes =
    Bytes::from_static(b": the token is not good any more; come back with a new one\n\n");
/// There is no memory for the next event. Clients come back after this many milliseconds and go on where
/// they were.
const BUSY: Bytes =
    Bytes::from_static(b"retry: 5000\n: too much is being sent at this moment; come back\n\n");

pub(super) async fn task(
    State(zone): State<Arc<Zone>>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let id = named(id);
    let subject = convert::task_id(&id).map(Subject::Task);
    let subject = subject.ok_or_else(|| errors::unknown_task(&id));
    watch(zone, request, subject, "tasks.events").await
}

pub(super) async fn stream(
    State(zone): State<Arc<Zone>>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    let id = named(id);
    let subject = convert::stream_id(&id).map(Subject::Stream);
    let subject = subject.ok_or_else(|| errors::unknown_stream(&id));
    watch(zone, request, subject, "streams.events").await
}

async fn watch(
    zone: Arc<Zone>,
    request: Request,
    subject: Result<Subject, errors::WireError>,
    kind: &'static str,
) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>();
    let origin = Origin::of(request.headers(), peer.cloned());
    let (parts, _) = request.into_parts();
    match attach(&zone, &parts, &origin, subject, kind).await {
        Err(error) => refused(&error, &origin),
        Ok(attached) => {
            let body = body(zone, attached, origin.peer.clone());
            let mut response = with_headers(StatusCode::OK, body, &origin);
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            // Proxies that collect answers would hold events back.
            let unbuffered = HeaderName::from_static("x-accel-buffering");
            headers.insert(unbuffered, HeaderValue::from_static("no"));
            response
        }
    }
}

fn body(zone: Arc<Zone>, attached: Attached, peer: Option<Arc<Peer>>) -> Body {
    let now = Instant::now();
    let watcher = Watcher {
        open: (zone.metrics.watcher("sse"), attached.seat),
        stop: Box::pin(zone.stop.clone().cancelled_owned()),
        beat: Box::pin(sleep_until((now + KEEP_ALIVE).min(attached.ends))),
        spoke: now,
        zone,
        known: attached.known,
        peer,
        watch: attached.watch,
        ends: attached.ends,
        over: false,
    };
    Body::from_stream(stream::unfold(watcher, |mut watcher| async {
        let said = watcher.next().await?;
        Some((Ok::<_, Infallible>(said), watcher))
    }))
}

struct Watcher {
    zone: Arc<Zone>,
    known: Known,
    peer: Option<Arc<Peer>>,
    watch: Watch,
    /// Both are kept from one event to the next: when thousands hear the same, setting them anew would
    /// have all of them wait for the same locks.
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Rings when it may be time for a sign of life. What is said meanwhile does not set it back; it is
    /// looked at when it rings.
    beat: Pin<Box<Sleep>>,
    /// When something was last said.
    spoke: Instant,
    ends: Instant,
    over: bool,
    #[expect(dead_code, reason = "counts the watch for as long as it lives")]
    open: (Open, Seat),
}

impl Watcher {
    /// What is sent next; nothing when the watch is over. It ends without a word when the store does
    /// not answer or the zone closes: whoever comes back goes on where they were.
    async fn next(&mut self) -> Option<Bytes> {
        if self.over {
            return None;
        }
        let seen = loop {
            tokio::select! {
                biased;
                () = self.stop.as_mut() => return None,
                seen = self.watch.next() => break seen.ok()??,
                () = self.beat.as_mut() => if let Some(sign) = self.rung() {
                    return Some(sign);
                }
            }
        };
        if let Some(last) = self.unless_revoked() {
            return Some(last);
        }
        self.spoke = Instant::now();
        if self.spoke >= self.ends {
            self.over = true;
            return Some(EXPIRED);
        }
        // Boxed: what it takes to write an event is large, and idle watchers are many.
        match Box::pin(told(&self.zone, &self.known, &self.watch, seen)).await {
            Ok(told) => Some(told.sse),
            Err(Untold::Hub(_)) => None,
            Err(Untold::NoRoom(_)) => {
                self.zone.metrics.turned_away("no_room");
                self.over = true;
                Some(BUSY)
            }
        }
    }
}

impl Watcher {
    /// What is due now that the timer has rung, if nothing was said for long enough; sets it again.
    fn rung(&mut self) -> Option<Bytes> {
        let now = Instant::now();
        self.over = now >= self.ends;
        if self.over {
            return Some(EXPIRED);
        }
        let silent = now >= self.spoke + KEEP_ALIVE;
        if silent {
            self.spoke = now;
        }
        let next = (self.spoke + KEEP_ALIVE).min(self.ends);
        self.beat.as_mut().reset(next);
        silent.then(|| self.unless_revoked().unwrap_or(STILL_HERE))
    }

    /// The last words to somebody whose token was taken back.
    fn unless_revoked(&mut self) -> Option<Bytes> {
        self.over = !self.known.is_still(&self.zone, self.peer.as_deref());
        self.over.then_some(REVOKED)
    }
}

/// What was seen, as it is told.
pub(super) async fn told(
    zone: &Zone,
    known: &Known,
    watch: &Watch,
    seen: Seen,
) -> Result<Told, Untold> {
    let share = known.share();
    match seen {
        Seen::Event(event) => {
            zone.told
                .told(&zone.hub, &event, &zone.limits, &share)
                .await
        }
        Seen::Text { run, offset, delta } => {
            let Subject::Task(id) = watch.subject() else {
                return Ok(Told::nothing());
            };
            match events::text(id, run, offset, &delta) {
                Some(notice) => Told::early(notice, &zone.limits, &share),
                None => Ok(Told::nothing()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_answer<W, F>(_: impl FnOnce(W) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_watcher_is_small() {
        let waiting = size_of_answer(|watcher: &'static mut Watcher| watcher.next());
        let total = waiting + size_of::<Watcher>();
        assert!(
            total <= 1_280,
            "{} and {waiting} bytes",
            size_of::<Watcher>()
        );
    }
}
