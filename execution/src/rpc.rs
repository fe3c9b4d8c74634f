//! JSON-RPC calls, independent of the transport (HTTP or WebSocket). This file is the path of a call, top to bottom:
//! parse, authenticate, resolve the method, check rate and scope, call, record, write. The order of checks is fixed:
//! parse, token, envelope, method, scope, params, ownership, state. One token authenticates a whole batch.
//!
//! `dialect` is the boundary to the dialects; `acp` and `zone` are behind it.

pub(crate) mod a2a;
pub(crate) mod acp;
mod batch;
pub(crate) mod body;
mod call_summary;
mod caller;
pub(crate) mod context;
pub(crate) mod dialect;
pub(crate) mod errors;
mod invalid_message;
mod params;
pub(crate) mod reply;
mod request_log;
pub(crate) mod zone;

pub(crate) use caller::AuthenticatedCaller;
pub(crate) use context::RequestMeta;

use crate::state::ExecutionState;
use axum::http::{HeaderMap, StatusCode};
use body::{ResponseBody, ResponseBuilder};
use bytes::Bytes;
use call_summary::CallSummary;
use context::{CallContext, CallParams, EarlyParams};
use dialect::{MethodRegistry, ResolvedMethod};
use errors::{CallError, WireError};
use futures_util::FutureExt;
use interzone_edge::budget::{Reservation, ShareKey};
use interzone_edge::request_context::CorrelationId;
use interzone_jsonrpc::{
    ErrorCode, Item, Message, MethodName, Parsed, Request, RequestId, Response, parse,
};
use reply::{CallReply, RecordedStream, SseFraming};
use std::panic::AssertUnwindSafe;
use tokio::time::Instant;

/// Body size in bytes above which params are parsed early, so that the body can be freed while the call waits.
const MIN_EARLY_BODY_BYTES: usize = 256 * 1024;

/// Response to a request.
pub(crate) struct RpcResponse {
    pub(crate) status: StatusCode,
    /// Body to send; `None` if no response is due.
    pub(crate) body: Option<ResponseBody>,
    /// Correlation id, if a single call specified its own.
    pub(crate) correlation: Option<CorrelationId>,
    /// Error of a single call or of the whole request, for the headers.
    pub(crate) error: Option<Box<WireError>>,
    /// Framing of the body as a single server-sent event, if the dialect of a failed call requires it.
    pub(crate) framing: Option<SseFraming>,
    /// Streaming call that replaces the body.
    pub(crate) stream: Option<Box<RecordedStream>>,
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
            framing: None,
            stream: None,
            share: ShareKey::Unattributed,
        }
    }

    /// Response to a request that is rejected as a whole.
    fn rejected(id: Option<RequestId<'_>>, error: WireError) -> Self {
        let mut body = Vec::new();
        Response::failure(id, error.to_error_object()).write_to(&mut body);
        let response = Self::new(error.http, Some(ResponseBody::new(body, Vec::new())));
        Self {
            error: Some(Box::new(error)),
            ..response
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
    let incoming = match IncomingRequest::parse(zone, &body, meta) {
        Ok(incoming) => incoming,
        Err(response) => return *response,
    };
    let caller = AuthenticatedCaller::authenticate(zone, headers, meta.peer.as_deref()).await;
    let caller = match caller {
        Ok(caller) => caller,
        Err(error) => return incoming.reject(zone, meta, &error),
    };
    let _request = match caller.begin_request(zone) {
        Ok(request) => request,
        Err(busy) => return incoming.reject(zone, meta, &busy),
    };
    let mut response = match incoming.parse_early(body.len()) {
        None => serve_incoming(zone, &caller, incoming, meta, None).await,
        Some((without_params, early)) => {
            drop(incoming);
            drop(body);
            serve_incoming(zone, &caller, without_params, meta, Some(early)).await
        }
    };
    response.share = caller.share();
    response
}

/// Serves one WebSocket frame of an authenticated caller.
pub(crate) async fn serve_authenticated(
    zone: &ExecutionState,
    caller: &AuthenticatedCaller,
    frame: &[u8],
    meta: &RequestMeta,
) -> RpcResponse {
    let incoming = match IncomingRequest::parse(zone, frame, meta) {
        Ok(incoming) => incoming,
        Err(response) => return *response,
    };
    match caller.begin_request(zone) {
        Ok(_request) => serve_incoming(zone, caller, incoming, meta, None).await,
        Err(busy) => incoming.reject(zone, meta, &busy),
    }
}

/// Rejects an unauthenticated request whose body was not read, so that its id and dialect are unknown. The error has
/// the fields of all dialects of the endpoint.
pub(crate) fn unauthenticated_unread(
    zone: &ExecutionState,
    meta: &RequestMeta,
    error: &CallError,
) -> RpcResponse {
    let error = map_error(zone, meta, None, error);
    let error = match zone.methods_at(meta.endpoint.path).is_own() {
        true => error,
        false => zone::errors::adapt_to_zone(error),
    };
    RpcResponse::rejected(None, error)
}

/// Maps an error by the method of its call; without one by the default dialect of the endpoint.
pub(crate) fn map_error(
    zone: &ExecutionState,
    meta: &RequestMeta,
    method: Option<ResolvedMethod>,
    error: &CallError,
) -> WireError {
    let methods = zone.methods_at(meta.endpoint.path);
    methods.error(method, error, zone.auth_urls())
}

/// A parsed request body whose methods are resolved.
struct IncomingRequest<'a> {
    items: IncomingItems<'a>,
    responses: ResponseBuilder,
}

enum IncomingItems<'a> {
    One(IncomingItem<'a>),
    Batch(Vec<IncomingItem<'a>>),
}

/// A message and the method that it calls, if there is one with its name.
struct IncomingItem<'a> {
    message: Item<'a>,
    method: Option<ResolvedMethod>,
}

impl<'a> IncomingItem<'a> {
    /// Resolves the method. This is the only place that looks at a method's name.
    fn resolve(methods: &MethodRegistry, message: Item<'a>) -> Self {
        let method = match &message {
            Ok(Message::Request(request)) => methods.resolve(request.method()),
            Ok(Message::Notification(notification)) => methods.resolve(notification.method()),
            Ok(Message::Response(_)) | Err(_) => None,
        };
        Self { message, method }
    }
}

impl<'a> IncomingRequest<'a> {
    /// Parses a body. If it is not JSON, returns the response: it needs no authentication.
    fn parse(
        zone: &ExecutionState,
        body: &'a [u8],
        meta: &RequestMeta,
    ) -> Result<Self, Box<RpcResponse>> {
        let methods = zone.methods_at(meta.endpoint.path);
        let parsed = parse(body, &methods.policy(zone.batch_limit));
        let mut responses = ResponseBuilder::for_parsed(&parsed);
        let resolve = |message| IncomingItem::resolve(methods, message);
        let items = match parsed {
            Parsed::One(Err(invalid)) if invalid.kind().code() == ErrorCode::PARSE_ERROR => {
                let result = invalid_item(zone, meta, &invalid);
                write_result(
                    &mut responses,
                    result.target.as_ref(),
                    &result.outcome,
                    None,
                );
                let status = invalid_message::http_status(methods, ErrorCode::PARSE_ERROR);
                return Err(Box::new(RpcResponse::new(status, responses.finish())));
            }
            Parsed::One(message) => IncomingItems::One(resolve(message)),
            Parsed::Batch(messages) => {
                IncomingItems::Batch(messages.into_iter().map(resolve).collect())
            }
        };
        Ok(Self { items, responses })
    }

    /// Rejects the request without executing any of it. The error of a batch has no dialect.
    fn reject(self, zone: &ExecutionState, meta: &RequestMeta, error: &CallError) -> RpcResponse {
        let (id, method) = match self.items {
            IncomingItems::One(IncomingItem {
                message: Ok(Message::Request(request)),
                method,
            }) => (request.id().map(|id| id.clone().into_owned()), method),
            IncomingItems::One(_) | IncomingItems::Batch(_) => (None, None),
        };
        RpcResponse::rejected(id, map_error(zone, meta, method, error))
    }

    /// Parses the params of a large call early, if its method does. Returns the call without params, and the params.
    fn parse_early(&self, bytes: usize) -> Option<(IncomingRequest<'static>, EarlyParams)> {
        let IncomingItems::One(IncomingItem {
            message: Ok(Message::Request(request)),
            method: Some(method),
        }) = &self.items
        else {
            return None;
        };
        let id = request.id().filter(|_| bytes > MIN_EARLY_BODY_BYTES)?;
        let name = MethodName::new(method.info.name).ok()?;
        let early = method.handler.parse_early(request.params())?;
        let without_params = Request::new(id.clone().into_owned(), name);
        let parsed = Parsed::One(Ok(Message::Request(without_params)));
        let responses = ResponseBuilder::for_parsed(&parsed);
        let Parsed::One(message) = parsed else {
            return None;
        };
        let items = IncomingItems::One(IncomingItem {
            message,
            method: Some(*method),
        });
        Some((IncomingRequest { items, responses }, early))
    }
}

/// Serves the calls of a request.
async fn serve_incoming(
    zone: &ExecutionState,
    caller: &AuthenticatedCaller,
    incoming: IncomingRequest<'_>,
    meta: &RequestMeta,
    early: Option<EarlyParams>,
) -> RpcResponse {
    let mut responses = incoming.responses;
    match incoming.items {
        IncomingItems::One(item) => {
            let method = item.method;
            let result = serve_item(zone, caller, item, meta, early).await;
            write_result(
                &mut responses,
                result.target.as_ref(),
                &result.outcome,
                result.reserved,
            );
            let status = match &result.outcome {
                CallOutcome::Failed(error) => error.http,
                CallOutcome::Rejected(code) => {
                    invalid_message::http_status(zone.methods_at(meta.endpoint.path), *code)
                }
                CallOutcome::Done(_) | CallOutcome::Streaming(_) | CallOutcome::Silent => {
                    StatusCode::OK
                }
            };
            let (error, stream) = match result.outcome {
                CallOutcome::Failed(error) => (Some(error), None),
                CallOutcome::Streaming(stream) => (None, Some(stream)),
                _ => (None, None),
            };
            let framing = method.filter(|_| error.is_some() && status == StatusCode::OK);
            let framing = framing.and_then(|method| method.handler.error_framing(meta));
            let body = responses.finish();
            RpcResponse {
                correlation: result.correlation,
                error,
                framing,
                stream,
                ..response_with_status(status, body)
            }
        }
        // Boxed, so that the future of a single call does not have the size of a batch.
        IncomingItems::Batch(items) => {
            let meta = meta.without_streams();
            let calls = batch::serve(zone, caller, items, &meta, &mut responses);
            Box::pin(calls).await;
            response_with_status(StatusCode::OK, responses.finish())
        }
    }
}

fn response_with_status(status: StatusCode, body: Option<ResponseBody>) -> RpcResponse {
    let status = match body {
        Some(_) => status,
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
    Done(Box<dyn reply::CallResult>),
    Streaming(Box<RecordedStream>),
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

impl<'a> ItemResult<'a> {
    fn new(target: Option<ResponseTarget<'a>>, outcome: CallOutcome) -> Self {
        Self {
            target,
            outcome,
            correlation: None,
            reserved: None,
        }
    }
}

/// Writes the response to a message, if one is due.
fn write_result(
    responses: &mut ResponseBuilder,
    target: Option<&ResponseTarget<'_>>,
    outcome: &CallOutcome,
    reserved: Option<Reservation>,
) {
    responses.add_reservation(reserved);
    match (target, outcome) {
        (Some(ResponseTarget::Request(request)), CallOutcome::Done(result)) => {
            responses.result(request, &**result);
        }
        (Some(ResponseTarget::Request(request)), CallOutcome::Failed(error)) => {
            responses.push(&request.fail(error.to_error_object()));
        }
        (Some(ResponseTarget::Rejection(response)), _) => responses.push(response),
        _ => {}
    }
}

/// Serves one message.
async fn serve_item<'a>(
    zone: &ExecutionState,
    caller: &AuthenticatedCaller,
    item: IncomingItem<'a>,
    meta: &RequestMeta,
    early: Option<EarlyParams>,
) -> ItemResult<'a> {
    let IncomingItem { message, method } = item;
    match message {
        Ok(Message::Request(request)) => {
            let cx = CallContext::new(zone, caller, meta, request.id(), method);
            let params = CallParams {
                raw: request.params(),
                early,
            };
            let outcome = call_and_record(&cx, request.method(), params).await;
            let reserved = cx.memory.into_reservation();
            ItemResult {
                correlation: cx.correlation.into_inner(),
                reserved,
                ..ItemResult::new(Some(ResponseTarget::Request(request)), outcome)
            }
        }
        Ok(Message::Notification(notification)) => {
            let cx = CallContext::new(zone, caller, meta, None, method);
            let params = CallParams {
                raw: notification.params(),
                early: None,
            };
            call_and_record(&cx, notification.method(), params).await;
            ItemResult::new(None, CallOutcome::Silent)
        }
        Ok(Message::Response(_)) => ItemResult::new(None, CallOutcome::Silent),
        Err(invalid) => invalid_item(zone, meta, &invalid),
    }
}

fn invalid_item<'a>(
    zone: &ExecutionState,
    meta: &RequestMeta,
    invalid: &interzone_jsonrpc::InvalidMessage<'a>,
) -> ItemResult<'a> {
    zone.metrics.record_request("none", "rejected", 0.0);
    let methods = zone.methods_at(meta.endpoint.path);
    let target = invalid_message::response(methods, invalid).map(ResponseTarget::Rejection);
    ItemResult::new(target, CallOutcome::Rejected(invalid.kind().code()))
}

/// Performs one call and records it.
async fn call_and_record(cx: &CallContext<'_>, name: &str, params: CallParams<'_>) -> CallOutcome {
    let started = Instant::now();
    // Awaited in place: binding the future first would double its space.
    let called = AssertUnwindSafe(check_and_call(cx, name, params))
        .catch_unwind()
        .await;
    let called = called.unwrap_or_else(|_| {
        tracing::error!(correlation = %cx.correlation(), "handler panicked");
        Err(CallError::Internal("panic"))
    });
    let outcome = match (called, cx.method) {
        (Ok(CallReply::Result(result)), _) => CallOutcome::Done(result),
        (Ok(CallReply::Stream(stream)), Some(method)) if cx.meta.can_stream => {
            CallOutcome::Streaming(Box::new(RecordedStream::new(cx, method.info, stream)))
        }
        (called, method) => {
            let error = called.err().unwrap_or(CallError::CannotStream);
            error.log(cx.correlation());
            CallOutcome::Failed(Box::new(map_error(cx.zone, cx.meta, method, &error)))
        }
    };
    let (label, code) = match &outcome {
        CallOutcome::Failed(error) => (error.label, Some(error.code.get())),
        // The outcome of a streaming call is recorded when it ends.
        CallOutcome::Streaming(_) => ("streaming", None),
        CallOutcome::Done(_) | CallOutcome::Rejected(_) | CallOutcome::Silent => ("ok", None),
    };
    CallSummary {
        identity: &cx.authenticated.identity,
        method: cx.method.map_or("unknown", |method| method.info.name),
        id: cx.id,
        subject: cx.subject.get().map(|id| &**id),
        outcome: label,
        code,
        duration: started.elapsed(),
        correlation: cx.correlation(),
        peer: cx.meta.peer.as_deref(),
        log_message: cx.method.and_then(|method| method.info.log_message),
    }
    .emit(cx.zone);
    outcome
}

/// Checks what every method requires, and calls it.
async fn check_and_call(
    cx: &CallContext<'_>,
    name: &str,
    params: CallParams<'_>,
) -> Result<CallReply, CallError> {
    cx.authenticated.check_rate(cx.zone)?;
    let Some(method) = cx.method else {
        return Err(CallError::UnknownMethod(name.to_owned()));
    };
    cx.authenticated.require_scopes(method.info.scopes)?;
    if method.info.always_streams && !cx.meta.can_stream {
        return Err(CallError::CannotStream);
    }
    method.handler.call(cx, params).await
}
