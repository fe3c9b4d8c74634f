//! Calls: bytes in, bytes out. The order of the checks is fixed: parse, token, envelope, method, scope,
//! params, ownership, state. One token counts for a whole batch.
//!
//! How the bytes travel is not known here: HTTP and WebSocket come in by the same way.

pub(crate) mod acp;
mod batch;
mod dispatch;
pub(crate) mod errors;
mod known;
mod pairs;
mod params;

pub(crate) use known::Known;

use crate::zone::Zone;
use axum::http::{HeaderMap, StatusCode};
use errors::{Fault, WireError, finished_at, to_wire};
use futures_util::FutureExt;
use interzone_edge::audit::Entry;
use interzone_edge::listener::Peer;
use interzone_edge::request::Correlation;
use interzone_hub::ports::Pair;
use interzone_hub::{Caller, Hub, HubError};
use interzone_jsonrpc::{
    Answers, Batches, ErrorCode, Item, Message, Parsed, Policy, RawJson, Request, RequestId,
    Response, Rulebook, parse,
};
use interzone_protocol::acp::{Method, MethodResult, PairList, Scope, TaskList};
use interzone_protocol::{Dialect, JsonRpcDoor};
use serde::Serialize;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::{Instant, SystemTime};

/// Where a request came from, and by which name it is found again.
pub(crate) struct Origin {
    pub(crate) correlation: Correlation,
    pub(crate) peer: Option<Arc<Peer>>,
}

/// What came of a request.
pub(crate) struct Served {
    pub(crate) status: StatusCode,
    /// The bytes to send back; none if nothing is due.
    pub(crate) body: Option<Vec<u8>>,
    /// What went wrong with a single call or with the whole, for the headers.
    pub(crate) error: Option<Box<WireError>>,
}

/// The rules of the shared endpoint, with as long batches as are configured.
struct Door {
    batch: usize,
}

impl Rulebook for Door {
    fn door(&self) -> Policy {
        Policy {
            batches: Batches::UpTo(self.batch),
            ..JsonRpcDoor.door()
        }
    }

    fn for_method(&self, method: &str) -> Policy {
        JsonRpcDoor.for_method(method)
    }
}

/// One call while it is served.
pub(crate) struct Context<'z> {
    pub(crate) zone: &'z Zone,
    pub(crate) caller: &'z Caller,
    known: &'z Known,
    method: OnceLock<Method>,
    about: OnceLock<Box<str>>,
    of: OnceLock<Box<str>>,
}

impl Context<'_> {
    pub(crate) fn hub(&self) -> &Hub {
        &self.zone.hub
    }

    /// Notes which method it is.
    fn is(&self, method: Method) {
        let _ = self.method.set(method);
    }

    /// Notes which task or stream it is about.
    pub(crate) fn about(&self, id: &str) {
        let _ = self.about.set(id.into());
    }

    /// Notes the correlation id that the caller gave within the call.
    pub(crate) fn belongs_to(&self, correlation: &str) {
        let _ = self.of.set(Pair::cut(correlation).into());
    }

    fn needs(&self, scopes: &[Scope]) -> Result<(), Fault> {
        self.known.needs(self.zone, scopes).map_err(Fault::Wire)
    }
}

/// What a call answers.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum Reply {
    Acp(MethodResult),
    List(TaskList),
    Pairs(PairList),
    Shown(acp::handlers::Shown),
}

/// Serves the body of a request whose sender has yet to prove who they are.
pub(crate) async fn serve(
    zone: &Zone,
    body: &[u8],
    headers: &HeaderMap,
    origin: &Origin,
) -> Served {
    let parsed = parse(body, &Door { batch: zone.batch });
    if let Parsed::One(Err(rejection)) = &parsed
        && rejection.problem().code() == ErrorCode::PARSE_ERROR
    {
        return answer(zone, None, parsed, origin).await;
    }
    match Known::by(zone, headers, origin.peer.as_deref()).await {
        Ok(known) => answer(zone, Some(&known), parsed, origin).await,
        Err(error) => {
            let id = match &parsed {
                Parsed::One(Ok(Message::Request(request))) => request.id().cloned(),
                _ => None,
            };
            let mut body = Vec::new();
            Response::failure(id, error.error()).write_to(&mut body);
            Served {
                status: error.http,
                body: Some(body),
                error: Some(error),
            }
        }
    }
}

/// Serves one frame of somebody who proved who they are.
pub(crate) async fn serve_known(
    zone: &Zone,
    known: &Known,
    frame: &[u8],
    origin: &Origin,
) -> Option<Vec<u8>> {
    let parsed = parse(frame, &Door { batch: zone.batch });
    answer(zone, Some(known), parsed, origin).await.body
}

/// Serves what was parsed. Without somebody known there is nothing but a rejection in it.
async fn answer(zone: &Zone, known: Option<&Known>, parsed: Parsed<'_>, origin: &Origin) -> Served {
    let mut answers = Answers::to(&parsed);
    match parsed {
        Parsed::One(item) => {
            let (due, outcome) = serve_item(zone, known, item, origin).await;
            let (status, error) = match &outcome {
                Outcome::Failed(error) => (error.http, true),
                Outcome::Rejected(code) => (status_of_rejection(*code), false),
                Outcome::Done(_) | Outcome::Silent => (StatusCode::OK, false),
            };
            put(&mut answers, due.as_ref(), &outcome);
            let body = answers.finish();
            let status = if body.is_none() {
                StatusCode::NO_CONTENT
            } else {
                status
            };
            let error = match outcome {
                Outcome::Failed(failed) if error => Some(failed),
                _ => None,
            };
            Served {
                status,
                body,
                error,
            }
        }
        // In a box, so that a single call does not take the room of many.
        Parsed::Batch(items) => {
            let calls = batch::serve(zone, known, items, origin, &mut answers);
            Box::pin(calls).await;
            batch_served(answers)
        }
    }
}

fn batch_served(answers: Answers) -> Served {
    let body = answers.finish();
    let status = match body {
        Some(_) => StatusCode::OK,
        None => StatusCode::NO_CONTENT,
    };
    Served {
        status,
        body,
        error: None,
    }
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

fn put(answers: &mut Answers, due: Option<&Due<'_>>, outcome: &Outcome) {
    match (due, outcome) {
        (Some(Due::Request(request)), Outcome::Done(reply)) => {
            if let Err(error) = answers.result(request, reply) {
                tracing::error!(%error, "a result could not be written");
            }
        }
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
) -> (Option<Due<'a>>, Outcome) {
    match item {
        Ok(Message::Request(request)) => {
            let (id, params) = (request.id(), request.params());
            let outcome = recorded(zone, known, request.method(), id, params, origin).await;
            (Some(Due::Request(request)), outcome)
        }
        Ok(Message::Notification(note)) => {
            let _ = recorded(zone, known, note.method(), None, note.params(), origin).await;
            (None, Outcome::Silent)
        }
        Ok(Message::Response(_)) => (None, Outcome::Silent),
        Err(rejection) => {
            let code = rejection.problem().code();
            zone.metrics.request("none", "rejected", 0.0);
            let due = rejection.answer().map(Due::Rejection);
            (due, Outcome::Rejected(code))
        }
    }
}

/// Serves one call, and leaves word of it.
async fn recorded(
    zone: &Zone,
    known: Option<&Known>,
    name: &str,
    id: Option<&RequestId<'_>>,
    params: Option<&RawJson<'_>>,
    origin: &Origin,
) -> Outcome {
    let Some(known) = known else {
        return Outcome::Failed(Box::new(errors::internal("nobody")));
    };
    let began = Instant::now();
    let cx = Context {
        zone,
        caller: &known.caller,
        known,
        method: OnceLock::new(),
        about: OnceLock::new(),
        of: OnceLock::new(),
    };
    // Awaited where it is made: a future that is kept first takes its room twice.
    let outcome = match AssertUnwindSafe(limited(&cx, name, params))
        .catch_unwind()
        .await
    {
        Ok(Ok(reply)) => Outcome::Done(reply),
        Ok(Err(Fault::Wire(error))) => Outcome::Failed(error),
        Ok(Err(Fault::Hub(error))) => {
            let error = Box::pin(explained(&cx, &error, origin)).await;
            Outcome::Failed(Box::new(error))
        }
        Err(_) => {
            tracing::error!(correlation = %origin.correlation, "a handler panicked");
            Outcome::Failed(Box::new(errors::internal("panic")))
        }
    };
    let (word, code) = match &outcome {
        Outcome::Failed(error) => (error.word, Some(error.code.get())),
        _ => ("ok", None),
    };
    let took = began.elapsed();
    let method = cx.method.get().map_or("unknown", |method| method.name());
    zone.metrics.request(method, word, took.as_secs_f64());
    let entry = Entry {
        at: SystemTime::now(),
        who: &known.identity.principal,
        client: &known.identity.client,
        method,
        id: None,
        subject: cx.about.get().map(|id| &**id),
        outcome: word,
        code,
        latency: took,
        correlation: origin.correlation.as_str(),
        address: origin.peer.as_ref().map(|peer| peer.address.ip()),
    };
    zone.audit.record(&entry);
    if let Some(pairs) = &zone.pairs {
        pairs.note(&entry, id, cx.of.get().map(|of| &**of));
    }
    outcome
}

async fn limited(
    cx: &Context<'_>,
    name: &str,
    params: Option<&RawJson<'_>>,
) -> Result<Reply, Fault> {
    if let Err(fast) = cx.zone.rate.check(&cx.known.identity.client) {
        cx.zone.metrics.rate_limited();
        return Err(errors::too_fast(fast.retry_after, fast.limit).into());
    }
    dispatch::call(cx, name, params).await
}

/// The hub's refusal in the words of the dialect, with what else helps the caller.
async fn explained(cx: &Context<'_>, error: &HubError, origin: &Origin) -> WireError {
    if let HubError::Store(cause) = error {
        tracing::error!(correlation = %origin.correlation, error = %cause, "the store did not do it");
    }
    let mut wire = to_wire(error, Dialect::Acp);
    match error {
        HubError::TaskFinished { id, state } => {
            let task = cx.hub().task(cx.caller, id).await.ok();
            wire = finished_at(wire, *state, task.and_then(|task| task.finished_at));
        }
        HubError::TaskNotFound(_) => {
            wire = wire.and("timestamp", cx.hub().now().to_string());
        }
        HubError::Invalid { field: what, .. }
        | HubError::TooLarge { what, .. }
        | HubError::TooMany { what, .. } => {
            let place = cx.method.get().map(|method| dispatch::place(*method, what));
            if let Some(Some(place)) = place {
                wire = wire.and("field", place);
            }
        }
        _ => {}
    }
    wire
}

fn status_of_rejection(code: ErrorCode) -> StatusCode {
    if code == ErrorCode::METHOD_NOT_FOUND {
        StatusCode::OK
    } else {
        StatusCode::BAD_REQUEST
    }
}
