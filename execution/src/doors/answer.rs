//! How answers look as HTTP: status, headers, and a JSON-RPC error where something was refused.

use crate::rpc::errors::{self, WireError};
use crate::rpc::{Origin, Served};
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
use interzone_edge::listener::{Peer, TurnedAway};
use interzone_edge::request::{CORRELATION, Correlation, TraceParent};
use std::convert::Infallible;
use std::sync::{Arc, LazyLock};
use tokio::time::Instant;

/// Where calls go, at most doors.
pub(super) const CALLS: &str = "/jsonrpc";

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

impl Origin {
    pub(super) fn of(headers: &HeaderMap, peer: Option<Arc<Peer>>) -> Self {
        Self {
            correlation: Correlation::from_headers(headers),
            peer,
            arrived: Instant::now(),
            live: false,
            trace: TraceParent::from_headers(headers),
            door: CALLS,
        }
    }
}

/// The headers that all answers have, and those with JSON in them, with room for the name of the request. To
/// copy them costs less than half of putting them together.
static PLAIN: LazyLock<HeaderMap> = LazyLock::new(|| {
    let unnamed = HeaderValue::from_static("");
    let headers = [
        (CACHE_CONTROL, NO_STORE),
        (X_CONTENT_TYPE_OPTIONS, NO_SNIFF),
        (CORRELATION, unnamed),
    ];
    headers.into_iter().collect()
});
static WITH_JSON: LazyLock<HeaderMap> = LazyLock::new(|| {
    let mut headers = PLAIN.clone();
    headers.insert(CONTENT_TYPE, JSON);
    headers
});

/// An answer with the headers that all have.
pub(super) fn with_headers(status: StatusCode, body: Body, origin: &Origin) -> Response {
    with(&PLAIN, status, body, origin)
}

/// JSON.
pub(super) fn json(status: StatusCode, body: impl Into<Body>, origin: &Origin) -> Response {
    with(&WITH_JSON, status, body.into(), origin)
}

fn with(headers: &HeaderMap, status: StatusCode, body: Body, origin: &Origin) -> Response {
    let mut headers = headers.clone();
    // They are few, so that one walk past them costs less than to look for it.
    for (name, value) in &mut headers {
        if *name == CORRELATION {
            *value = origin.correlation.header();
        }
    }
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// What came of a call.
pub(super) fn served(
    served: &Served,
    body: Option<Body>,
    always_200: bool,
    origin: &Origin,
) -> Response {
    let mut response = match body {
        None => with_headers(served.status, Body::empty(), origin),
        Some(body) => json(shown(served.status, always_200), body, origin),
    };
    if let Some(error) = &served.error {
        advise(response.headers_mut(), error);
    }
    renamed(&mut response, served.correlation.as_ref());
    response
}

/// The answer under the name that a call gave itself, if it did.
pub(super) fn renamed(response: &mut Response, correlation: Option<&Correlation>) {
    if let Some(correlation) = correlation {
        let headers = response.headers_mut();
        headers.insert(CORRELATION, correlation.header());
    }
}

/// An answer that is sent in pieces, and its size.
pub(super) fn in_pieces(
    pieces: Vec<Bytes>,
    limits: &HttpLimits,
    share: &ShareKey,
    reserved: &mut Option<Reservation>,
) -> Result<(Body, usize), BodyError> {
    let size = size_of(&pieces);
    let pieces = counted(pieces, limits, share, reserved)?
        .into_iter()
        .map(Ok::<_, Infallible>);
    Ok((Body::from_stream(stream::iter(pieces)), size))
}

/// How many bytes there are.
fn size_of(pieces: &[Bytes]) -> usize {
    pieces.iter().map(Bytes::len).sum()
}

/// The same pieces, with their part of the memory for answers until the last of them is sent.
pub(super) fn counted(
    pieces: Vec<Bytes>,
    limits: &HttpLimits,
    share: &ShareKey,
    reserved: &mut Option<Reservation>,
) -> Result<Vec<Bytes>, BodyError> {
    let Some(reserved) = body::reserve_answer(size_of(&pieces), limits, share, reserved)? else {
        return Ok(pieces);
    };
    let reserved = Arc::new(reserved);
    let count = |bytes| {
        Bytes::from_owner(Piece {
            bytes,
            _reserved: Arc::clone(&reserved),
        })
    };
    Ok(pieces.into_iter().map(count).collect())
}

struct Piece {
    bytes: Bytes,
    _reserved: Arc<Reservation>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// With "always 200", what a JSON-RPC error says is left to it. What the transport turns away keeps
/// its status: there a client must wait, or cannot go on as it does.
fn shown(status: StatusCode, always_200: bool) -> StatusCode {
    let told_by_the_body = matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::INTERNAL_SERVER_ERROR
    );
    if always_200 && told_by_the_body {
        StatusCode::OK
    } else {
        status
    }
}

/// A refusal of the whole request.
pub(super) fn refused(error: &WireError, origin: &Origin) -> Response {
    let mut body = Vec::new();
    interzone_jsonrpc::Response::failure(None, error.error()).write_to(&mut body);
    let mut response = json(error.http, body, origin);
    advise(response.headers_mut(), error);
    response
}

/// What a listener answers to requests that no door answers: they are too many, took too long, or are
/// for nobody.
pub fn turned_away(why: TurnedAway, correlation: Correlation) -> Response {
    let error = match why {
        TurnedAway::Busy => errors::unavailable("busy"),
        TurnedAway::TooManyArriving => errors::unavailable("too_many_arriving"),
        TurnedAway::TooSlow => errors::took_too_long(),
        TurnedAway::BadHost => errors::transport(
            StatusCode::BAD_REQUEST,
            "Send one Host header, with the name of the server",
            "bad_host",
        ),
        TurnedAway::Unreadable => errors::transport(
            StatusCode::BAD_REQUEST,
            "This is not a request of HTTP/1.1",
            "unreadable",
        ),
        TurnedAway::HeadTooLarge => errors::transport(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "The path and the headers are too long, or the headers are too many",
            "head_too_large",
        ),
    };
    let origin = Origin {
        correlation,
        peer: None,
        arrived: Instant::now(),
        live: false,
        trace: None,
        door: CALLS,
    };
    refused(&error, &origin)
}

/// What the headers say of an error.
fn advise(headers: &mut HeaderMap, error: &WireError) {
    let challenge = error.challenge.as_ref();
    let challenge = challenge.map(|challenge| HeaderValue::try_from(format!("Bearer {challenge}")));
    if let Some(Ok(challenge)) = challenge {
        headers.insert(WWW_AUTHENTICATE, challenge);
    }
    if let Some(seconds) = error.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
}

/// A verb that a door does not know.
pub(super) fn only(verb: &'static str, origin: &Origin) -> Response {
    let error = errors::transport(
        StatusCode::METHOD_NOT_ALLOWED,
        "Method not allowed here; see the Allow header",
        "wrong_verb",
    );
    let mut response = refused(&error, origin);
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static(verb));
    response
}

/// All doors but those for calls are for reading.
pub(super) async fn wrong_verb(headers: HeaderMap) -> Response {
    only("GET, HEAD", &Origin::of(&headers, None))
}

/// There is no such door.
pub(super) async fn nowhere(headers: HeaderMap) -> Response {
    nowhere_but(CALLS, &headers)
}

/// The same where calls go to another.
pub(super) fn nowhere_but(calls: &str, headers: &HeaderMap) -> Response {
    let said = format!("There is nothing here; calls go to POST {calls}");
    let error = errors::transport(StatusCode::NOT_FOUND, said, "nowhere");
    refused(&error, &Origin::of(headers, None))
}
