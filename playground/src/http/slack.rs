//! `/api/<method>` and the app's socket: a call is logged, checked for injected faults, executed in one step, and
//! answered.

use super::{error_response, json_response, read_body};
use crate::api::args::Args;
use crate::api::{self, SlackApiError};
use crate::events::sockets;
use crate::faults::{FaultAction, FaultTiming, InjectedFault};
use crate::options::DeliveryMode;
use crate::state::{PlaygroundState, lock};
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use http::request::Parts;
use http::{Method, StatusCode};
use interzone_edge::budget::ShareKey;
use interzone_edge::websocket;
use serde_json::{Value, json as object};
use std::sync::Arc;

const SCOPES_HEADER: HeaderName = HeaderName::from_static("x-oauth-scopes");

pub(super) async fn call(
    shared: &Arc<PlaygroundState>,
    name: &str,
    parts: &Parts,
    body: Body,
) -> Response {
    if parts.method != Method::POST && parts.method != Method::GET {
        return error_response(StatusCode::METHOD_NOT_ALLOWED, "GET or POST");
    }
    let body = match read_body(shared, parts, body).await {
        Ok(body) => body,
        Err(answer) => return answer,
    };
    let query = parts.uri.query().unwrap_or_default();
    let args = Args::parse(query, &parts.headers, &body, api::accepts_json(name));
    let logged_args = args.as_ref().map(Args::for_log).unwrap_or_default();
    let number = shared.change(|workspace| workspace.log_call(name, logged_args));
    with_faults(shared, name, number, || match &args {
        Err(refused) => api_response(Err(refused.clone()), None),
        Ok(args) => {
            if let Some(seconds) = shared.change(|workspace| workspace.retry_after(name, args)) {
                return rate_limited_response(seconds);
            }
            let (result, scopes) = shared.change(|workspace| api::call(workspace, name, args));
            api_response(result, scopes)
        }
    })
    .await
}

/// Response of a call, and its outcome for the log.
type LoggedResponse = (Response, String);

fn api_response(result: api::ApiResult, scopes: Option<String>) -> LoggedResponse {
    let (value, outcome) = match result {
        Ok(Value::Object(mut fields)) => {
            fields.insert("ok".to_owned(), true.into());
            (Value::Object(fields), "ok".to_owned())
        }
        Ok(_) => (object!({"ok": true}), "ok".to_owned()),
        Err(refused) => {
            let outcome = refused.code.clone().into_owned();
            (refused.to_json(scopes.as_deref()), outcome)
        }
    };
    let mut response = json_response(StatusCode::OK, &value);
    if let Some(scopes) = scopes.and_then(|scopes| HeaderValue::from_str(&scopes).ok()) {
        response.headers_mut().insert(SCOPES_HEADER, scopes);
    }
    (response, outcome)
}

/// Returns the response to a rate-limited call.
fn rate_limited_response(seconds: u64) -> LoggedResponse {
    let body = SlackApiError::new("ratelimited").to_json(None);
    let mut response = json_response(StatusCode::TOO_MANY_REQUESTS, &body);
    response.headers_mut().insert(RETRY_AFTER, seconds.into());
    (response, "ratelimited".to_owned())
}

/// Executes a call, applying an injected fault before or after its effect.
pub(super) async fn with_faults(
    shared: &Arc<PlaygroundState>,
    name: &str,
    number: u64,
    effect: impl FnOnce() -> LoggedResponse,
) -> Response {
    let fault = lock(&shared.faults).next_fault(name);
    let call = || {
        let same = |call: &&crate::workspace::log::ApiCall| call.number == number;
        shared.inspect(|workspace| workspace.calls().rev().find(same).cloned())
    };
    let log_outcome =
        |outcome: &str| shared.change(|workspace| workspace.log_outcome(number, outcome));
    let finish = |(response, outcome): LoggedResponse| {
        log_outcome(&outcome);
        response
    };
    match fault {
        None => finish(effect()),
        Some(InjectedFault::Gate(FaultTiming::Before, bar)) => {
            bar.wait(call()).await;
            finish(effect())
        }
        Some(InjectedFault::Gate(FaultTiming::After, bar)) => {
            let response = finish(effect());
            bar.wait(call()).await;
            response
        }
        Some(InjectedFault::Fault(what)) => match what {
            FaultAction::RateLimited(seconds) => finish(rate_limited_response(seconds)),
            FaultAction::Refuse(word) => finish(api_response(Err(SlackApiError::new(word)), None)),
            FaultAction::Status(status) => {
                log_outcome(&status.to_string());
                let status = StatusCode::from_u16(status);
                error_response(
                    status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
                    "broken",
                )
            }
            FaultAction::Drop(FaultTiming::Before) => {
                log_outcome("dropped before");
                dropped_connection()
            }
            FaultAction::Drop(FaultTiming::After) => {
                effect();
                log_outcome("dropped after");
                dropped_connection()
            }
            FaultAction::Hang(when) => {
                if when == FaultTiming::After {
                    effect();
                }
                log_outcome("hangs");
                tokio::select! {
                    () = shared.stop.cancelled() => {}
                    () = tokio::time::sleep(shared.hang_duration) => {}
                }
                dropped_connection()
            }
        },
    }
}

/// Drops the connection: the body fails before the head is sent.
fn dropped_connection() -> Response {
    let broken = stream::once(async {
        Err::<Bytes, _>(std::io::Error::other("dropped by an injected fault"))
    });
    Body::from_stream(broken).into_response()
}

/// Handles the app's response to an interaction.
pub(super) async fn respond(
    shared: &Arc<PlaygroundState>,
    ticket: &str,
    parts: &Parts,
    body: Body,
) -> Response {
    let body = match read_body(shared, parts, body).await {
        Ok(body) if parts.method == Method::POST => body,
        Ok(_) => return error_response(StatusCode::METHOD_NOT_ALLOWED, "POST"),
        Err(answer) => return answer,
    };
    let response: Value = serde_json::from_slice(&body).unwrap_or_default();
    let number = shared.change(|workspace| workspace.log_call("response_url", Default::default()));
    with_faults(shared, "response_url", number, || {
        match shared.change(|workspace| workspace.respond(ticket, &response)) {
            Ok(()) => ("ok".into_response(), "ok".to_owned()),
            Err(refused) => (
                json_response(StatusCode::NOT_FOUND, &refused.to_json(None)),
                refused.code.into_owned(),
            ),
        }
    })
    .await
}

/// Opens the app's socket.
pub(super) fn open_socket(shared: &Arc<PlaygroundState>, parts: &mut Parts) -> Response {
    let ticket = super::query_param(parts, "ticket").unwrap_or_default();
    let is_allowed = shared.mode == DeliveryMode::Socket
        && shared.change(|workspace| workspace.tokens.consume_ticket(&ticket));
    if !is_allowed {
        return error_response(
            StatusCode::FORBIDDEN,
            "get a URL from apps.connections.open",
        );
    }
    match websocket::accept_upgrade(parts, &shared.limits, ShareKey::Unattributed) {
        Some((response, upgrade)) => {
            tokio::spawn(sockets::serve(Arc::clone(shared), upgrade));
            response
        }
        None => error_response(StatusCode::BAD_REQUEST, "WebSocket upgrade required"),
    }
}
