//! `execute_task` with `Accept: text/event-stream`: server-sent events on the call itself. Each is one
//! JSON-RPC message, and the last is the response.
//!
//! Like any watcher it is one small state that is looked at when its connection can take more.

use super::answer::{counted, renamed, with_headers};
use super::attach::ends;
use crate::rpc::content::Content;
use crate::rpc::zone::{Live, Said};
use crate::rpc::{Known, Origin, Served};
use crate::zone::Zone;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use interzone_edge::body::{self, BodyError};
use interzone_edge::budget::ShareKey;
use interzone_edge::limits::HttpLimits;
use interzone_edge::telemetry::Open;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long nothing may be said before a sign of life is given.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

const STILL_HERE: Bytes = Bytes::from_static(b": keep-alive\n\n");
const BEGIN: Bytes = Bytes::from_static(b"event: message\ndata: ");
const END: Bytes = Bytes::from_static(b"\n\n");

pub(super) fn answer(
    zone: &Arc<Zone>,
    live: Live,
    known: Known,
    served: &Served,
    origin: &Origin,
) -> Response {
    let caller = Caller {
        open: zone.metrics.watcher("call"),
        ends: ends(zone, known.identity.expires_at()),
        zone: Arc::clone(zone),
        origin: Origin {
            correlation: origin.correlation.clone(),
            peer: origin.peer.clone(),
            trace: origin.trace.clone(),
            ..*origin
        },
        known,
        live: Some(live),
        said: VecDeque::new(),
    };
    let body = Body::from_stream(stream::unfold(caller, |mut caller| async {
        let said = caller.next().await?;
        Some((Ok::<_, Infallible>(said), caller))
    }));
    let mut response = with_headers(StatusCode::OK, body, origin);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies that collect answers would hold events back.
    let unbuffered = HeaderName::from_static("x-accel-buffering");
    headers.insert(unbuffered, HeaderValue::from_static("no"));
    renamed(&mut response, served.correlation.as_ref());
    response
}

/// Whoever waits on the line.
struct Caller {
    zone: Arc<Zone>,
    origin: Origin,
    known: Known,
    ends: Instant,
    /// Gone when the response is on its way.
    live: Option<Live>,
    /// What is on its way.
    said: VecDeque<Bytes>,
    #[expect(dead_code, reason = "counts the call for as long as it lives")]
    open: Open,
}

/// What happened first.
enum Next {
    Said(Said),
    Beat,
    Closing,
}

impl Caller {
    /// What is sent next; nothing when the response has been sent.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.said.pop_front() {
                return Some(piece);
            }
            let live = self.live.as_mut()?;
            let beat = (Instant::now() + KEEP_ALIVE).min(self.ends);
            let next = tokio::select! {
                biased;
                () = self.zone.stop.cancelled() => Next::Closing,
                said = live.next(&self.zone, &self.origin) => Next::Said(said),
                () = tokio::time::sleep_until(beat) => Next::Beat,
            };
            let good = Instant::now() < self.ends
                && self.known.is_still(&self.zone, self.origin.peer.as_deref());
            let said = match next {
                Next::Closing => live.accepted(&self.zone, &self.origin),
                Next::Beat | Next::Said(Said::Note(_) | Said::Nothing) if !good => {
                    live.accepted(&self.zone, &self.origin)
                }
                Next::Beat => return Some(STILL_HERE),
                Next::Said(said) => said,
            };
            let share = self.known.share();
            match said {
                Said::Nothing => {}
                Said::Note(note) => {
                    // What is left out is told with the answer.
                    let _ = put(note, &mut self.said, &self.zone.limits, &share);
                }
                Said::Last(last) => {
                    if put(last, &mut self.said, &self.zone.limits, &share).is_err() {
                        self.zone.metrics.turned_away("no_room");
                        // A few bytes, which need no memory for answers: the task is asked for later.
                        let _ = put(live.postponed(), &mut self.said, &self.zone.limits, &share);
                    }
                    self.live = None;
                }
            }
        }
    }
}

/// Puts a message on its way, with its part of the memory for answers until it is sent. It is one line: all
/// that others wrote in it is between the quotes of a string.
fn put(
    mut message: Content,
    said: &mut VecDeque<Bytes>,
    limits: &HttpLimits,
    share: &ShareKey,
) -> Result<(), BodyError> {
    let mut reserved = message.take_reservation();
    match message.into_one() {
        Ok(whole) => {
            let event = [&BEGIN, whole.as_slice(), &END].concat();
            let event = body::hold_within(event, 0, limits, share, &mut reserved)?;
            said.push_back(event);
        }
        Err(large) => {
            let pieces = counted(large.pieces(), limits, share, &mut reserved)?;
            said.push_back(BEGIN);
            said.extend(pieces);
            said.push_back(END);
        }
    }
    Ok(())
}
