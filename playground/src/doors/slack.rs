//! `/api/<method>` and the app's socket: a call is written down, met by what is to go wrong, has its
//! effect in one step, and is answered.

use super::{json, read, refuse};
use crate::api::args::Args;
use crate::api::{self, Refused};
use crate::events::links;
use crate::faults::{Deed, What, When};
use crate::options::Mode;
use crate::shared::{Shared, locked};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, StatusCode};
use interzone_edge::budget::ShareKey;
use interzone_edge::socket;
use serde_json::{Value, json as object};
use std::sync::Arc;

const SCOPES: HeaderName = HeaderName::from_static("x-oauth-scopes");

pub(super) async fn call(shared: &Arc<Shared>, name: &str, parts: &Parts, body: Body) -> Response {
    if parts.method != Method::POST && parts.method != Method::GET {
        return refuse(StatusCode::METHOD_NOT_ALLOWED, "GET or POST");
    }
    let body = match read(shared, parts, body).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    let query = parts.uri.query().unwrap_or_default();
    let args = Args::read(query, &parts.headers, &body, api::takes_json(name));
    let logged = args.as_ref().map(Args::logged).unwrap_or_default();
    let number = shared.change(|workspace| workspace.log_call(name, logged));
    faulty(shared, name, number, || match &args {
        Err(refused) => answer(Err(refused.clone()), None),
        Ok(args) => {
            if let Some(seconds) = shared.change(|workspace| workspace.too_soon(name, args)) {
                return limited(seconds);
            }
            let (made, scopes) = shared.change(|workspace| api::call(workspace, name, args));
            answer(made, scopes)
        }
    })
    .await
}

/// What a call answers, and the word for the log.
type Answered = (Response, String);

fn answer(made: api::Answer, scopes: Option<String>) -> Answered {
    let (value, word) = match made {
        Ok(Value::Object(mut fields)) => {
            fields.insert("ok".to_owned(), true.into());
            (Value::Object(fields), "ok".to_owned())
        }
        Ok(_) => (object!({"ok": true}), "ok".to_owned()),
        Err(refused) => {
            let word = refused.word.clone().into_owned();
            (refused.json(scopes.as_deref()), word)
        }
    };
    let mut response = json(StatusCode::OK, &value);
    if let Some(scopes) = scopes.and_then(|scopes| HeaderValue::from_str(&scopes).ok()) {
        response.headers_mut().insert(SCOPES, scopes);
    }
    (response, word)
}

/// The answer to a call that comes too soon.
fn limited(seconds: u64) -> Answered {
    let said = Refused::new("ratelimited").json(None);
    let mut response = json(StatusCode::TOO_MANY_REQUESTS, &said);
    response.headers_mut().insert(RETRY_AFTER, seconds.into());
    (response, "ratelimited".to_owned())
}

/// Lets a call have its effect, unless something is to go wrong before or after.
pub(super) async fn faulty(
    shared: &Arc<Shared>,
    name: &str,
    number: u64,
    effect: impl FnOnce() -> Answered,
) -> Response {
    let met = locked(&shared.plan).meet(name);
    let call = || {
        let same = |call: &&crate::workspace::log::Call| call.number == number;
        shared.look(|workspace| workspace.calls().rev().find(same).cloned())
    };
    let note = |word: &str| shared.change(|workspace| workspace.log_answer(number, word));
    let done = |(response, word): Answered| {
        note(&word);
        response
    };
    match met {
        None => done(effect()),
        Some(Deed::Gate(When::Before, bar)) => {
            bar.pass(call()).await;
            done(effect())
        }
        Some(Deed::Gate(When::After, bar)) => {
            let response = done(effect());
            bar.pass(call()).await;
            response
        }
        Some(Deed::Fault(what)) => match what {
            What::RateLimited(seconds) => done(limited(seconds)),
            What::Refuse(word) => done(answer(Err(Refused::new(word)), None)),
            What::Status(status) => {
                note(&status.to_string());
                let status = StatusCode::from_u16(status);
                refuse(
                    status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                    "broken",
                )
            }
            What::Drop(When::Before) => {
                note("dropped before");
                lost()
            }
            What::Drop(When::After) => {
                effect();
                note("dropped after");
                lost()
            }
            What::Hang(when) => {
                if when == When::After {
                    effect();
                }
                note("hangs");
                tokio::select! {
                    () = shared.stop.cancelled() => {}
                    () = tokio::time::sleep(shared.hang) => {}
                }
                lost()
            }
        },
    }
}

/// No answer: the body breaks before a byte of the head is sent, and the connection ends.
fn lost() -> Response {
    let broken = stream::once(async { Err::<Bytes, _>(std::io::Error::other("lost on purpose")) });
    Body::from_stream(broken).into_response()
}

/// What the app answers to a pressed button.
pub(super) async fn respond(
    shared: &Arc<Shared>,
    ticket: &str,
    parts: &Parts,
    body: Body,
) -> Response {
    let body = match read(shared, parts, body).await {
        Ok(body) if parts.method == Method::POST => body,
        Ok(_) => return refuse(StatusCode::METHOD_NOT_ALLOWED, "POST"),
        Err(answer) => return answer,
    };
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    let number = shared.change(|workspace| workspace.log_call("response_url", Default::default()));
    faulty(shared, "response_url", number, || {
        match shared.change(|workspace| workspace.respond(ticket, &said)) {
            Ok(()) => ("ok".into_response(), "ok".to_owned()),
            Err(refused) => (
                json(StatusCode::NOT_FOUND, &refused.json(None)),
                refused.word.into_owned(),
            ),
        }
    })
    .await
}

/// The app's socket.
pub(super) fn link(shared: &Arc<Shared>, parts: &mut Parts) -> Response {
    let ticket = super::query(parts, "ticket").unwrap_or_default();
    let good =
        shared.mode == Mode::Socket && shared.change(|workspace| workspace.tokens.punch(&ticket));
    if !good {
        return refuse(
            StatusCode::FORBIDDEN,
            "ask apps.connections.open for a way in",
        );
    }
    match socket::upgrade(parts, &shared.limits, ShareKey::Unattributed) {
        Some((response, upgrade)) => {
            tokio::spawn(links::serve(Arc::clone(shared), upgrade));
            response
        }
        None => refuse(StatusCode::BAD_REQUEST, "this is for WebSockets"),
    }
}
