//! `POST /jsonrpc`: the call endpoint. Checks the HTTP method, the body size and the media type before the
//! body is parsed. Admission control happens earlier, in the listener.

use super::open_watch::path_id;
use super::response::{A2A_PATH, JSONRPC_PATH};
use super::{call_stream, response};
use crate::memory::ReservationDeadline;
use crate::rpc::body::ResponseBody;
use crate::rpc::context::{DeclaredFields, Endpoint};
use crate::rpc::errors::CallError;
use crate::rpc::{self, AuthenticatedCaller, RequestMeta, RpcResponse, map_error};
use crate::state::ExecutionState;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use interzone_edge::body::{self, BodyError, BodyReader};
use interzone_edge::budget::{Reservation, ShareKey};
use interzone_edge::listener::{Peer, PendingUpload};
use interzone_edge::request_context::{
    CORRELATION_HEADER, CorrelationId, TRACEPARENT, TraceParent,
};
use interzone_protocol::vocab::AgentId;
use std::sync::Arc;
use tokio::time::Instant;

pub(super) async fn endpoint(
    State(zone): State<Arc<ExecutionState>>,
    request: Request,
) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>().cloned();
    serve_request(zone, request, peer, Endpoint::new(JSONRPC_PATH)).await
}

/// `POST /a2a`: calls of A2A only.
pub(super) async fn a2a_endpoint(
    State(zone): State<Arc<ExecutionState>>,
    request: Request,
) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>().cloned();
    serve_request(zone, request, peer, Endpoint::new(A2A_PATH)).await
}

/// `POST /agents/{id}/jsonrpc`: calls that name no agent go to this one.
pub(super) async fn agent_endpoint(
    State(zone): State<Arc<ExecutionState>>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    serve_agent_request(zone, id, request, JSONRPC_PATH).await
}

/// `POST /agents/{id}/a2a`: calls of A2A to this agent.
pub(super) async fn a2a_agent_endpoint(
    State(zone): State<Arc<ExecutionState>>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    serve_agent_request(zone, id, request, A2A_PATH).await
}

/// Handles a call that arrived at `path` behind the prefix of an agent.
async fn serve_agent_request(
    zone: Arc<ExecutionState>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
    path: &'static str,
) -> Response {
    let agents = zone.hub.agents();
    let agent = AgentId::new(path_id(id)).ok();
    let agent = agent.filter(|agent| agents.get(agent).is_some());
    if agent.is_none() {
        return response::not_found_with(path, request.headers());
    }
    let peer = request.extensions().get::<Arc<Peer>>().cloned();
    serve_request(zone, request, peer, Endpoint { path, agent }).await
}

/// Handles a call that arrived at `endpoint`.
pub(super) async fn serve_request(
    zone: Arc<ExecutionState>,
    request: Request,
    peer: Option<Arc<Peer>>,
    endpoint: Endpoint,
) -> Response {
    let (
        Parts {
            method,
            uri,
            headers,
            mut extensions,
            ..
        },
        body,
    ) = request.into_parts();
    let methods = zone.methods_at(endpoint.path);
    let scan = HeaderScan::new(&headers, methods.is_own());
    let meta = RequestMeta {
        correlation: CorrelationId::from_header(scan.correlation),
        peer,
        received_at: Instant::now(),
        accepts_sse: scan.accepts_sse,
        can_stream: true,
        trace: scan
            .has_traceparent
            .then(|| TraceParent::from_headers(&headers))
            .flatten(),
        endpoint,
        memory_deadline: ReservationDeadline::default(),
        declared: DeclaredFields::collect(methods, &headers, &uri),
    };
    if method != Method::POST {
        return response::method_not_allowed_with("POST", &meta);
    }
    let body = (body, extensions.remove::<PendingUpload>());
    handle(&zone, &headers, scan.media_type_error(), body, &meta).await
}

async fn handle(
    zone: &Arc<ExecutionState>,
    headers: &HeaderMap,
    media_type_error: MediaTypeError,
    body: (Body, Option<PendingUpload>),
    meta: &RequestMeta,
) -> Response {
    if let Some(reason) = media_type_error
        && content_length(headers).is_none_or(|size| size <= zone.limits.body_bytes)
    {
        zone.metrics.record_rejected("media_type");
        let error = CallError::transport(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason, "media_type");
        return response::error_response(&map_error(zone, meta, None, &error), meta);
    }
    // Body memory stays reserved until the response is built, even if the bytes are freed earlier.
    let (bytes, _reservation) = match read_body(zone, headers, body, meta).await {
        Ok(read) => read,
        Err(response) => return *response,
    };
    let request_size = bytes.len();
    let mut reply = rpc::serve(zone, bytes, headers, meta).await;
    if let Some(stream) = reply.stream.take() {
        return call_stream::sse_response(zone, *stream, reply.correlation.as_ref(), meta);
    }
    let Some(mut body) = reply.body.take() else {
        return response::rpc_response(&reply, None, zone.always_200, meta);
    };
    if let Some(framing) = reply.framing {
        return call_stream::sse_error_response(framing, body, reply.correlation.as_ref(), meta);
    }
    let mut reserved = body.take_reservation();
    let single = body.into_single().map(|single| {
        body::reserve_response(
            single,
            request_size,
            &zone.limits,
            &reply.share,
            &mut reserved,
        )
    });
    match single {
        Ok(Ok(body)) => response::rpc_response(&reply, Some(body.into()), zone.always_200, meta),
        Ok(Err(error)) => body_rejection(zone, &error, meta),
        Err(large) => chunked_response(zone, &reply, large, &mut reserved, meta),
    }
}

/// Reads the body, or returns the response that rejects it. The caller of a body over 64 KiB is
/// authenticated before the remainder is read, and the remainder counts against the caller's share.
async fn read_body(
    zone: &ExecutionState,
    headers: &HeaderMap,
    (body, upload): (Body, Option<PendingUpload>),
    meta: &RequestMeta,
) -> Result<(Bytes, Option<Reservation>), Box<Response>> {
    let peer = meta.peer.as_deref();
    let key = peer.map_or(ShareKey::Unattributed, Peer::share_key);
    let mut reader = BodyReader::new(body, headers, &zone.limits, key, upload);
    let reject = |error: BodyError| Box::new(body_rejection(zone, &error, meta));
    if let Err(error) = reader.check_size() {
        reader.drain();
        return Err(reject(error));
    }
    // Callers of this address send much. A caller with a valid token is counted separately, so that other
    // clients of the address do not affect it. An invalid token is reported later, in the normal order of checks.
    if reader.is_address_crowded()
        && let Ok(identity) = Box::pin(AuthenticatedCaller::identify(zone, headers, peer)).await
    {
        reader
            .set_authenticated(&identity.principal)
            .map_err(reject)?;
    }
    let read = match reader.read_start().await {
        Ok(true) => return Ok(reader.finish()),
        Ok(false) => match Box::pin(AuthenticatedCaller::authenticate(zone, headers, peer)).await {
            Ok(caller) => match reader.set_authenticated(&caller.identity.principal) {
                Ok(()) => reader.read_remaining().await,
                full => full,
            },
            Err(error) => {
                reader.drain();
                return Err(Box::new(unauthenticated(zone, &error, meta)));
            }
        },
        Err(error) => Err(error),
    };
    match read {
        Ok(()) => Ok(reader.finish()),
        Err(error) => {
            if matches!(error, BodyError::TooLarge { .. } | BodyError::MemoryLimit) {
                reader.drain();
            }
            Err(reject(error))
        }
    }
}

/// Builds the response to a body that is not read because its caller could not be authenticated.
fn unauthenticated(zone: &ExecutionState, error: &CallError, meta: &RequestMeta) -> Response {
    let mut reply = rpc::unauthenticated_unread(zone, meta, error);
    let body = reply.body.take().map(ResponseBody::concat);
    response::rpc_response(&reply, body.map(Into::into), zone.always_200, meta)
}

/// Builds a response with spliced large content.
fn chunked_response(
    zone: &ExecutionState,
    reply: &RpcResponse,
    body: ResponseBody,
    reserved: &mut Option<Reservation>,
    meta: &RequestMeta,
) -> Response {
    match response::chunked(body.into_chunks(), &zone.limits, &reply.share, reserved) {
        Ok((body, size)) => {
            let mut response = response::rpc_response(reply, Some(body), zone.always_200, meta);
            let headers = response.headers_mut();
            headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
            response
        }
        Err(error) => body_rejection(zone, &error, meta),
    }
}

fn body_rejection(zone: &ExecutionState, error: &BodyError, meta: &RequestMeta) -> Response {
    let error = map_error(zone, meta, None, &body_error(error));
    zone.metrics.record_rejected(error.label);
    response::error_response(&error, meta)
}

/// Reason why the media type or encoding of the body is not supported, if it is not.
type MediaTypeError = Option<&'static str>;

/// Request headers that matter for a call, collected in one pass: there are few headers, so a pass over all
/// of them costs less than a lookup of each by name.
#[derive(Default)]
struct HeaderScan<'h> {
    /// Correlation id, not validated.
    correlation: Option<&'h HeaderValue>,
    /// True if there is a `traceparent`, valid or not.
    has_traceparent: bool,
    /// Number of `Content-Type` headers, and if the last is JSON.
    content_types: usize,
    is_json: bool,
    /// True if the body is encoded, by the first `Content-Encoding`.
    is_encoded: Option<bool>,
    /// True if the client accepts server-sent events.
    accepts_sse: bool,
}

impl<'h> HeaderScan<'h> {
    /// Scans the headers of a request. `any_json` is true if every media type with the suffix `+json` is JSON.
    fn new(headers: &'h HeaderMap, any_json: bool) -> Self {
        let mut scan = Self::default();
        for (name, value) in headers {
            if *name == CONTENT_TYPE {
                scan.content_types += 1;
                scan.is_json = is_json(value, any_json);
            } else if *name == ACCEPT {
                scan.accepts_sse |= accepts_sse(value);
            } else if *name == CONTENT_ENCODING {
                let is_identity = value.as_bytes().eq_ignore_ascii_case(b"identity");
                scan.is_encoded = scan.is_encoded.or(Some(!is_identity));
            } else if *name == CORRELATION_HEADER {
                scan.correlation = scan.correlation.or(Some(value));
            } else if *name == TRACEPARENT {
                scan.has_traceparent = true;
            }
        }
        scan
    }

    /// Returns the reason if the body is not JSON or is encoded.
    fn media_type_error(&self) -> MediaTypeError {
        if self.content_types != 1 || !self.is_json {
            return Some("Content-Type must be application/json");
        }
        let is_encoded = self.is_encoded.unwrap_or(false);
        is_encoded.then_some("Content-Encoding is not supported; send the body unencoded")
    }
}

/// True for `application/json` and A2A's name of it, with any parameters; with `any_json`, for every media type with the
/// suffix `+json`.
fn is_json(value: &HeaderValue, any_json: bool) -> bool {
    let media_type = value.as_bytes().split(|byte| *byte == b';').next();
    let media_type = media_type.unwrap_or_default().trim_ascii();
    let is = |name: &[u8]| media_type.eq_ignore_ascii_case(name);
    let has_suffix = || media_type.to_ascii_lowercase().ends_with(b"+json");
    is(b"application/json") || is(b"application/a2a+json") || (any_json && has_suffix())
}

/// True if `text/event-stream` is among the accepted media ranges.
fn accepts_sse(value: &HeaderValue) -> bool {
    let ranges = value.to_str().unwrap_or_default().split(',');
    ranges.into_iter().any(|range| {
        let media_type = range.split(';').next().unwrap_or_default().trim();
        let is_excluded = range.split(';').skip(1).any(|parameter| {
            let weight = parameter.trim().strip_prefix("q=");
            weight.is_some_and(|weight| weight.trim().parse() == Ok(0.0_f32))
        });
        media_type.eq_ignore_ascii_case("text/event-stream") && !is_excluded
    })
}

fn content_length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn body_error(error: &BodyError) -> CallError {
    match error {
        BodyError::TooLarge { limit } => CallError::transport(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("The body may have at most {limit} bytes"),
            "too_large",
        ),
        BodyError::MemoryLimit => CallError::Busy("memory_limit"),
        BodyError::TooSlow { .. } => CallError::transport(
            StatusCode::REQUEST_TIMEOUT,
            "The body arrived too slowly",
            "too_slow",
        ),
        BodyError::Incomplete(_) => CallError::transport(
            StatusCode::BAD_REQUEST,
            "The body ended early",
            "broken_body",
        ),
    }
}
