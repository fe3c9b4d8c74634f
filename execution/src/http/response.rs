//! HTTP responses: status, headers, and a JSON-RPC error body for rejected requests.

use crate::memory::ReservationDeadline;
use crate::rpc::context::{DeclaredFields, Endpoint};
use crate::rpc::errors::{self, WireError};
use crate::rpc::{RequestMeta, RpcResponse};
use axum::body::Body;
use axum::http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use interzone_edge::body::{self, BodyError};
use interzone_edge::budget::{Reservation, ShareKey};
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::{Peer, RejectReason};
use interzone_edge::request_context::{CORRELATION_HEADER, CorrelationId, TraceParent};
use std::convert::Infallible;
use std::sync::{Arc, LazyLock};
use tokio::time::Instant;

/// Call endpoint of the main listener.
pub(super) const JSONRPC_PATH: &str = "/jsonrpc";

/// Call endpoint that serves only A2A.
pub(super) const A2A_PATH: &str = "/a2a";

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

impl RequestMeta {
    pub(super) fn from_headers(headers: &HeaderMap, peer: Option<Arc<Peer>>) -> Self {
        Self {
            correlation: CorrelationId::from_headers(headers),
            peer,
            received_at: Instant::now(),
            accepts_sse: false,
            can_stream: false,
            trace: TraceParent::from_headers(headers),
            endpoint: Endpoint::new(JSONRPC_PATH),
            memory_deadline: ReservationDeadline::default(),
            declared: DeclaredFields::default(),
        }
    }
}

/// Headers of all responses, and of those with JSON, with a slot for the correlation id. Cloning them costs
/// less than half of building them.
static BASE_HEADERS: LazyLock<HeaderMap> = LazyLock::new(|| {
    let placeholder = HeaderValue::from_static("");
    let headers = [
        (CACHE_CONTROL, NO_STORE),
        (X_CONTENT_TYPE_OPTIONS, NO_SNIFF),
        (CORRELATION_HEADER, placeholder),
    ];
    headers.into_iter().collect()
});
static JSON_HEADERS: LazyLock<HeaderMap> = LazyLock::new(|| {
    let mut headers = BASE_HEADERS.clone();
    headers.insert(CONTENT_TYPE, JSON);
    headers
});

/// Builds a response with the base headers.
pub(super) fn with_headers(status: StatusCode, body: Body, meta: &RequestMeta) -> Response {
    build(&BASE_HEADERS, status, body, meta)
}

/// Builds a JSON response.
pub(super) fn json(status: StatusCode, body: impl Into<Body>, meta: &RequestMeta) -> Response {
    build(&JSON_HEADERS, status, body.into(), meta)
}

fn build(headers: &HeaderMap, status: StatusCode, body: Body, meta: &RequestMeta) -> Response {
    let mut headers = headers.clone();
    // There are few headers: one pass costs less than a lookup by name.
    for (name, value) in &mut headers {
        if *name == CORRELATION_HEADER {
            *value = meta.correlation.to_header();
        }
    }
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Builds the HTTP response of a JSON-RPC request.
pub(super) fn rpc_response(
    reply: &RpcResponse,
    body: Option<Body>,
    always_200: bool,
    meta: &RequestMeta,
) -> Response {
    let mut response = match body {
        None => with_headers(reply.status, Body::empty(), meta),
        Some(body) => json(visible_status(reply.status, always_200), body, meta),
    };
    if let Some(error) = &reply.error {
        set_error_headers(response.headers_mut(), error);
    }
    set_correlation(&mut response, reply.correlation.as_ref());
    response
}

/// Sets the correlation id that the call itself specified, if any.
pub(super) fn set_correlation(response: &mut Response, correlation: Option<&CorrelationId>) {
    if let Some(correlation) = correlation {
        let headers = response.headers_mut();
        headers.insert(CORRELATION_HEADER, correlation.to_header());
    }
}

/// Builds a body that is sent in chunks, and returns its size.
pub(super) fn chunked(
    chunks: Vec<Bytes>,
    limits: &HttpLimits,
    share: &ShareKey,
    reserved: &mut Option<Reservation>,
) -> Result<(Body, usize), BodyError> {
    let size = total_len(&chunks);
    let chunks = hold_reservation(chunks, limits, share, reserved)?
        .into_iter()
        .map(Ok::<_, Infallible>);
    Ok((Body::from_stream(stream::iter(chunks)), size))
}

/// Returns the total number of bytes.
fn total_len(chunks: &[Bytes]) -> usize {
    chunks.iter().map(Bytes::len).sum()
}

/// Attaches the reservation of response memory to the chunks; it is released when the last one is sent.
pub(super) fn hold_reservation(
    chunks: Vec<Bytes>,
    limits: &HttpLimits,
    share: &ShareKey,
    reserved: &mut Option<Reservation>,
) -> Result<Vec<Bytes>, BodyError> {
    let Some(reserved) =
        body::reserve_streamed_response(total_len(&chunks), limits, share, reserved)?
    else {
        return Ok(chunks);
    };
    let reserved = Arc::new(reserved);
    let wrap = |bytes| {
        Bytes::from_owner(ReservedChunk {
            bytes,
            _reserved: Arc::clone(&reserved),
        })
    };
    Ok(chunks.into_iter().map(wrap).collect())
}

struct ReservedChunk {
    bytes: Bytes,
    _reserved: Arc<Reservation>,
}

impl AsRef<[u8]> for ReservedChunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the status to send. With `always_200`, errors that the JSON-RPC body describes become 200;
/// transport rejections keep their status, since the client has to wait or change its request.
fn visible_status(status: StatusCode, always_200: bool) -> StatusCode {
    let described_by_body = matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::INTERNAL_SERVER_ERROR
    );
    if always_200 && described_by_body {
        StatusCode::OK
    } else {
        status
    }
}

/// Builds the response that rejects a request as a whole.
pub(super) fn error_response(error: &WireError, meta: &RequestMeta) -> Response {
    let mut body = Vec::new();
    interzone_jsonrpc::Response::failure(None, error.to_error_object()).write_to(&mut body);
    let mut response = json(error.http, body, meta);
    set_error_headers(response.headers_mut(), error);
    response
}

/// Builds the response for a request that the listener rejects: too many requests, too slow, or bad host.
pub fn listener_rejection(reason: RejectReason, correlation: CorrelationId) -> Response {
    let error = match reason {
        RejectReason::Busy => errors::unavailable("busy"),
        RejectReason::TooManyUploads => errors::unavailable("too_many_uploads"),
        RejectReason::Timeout => errors::timed_out(),
        RejectReason::BadHost => errors::transport(
            StatusCode::BAD_REQUEST,
            "Send exactly one Host header with the name of the server",
            "bad_host",
        ),
    };
    let meta = RequestMeta {
        correlation,
        peer: None,
        received_at: Instant::now(),
        accepts_sse: false,
        can_stream: false,
        trace: None,
        endpoint: Endpoint::new(JSONRPC_PATH),
        memory_deadline: ReservationDeadline::default(),
        declared: DeclaredFields::default(),
    };
    error_response(&error, &meta)
}

/// Sets the `WWW-Authenticate` and `Retry-After` headers of an error.
fn set_error_headers(headers: &mut HeaderMap, error: &WireError) {
    let challenge = error.challenge.as_ref();
    let challenge = challenge.map(|challenge| HeaderValue::try_from(format!("Bearer {challenge}")));
    if let Some(Ok(challenge)) = challenge {
        headers.insert(WWW_AUTHENTICATE, challenge);
    }
    if let Some(seconds) = error.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
}

/// Builds a 405 response with this `Allow` header.
pub(super) fn method_not_allowed_with(allow: &'static str, meta: &RequestMeta) -> Response {
    let error = errors::transport(
        StatusCode::METHOD_NOT_ALLOWED,
        "Method not allowed here; see the Allow header",
        "wrong_verb",
    );
    let mut response = error_response(&error, meta);
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(allow));
    response
}

/// 405 fallback: all endpoints except the call endpoints are read-only.
pub(super) async fn method_not_allowed(headers: HeaderMap) -> Response {
    method_not_allowed_with("GET, HEAD", &RequestMeta::from_headers(&headers, None))
}

/// 404 fallback.
pub(super) async fn not_found(headers: HeaderMap) -> Response {
    not_found_with(JSONRPC_PATH, &headers)
}

/// Builds a 404 response that names this call endpoint.
pub(super) fn not_found_with(endpoint: &str, headers: &HeaderMap) -> Response {
    let message = format!("Not found; send calls to POST {endpoint}");
    let error = errors::transport(StatusCode::NOT_FOUND, message, "nowhere");
    error_response(&error, &RequestMeta::from_headers(headers, None))
}
