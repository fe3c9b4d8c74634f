//! Calls: bytes in, bytes out. The order of the checks is fixed: parse, token, envelope, method, scope,
//! params, ownership, state. One token counts for a whole batch.
//!
//! How the bytes travel is not known here: HTTP and WebSocket come in by the same way.

pub(crate) mod acp;
mod batch;
mod called;
pub(crate) mod content;
mod context;
mod dispatch;
mod door;
pub(crate) mod errors;
mod explain;
mod known;
mod lifted;
mod pairs;
mod params;
mod record;
mod rejected;
mod store_errors;
pub(crate) mod zone;

pub(crate) use context::{Context, Reply};
pub(crate) use known::Known;
pub(crate) use rejected::unproved_unread;

use crate::zone::Zone;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use called::Called;
use content::{Content, Writing};
use door::Door;
use errors::{Fault, WireError};
use explain::explained;
use futures_util::FutureExt;
use interzone_edge::budget::{Reservation, ShareKey};
use interzone_edge::listener::Peer;
use interzone_edge::request::{Correlation, TraceParent};
use interzone_jsonrpc::{
    ErrorCode, Item, Message, Parsed, RawJson, Request, RequestId, Response, parse,
};
use interzone_protocol::Dialect;
use lifted::Given;
use record::Line;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::time::Instant;

/// Where a request came from, and by which name it is found again.
pub(crate) struct Origin {
    pub(crate) correlation: Correlation,
    pub(crate) peer: Option<Arc<Peer>>,
    /// When it came.
    pub(crate) arrived: Instant,
    /// Whether its caller takes an answer while it is being made.
    pub(crate) live: bool,
    /// Its place in the caller's trace, if it has one.
    pub(crate) trace: Option<TraceParent>,
    /// The door that it came by, where calls go.
    pub(crate) door: &'static str,
}

impl Origin {
    /// Until when its calls may wait for something to answer: all of them together.
    fn until(&self, zone: &Zone) -> Instant {
        self.arrived + zone.sync_budget
    }

    /// The same, answered all at once.
    fn all_at_once(&self) -> Self {
        Self {
            correlation: self.correlation.clone(),
            peer: self.peer.clone(),
            arrived: self.arrived,
            live: false,
            trace: self.trace.clone(),
            door: self.door,
        }
    }
}

/// What came of a request.
pub(crate) struct Served {
    pub(crate) status: StatusCode,
    /// The bytes to send back; none if nothing is due.
    pub(crate) body: Option<Content>,
    /// The name of the request, if a single call gave it another.
    pub(crate) correlation: Option<Correlation>,
    /// What went wrong with a single call or with the whole, for the headers.
    pub(crate) error: Option<Box<WireError>>,
    /// The call that goes on in place of the bytes, and who made it.
    pub(crate) live: Option<(Box<zone::Live>, Option<Known>)>,
    /// To whose share of the memory for answers it counts.
    pub(crate) share: ShareKey,
}

impl Served {
    fn new(status: StatusCode, body: Option<Content>) -> Self {
        Self {
            status,
            body,
            correlation: None,
            error: None,
            live: None,
            share: ShareKey::Unattributed,
        }
    }
}

/// Serves the body of a request whose sender has yet to prove who they are. It is kept for no longer than
/// it is needed.
pub(crate) async fn serve(
    zone: &Zone,
    body: Bytes,
    headers: &HeaderMap,
    origin: &Origin,
) -> Served {
    let parsed = parse(&body, &Door { batch: zone.batch });
    if let Parsed::One(Err(rejection)) = &parsed
        && rejection.problem().code() == ErrorCode::PARSE_ERROR
    {
        return answer(zone, None, parsed, origin, None).await;
    }
    match Known::by(zone, headers, origin.peer.as_deref()).await {
        Ok(known) => {
            let _request = match known.begin_request(zone) {
                Ok(request) => request,
                Err(busy) => return rejected::refused_whole(&parsed, *busy),
            };
            let mut served = match lifted::lift(&parsed, body.len()) {
                None => answer(zone, Some(&known), parsed, origin, None).await,
                Some((bare, given)) => {
                    drop(parsed);
                    drop(body);
                    answer(zone, Some(&known), bare, origin, Some(given)).await
                }
            };
            served.share = known.share();
            if let Some((_, who)) = &mut served.live {
                *who = Some(known);
            }
            served
        }
        Err(error) => rejected::unproved(&parsed, *error),
    }
}

/// Serves one frame of somebody who proved who they are.
pub(crate) async fn serve_known(
    zone: &Zone,
    known: &Known,
    frame: &[u8],
    origin: &Origin,
) -> Option<Content> {
    let parsed = parse(frame, &Door { batch: zone.batch });
    let served = match known.begin_request(zone) {
        Ok(_request) => answer(zone, Some(known), parsed, origin, None).await,
        Err(busy) => rejected::refused_whole(&parsed, *busy),
    };
    served.body
}

/// Serves what was parsed. Without somebody known there is nothing but a rejection in it.
async fn answer(
    zone: &Zone,
    known: Option<&Known>,
    parsed: Parsed<'_>,
    origin: &Origin,
    given: Option<Given>,
) -> Served {
    let mut answers = Writing::to(&parsed);
    match parsed {
        Parsed::One(item) => {
            let Done {
                due,
                outcome,
                correlation,
                reserved,
            } = serve_item(zone, known, item, origin, given).await;
            let status = match &outcome {
                Outcome::Failed(error) => error.http,
                Outcome::Rejected(code) => rejected::status(*code),
                Outcome::Done(_) | Outcome::Silent => StatusCode::OK,
            };
            let (error, live) = match outcome {
                Outcome::Done(Reply::Live(live)) => (None, Some((live, None))),
                outcome => {
                    put(&mut answers, due.as_ref(), &outcome, reserved);
                    match outcome {
                        Outcome::Failed(failed) => (Some(failed), None),
                        _ => (None, None),
                    }
                }
            };
            let body = answers.finish();
            let status = match (&body, &live) {
                (None, None) => StatusCode::NO_CONTENT,
                _ => status,
            };
            Served {
                status,
                body,
                correlation,
                error,
                live,
                share: ShareKey::Unattributed,
            }
        }
        // In a box, so that a single call does not take the room of many.
        Parsed::Batch(items) => {
            let origin = origin.all_at_once();
            let calls = batch::serve(zone, known, items, &origin, &mut answers);
            Box::pin(calls).await;
            batch_served(answers)
        }
    }
}

fn batch_served(answers: Writing) -> Served {
    let body = answers.finish();
    let status = match body {
        Some(_) => StatusCode::OK,
        None => StatusCode::NO_CONTENT,
    };
    Served::new(status, body)
}

/// What somebody waits to be answered.
enum Due<'a> {
    Request(Request<'a>),
    Rejection(Response<'a>),
}

enum Outcome {
    Done(Reply),
    Failed(Box<WireError>),
    Rejected(ErrorCode),
    /// Nothing that anybody is told.
    Silent,
}

/// A message that was served.
struct Done<'a> {
    due: Option<Due<'a>>,
    outcome: Outcome,
    /// The name that the call gave itself.
    correlation: Option<Correlation>,
    /// Memory that was reserved for what was read, of which the answer takes its part.
    reserved: Option<Reservation>,
}

fn put(
    answers: &mut Writing,
    due: Option<&Due<'_>>,
    outcome: &Outcome,
    reserved: Option<Reservation>,
) {
    answers.reserve(reserved);
    match (due, outcome) {
        (Some(Due::Request(request)), Outcome::Done(reply)) => answers.result(request, reply),
        (Some(Due::Request(request)), Outcome::Failed(error)) => {
            answers.push(&request.fail(error.error()));
        }
        (Some(Due::Rejection(response)), _) => answers.push(response),
        _ => {}
    }
}

async fn serve_item<'a>(
    zone: &Zone,
    known: Option<&Known>,
    item: Item<'a>,
    origin: &Origin,
    given: Option<Given>,
) -> Done<'a> {
    let (due, outcome, correlation, reserved) = match item {
        Ok(Message::Request(request)) => {
            let call = (request.method(), request.params(), request.id());
            let (outcome, correlation, reserved) = recorded(zone, known, call, origin, given).await;
            (Some(Due::Request(request)), outcome, correlation, reserved)
        }
        Ok(Message::Notification(note)) => {
            let call = (note.method(), note.params(), None);
            let _ = recorded(zone, known, call, origin, None).await;
            (None, Outcome::Silent, None, None)
        }
        Ok(Message::Response(_)) => (None, Outcome::Silent, None, None),
        Err(rejection) => {
            let code = rejection.problem().code();
            zone.metrics.request("none", "rejected", 0.0);
            let due = rejected::answer(&rejection).map(Due::Rejection);
            (due, Outcome::Rejected(code), None, None)
        }
    };
    Done {
        due,
        outcome,
        correlation,
        reserved,
    }
}

/// A call: its method, its params, its id.
type Call<'c> = (&'c str, Option<&'c RawJson<'c>>, Option<&'c RequestId<'c>>);

/// Serves one call, and leaves word of it.
async fn recorded(
    zone: &Zone,
    known: Option<&Known>,
    (name, params, id): Call<'_>,
    origin: &Origin,
    given: Option<Given>,
) -> (Outcome, Option<Correlation>, Option<Reservation>) {
    let Some(known) = known else {
        let nobody = Box::new(errors::internal("nobody"));
        return (Outcome::Failed(nobody), None, None);
    };
    let began = Instant::now();
    let cx = Context::new(zone, known, origin, id, given);
    // Awaited where it is made: a future that is kept first takes its room twice.
    let outcome = match AssertUnwindSafe(limited(&cx, name, params))
        .catch_unwind()
        .await
    {
        Ok(Ok(reply)) => Outcome::Done(reply),
        Ok(Err(Fault::Wire(error))) => Outcome::Failed(error),
        Ok(Err(Fault::Hub(error))) => {
            let error = Box::pin(explained(&cx, &error)).await;
            Outcome::Failed(Box::new(error))
        }
        Err(_) => {
            tracing::error!(correlation = %cx.correlation(), "a handler panicked");
            Outcome::Failed(Box::new(errors::internal("panic")))
        }
    };
    let zone_call = cx.dialect() == Dialect::Zone;
    let outcome = match outcome {
        Outcome::Failed(error) if zone_call => {
            Outcome::Failed(Box::new(errors::zone::dressed(*error)))
        }
        outcome => outcome,
    };
    let (word, code) = match &outcome {
        Outcome::Failed(error) => (error.word, Some(error.code.get())),
        // How it ends is noted when it has.
        Outcome::Done(Reply::Live(_)) => ("streaming", None),
        _ => ("ok", None),
    };
    Line {
        identity: &known.identity,
        method: cx.method.get().map_or("unknown", |method| method.name()),
        id,
        subject: cx.about.get().map(|id| &**id),
        outcome: word,
        code,
        took: began.elapsed(),
        correlation: cx.correlation(),
        peer: origin.peer.as_deref(),
        zone_call,
    }
    .leave(zone);
    let reserved = cx.memory.into_reservation();
    (outcome, cx.correlation.into_inner(), reserved)
}

async fn limited(
    cx: &Context<'_>,
    name: &str,
    params: Option<&RawJson<'_>>,
) -> Result<Reply, Fault> {
    if let Err(fast) = cx.zone.rate.check(&cx.known.identity.client) {
        cx.zone.metrics.rate_limited();
        if let Some(method @ Called::Zone(_)) = Called::from_name(name) {
            cx.is(method);
            return Err(errors::zone::too_fast(fast.retry_after, fast.limit).into());
        }
        return Err(errors::too_fast(fast.retry_after, fast.limit).into());
    }
    dispatch::call(cx, name, params).await
}
