//! JSON-RPC calls, independent of the transport (HTTP or WebSocket). The order of checks is fixed: parse, token,
//! envelope, method, scope, params, ownership, state. One token authenticates a whole batch.

pub(crate) mod acp;
mod batch;
pub(crate) mod body;
mod call_summary;
mod caller;
mod context;
mod dispatch;
mod early_params;
mod endpoint_policy;
pub(crate) mod errors;
mod hub_errors;
mod invalid_message;
mod method;
mod params;
mod request_log;
mod store_errors;
pub(crate) mod zone;

pub(crate) use caller::AuthenticatedCaller;
pub(crate) use context::{CallContext, CallReply};
pub(crate) use invalid_message::unauthenticated_unread;

use crate::state::ExecutionState;
use axum::http::{HeaderMap, StatusCode};
use body::{ResponseBody, ResponseBuilder};
use bytes::Bytes;
use call_summary::CallSummary;
use early_params::EarlyParams;
use endpoint_policy::ConfiguredEndpointPolicy;
use errors::{CallError, WireError};
use futures_util::FutureExt;
use hub_errors::to_wire_error;
use interzone_edge::budget::{Reservation, ShareKey};
use interzone_edge::listener::Peer;
use interzone_edge::request_context::{CorrelationId, TraceParent};
use interzone_jsonrpc::{
    ErrorCode, Item, Message, Parsed, RawJson, Request, RequestId, Response, parse,
};
use interzone_protocol::Dialect;
use method::AnyMethod;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use tokio::time::Instant;

/// Metadata of a request: correlation id, peer, trace.
pub(crate) struct RequestMeta {
    pub(crate) correlation: CorrelationId,
    pub(crate) peer: Option<Arc<Peer>>,
    /// Time of arrival.
    pub(crate) received_at: Instant,
    /// True if the client accepts server-sent events.
    pub(crate) accepts_sse: bool,
    /// Trace context of the caller, if any.
    pub(crate) trace: Option<TraceParent>,
    /// Path of the endpoint that received it.
    pub(crate) endpoint: &'static str,
}

impl RequestMeta {
    /// Deadline up to which its calls may wait for a result, shared by all of them.
    fn sync_deadline(&self, zone: &ExecutionState) -> Instant {
        self.received_at + zone.sync_budget
    }

    /// Returns a copy that does not accept server-sent events.
    fn without_sse(&self) -> Self {
        Self {
            correlation: self.correlation.clone(),
            peer: self.peer.clone(),
            received_at: self.received_at,
            accepts_sse: false,
            trace: self.trace.clone(),
            endpoint: self.endpoint,
        }
    }
}

/// Response to a request.
pub(crate) struct RpcResponse {
    pub(crate) status: StatusCode,
    /// Body to send; `None` if no response is due.
    pub(crate) body: Option<ResponseBody>,
    /// Correlation id, if a single call specified its own.
    pub(crate) correlation: Option<CorrelationId>,
    /// Error of a single call or of the whole request, for the headers.
    pub(crate) error: Option<Box<WireError>>,
    /// Streaming call that replaces the body, and its caller.
    pub(crate) stream: Option<(Box<zone::ExecuteStream>, Option<AuthenticatedCaller>)>,
    /// Share of response memory that the body counts against.
    pub(crate) share: ShareKey,
}

impl RpcResponse {
    fn new(status: StatusCode, body: Option<ResponseBody>) -> Self {
        Self {
            status,
            body,
            correlation: None,
            error: None,
            stream: None,
            share: ShareKey::Unattributed,
        }
    }
}

/// Serves a request body of an unauthenticated sender. The body is freed as early as possible.
pub(crate) async fn serve(
    zone: &ExecutionState,
    body: Bytes,
    headers: &HeaderMap,
    meta: &RequestMeta,
) -> RpcResponse {
    let parsed = parse(
        &body,
        &ConfiguredEndpointPolicy {
            batch_limit: zone.batch_limit,
        },
    );
    if let Parsed::One(Err(rejection)) = &parsed
        && rejection.kind().code() == ErrorCode::PARSE_ERROR
    {
        return serve_parsed(zone, None, parsed, meta, None).await;
    }
    match AuthenticatedCaller::authenticate(zone, headers, meta.peer.as_deref()).await {
        Ok(caller) => {
            let _request = match caller.begin_request(zone) {
                Ok(request) => request,
                Err(busy) => return invalid_message::reject_request(&parsed, *busy),
            };
            let mut response = match early_params::parse_early(&parsed, body.len()) {
                None => serve_parsed(zone, Some(&caller), parsed, meta, None).await,
                Some((without_params, early_params)) => {
                    drop(parsed);
                    drop(body);
                    serve_parsed(
                        zone,
                        Some(&caller),
                        without_params,
                        meta,
                        Some(early_params),
                    )
                    .await
                }
            };
            response.share = caller.share();
            if let Some((_, owner)) = &mut response.stream {
                *owner = Some(caller);
            }
            response
        }
        Err(error) => invalid_message::unauthenticated(&parsed, *error),
    }
}

/// Serves one WebSocket frame of an authenticated caller.
pub(crate) async fn serve_authenticated(
    zone: &ExecutionState,
    caller: &AuthenticatedCaller,
    frame: &[u8],
    meta: &RequestMeta,
) -> Option<ResponseBody> {
    let parsed = parse(
        frame,
        &ConfiguredEndpointPolicy {
            batch_limit: zone.batch_limit,
        },
    );
    let response = match caller.begin_request(zone) {
        Ok(_request) => serve_parsed(zone, Some(caller), parsed, meta, None).await,
        Err(busy) => invalid_message::reject_request(&parsed, *busy),
    };
    response.body
}

/// Serves a parsed body. Without a caller it contains nothing but a rejection.
async fn serve_parsed(
    zone: &ExecutionState,
    caller: Option<&AuthenticatedCaller>,
    parsed: Parsed<'_>,
    meta: &RequestMeta,
    early_params: Option<EarlyParams>,
) -> RpcResponse {
    let mut responses = ResponseBuilder::for_parsed(&parsed);
    match parsed {
        Parsed::One(item) => {
            let ItemResult {
                target: due,
                outcome,
                correlation,
                reserved,
            } = serve_item(zone, caller, item, meta, early_params).await;
            let status = match &outcome {
                CallOutcome::Failed(error) => error.http,
                CallOutcome::Rejected(code) => invalid_message::http_status(*code),
                CallOutcome::Done(_) | CallOutcome::Silent => StatusCode::OK,
            };
            let (error, stream) = match outcome {
                CallOutcome::Done(CallReply::Stream(stream)) => (None, Some((stream, None))),
                outcome => {
                    write_item(&mut responses, due.as_ref(), &outcome, reserved);
                    match outcome {
                        CallOutcome::Failed(error) => (Some(error), None),
                        _ => (None, None),
                    }
                }
            };
            let body = responses.finish();
            let status = match (&body, &stream) {
                (None, None) => StatusCode::NO_CONTENT,
                _ => status,
            };
            RpcResponse {
                status,
                body,
                correlation,
                error,
                stream,
                share: ShareKey::Unattributed,
            }
        }
        // Boxed, so that the future of a single call does not have the size of a batch.
        Parsed::Batch(items) => {
            let meta = meta.without_sse();
            let calls = batch::serve(zone, caller, items, &meta, &mut responses);
            Box::pin(calls).await;
            batch_response(responses)
        }
    }
}

fn batch_response(responses: ResponseBuilder) -> RpcResponse {
    let body = responses.finish();
    let status = match body {
        Some(_) => StatusCode::OK,
        None => StatusCode::NO_CONTENT,
    };
    RpcResponse::new(status, body)
}

/// Target of a response.
enum ResponseTarget<'a> {
    Request(Request<'a>),
    Rejection(Response<'a>),
}

enum CallOutcome {
    Done(CallReply),
    Failed(Box<WireError>),
    Rejected(ErrorCode),
    /// No response is due.
    Silent,
}

/// Result of serving one message.
struct ItemResult<'a> {
    target: Option<ResponseTarget<'a>>,
    outcome: CallOutcome,
    /// Correlation id that the call specified.
    correlation: Option<CorrelationId>,
    /// Memory reserved for content, which the response takes over.
    reserved: Option<Reservation>,
}

fn write_item(
    responses: &mut ResponseBuilder,
    target: Option<&ResponseTarget<'_>>,
    outcome: &CallOutcome,
    reserved: Option<Reservation>,
) {
    responses.add_reservation(reserved);
    match (target, outcome) {
        (Some(ResponseTarget::Request(request)), CallOutcome::Done(reply)) => {
            responses.result(request, reply)
        }
        (Some(ResponseTarget::Request(request)), CallOutcome::Failed(error)) => {
            responses.push(&request.fail(error.to_error_object()));
        }
        (Some(ResponseTarget::Rejection(response)), _) => responses.push(response),
        _ => {}
    }
}

async fn serve_item<'a>(
    zone: &ExecutionState,
    caller: Option<&AuthenticatedCaller>,
    item: Item<'a>,
    meta: &RequestMeta,
    early_params: Option<EarlyParams>,
) -> ItemResult<'a> {
    let (target, outcome, correlation, reserved) = match item {
        Ok(Message::Request(request)) => {
            let call = (request.method(), request.params(), request.id());
            let (outcome, correlation, reserved) =
                call_and_record(zone, caller, call, meta, early_params).await;
            (
                Some(ResponseTarget::Request(request)),
                outcome,
                correlation,
                reserved,
            )
        }
        Ok(Message::Notification(notification)) => {
            let call = (notification.method(), notification.params(), None);
            let _ = call_and_record(zone, caller, call, meta, None).await;
            (None, CallOutcome::Silent, None, None)
        }
        Ok(Message::Response(_)) => (None, CallOutcome::Silent, None, None),
        Err(rejection) => {
            let code = rejection.kind().code();
            zone.metrics.record_request("none", "rejected", 0.0);
            let target = invalid_message::response(&rejection).map(ResponseTarget::Rejection);
            (target, CallOutcome::Rejected(code), None, None)
        }
    };
    ItemResult {
        target,
        outcome,
        correlation,
        reserved,
    }
}

/// Method, params and id of a call.
type CallParts<'c> = (&'c str, Option<&'c RawJson<'c>>, Option<&'c RequestId<'c>>);

/// Serves one call and records it.
async fn call_and_record(
    zone: &ExecutionState,
    caller: Option<&AuthenticatedCaller>,
    (name, params, id): CallParts<'_>,
    meta: &RequestMeta,
    early_params: Option<EarlyParams>,
) -> (CallOutcome, Option<CorrelationId>, Option<Reservation>) {
    let Some(caller) = caller else {
        let error = Box::new(errors::internal("no_caller"));
        return (CallOutcome::Failed(error), None, None);
    };
    let started = Instant::now();
    let cx = CallContext::new(zone, caller, meta, id, early_params);
    // Awaited in place: binding the future first would double its space.
    let outcome = match AssertUnwindSafe(dispatch_rate_limited(&cx, name, params))
        .catch_unwind()
        .await
    {
        Ok(Ok(reply)) => CallOutcome::Done(reply),
        Ok(Err(CallError::Wire(error))) => CallOutcome::Failed(error),
        Ok(Err(CallError::Hub(error))) => {
            let error = Box::pin(to_wire_error(&cx, &error)).await;
            CallOutcome::Failed(Box::new(error))
        }
        Err(_) => {
            tracing::error!(correlation = %cx.correlation(), "handler panicked");
            CallOutcome::Failed(Box::new(errors::internal("panic")))
        }
    };
    let is_zone_call = cx.dialect() == Dialect::Zone;
    let outcome = match outcome {
        CallOutcome::Failed(error) if is_zone_call => {
            CallOutcome::Failed(Box::new(errors::zone::adapt_to_zone(*error)))
        }
        outcome => outcome,
    };
    let (label, code) = match &outcome {
        CallOutcome::Failed(error) => (error.label, Some(error.code.get())),
        // The outcome of a streaming call is recorded when it ends.
        CallOutcome::Done(CallReply::Stream(_)) => ("streaming", None),
        _ => ("ok", None),
    };
    CallSummary {
        identity: &caller.identity,
        method: cx.method.get().map_or("unknown", |method| method.name()),
        id,
        subject: cx.subject.get().map(|id| &**id),
        outcome: label,
        code,
        duration: started.elapsed(),
        correlation: cx.correlation(),
        peer: meta.peer.as_deref(),
        is_zone_call,
    }
    .emit(zone);
    let reserved = cx.memory.into_reservation();
    (outcome, cx.correlation.into_inner(), reserved)
}

async fn dispatch_rate_limited(
    cx: &CallContext<'_>,
    name: &str,
    params: Option<&RawJson<'_>>,
) -> Result<CallReply, CallError> {
    if let Err(exceeded) = cx.zone.rate.check(&cx.authenticated.identity.client) {
        cx.zone.metrics.record_rate_limited();
        if let Some(method @ AnyMethod::Zone(_)) = AnyMethod::from_name(name) {
            cx.set_method(method);
            return Err(errors::zone::rate_limited(exceeded.retry_after, exceeded.limit).into());
        }
        return Err(errors::rate_limited(exceeded.retry_after, exceeded.limit).into());
    }
    dispatch::dispatch(cx, name, params).await
}
