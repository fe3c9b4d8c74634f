//! `POST /jsonrpc`: the one door for calls. Before anybody looks at the bytes: the verb, the
//! size, the media type. Whether there is room for a request at all was decided by the listener.

use super::answer::CALLS;
use super::{answer, call_sse};
use crate::rpc::content::Content;
use crate::rpc::errors::{self, WireError};
use crate::rpc::{self, Known, Origin, Served};
use crate::zone::Zone;
use axum::BoxError;
use axum::body::HttpBody as Body;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use interzone_edge::body::{self, BodyError, BodyReader};
use interzone_edge::budget::{Reservation, ShareKey};
use interzone_edge::listener::{Peer, Sender};
use interzone_edge::request::{CORRELATION, Correlation, TRACEPARENT, TraceParent};
use interzone_edge::telemetry;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use tokio::time::Instant;
use tracing::{Instrument, Level};

/// A body that can be read, in a box or as the connection gives it.
pub(super) trait Incoming:
    Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static
{
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static> Incoming for B {}

pub(super) async fn call(
    State(zone): State<Arc<Zone>>,
    request: axum::extract::Request,
) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>().cloned();
    let sender = request.extensions().get::<Sender>().cloned();
    answer(zone, request, peer, sender, CALLS).await
}

pub(super) fn answer<B: Incoming>(
    zone: Arc<Zone>,
    request: Request<B>,
    peer: Option<Arc<Peer>>,
    sender: Option<Sender>,
    door: &'static str,
) -> impl Future<Output = Response> + Send {
    // What nobody looks at any more goes before there is a future: what that is given takes room in it, and
    // is moved with it.
    let (
        Parts {
            method, headers, ..
        },
        body,
    ) = request.into_parts();
    async move {
        let said = Said::by(&headers);
        let origin = Origin {
            correlation: Correlation::from_header(said.name),
            peer,
            arrived: Instant::now(),
            live: said.takes_events,
            trace: said
                .traced
                .then(|| TraceParent::from_headers(&headers))
                .flatten(),
            door,
        };
        let unreadable = said.unreadable();
        if method != Method::POST {
            return answer::only("POST", &origin);
        }
        let body = (body, sender);
        let mut answering = pin!(followed(&zone, &headers, unreadable, body, &origin));
        // Whatever is logged meanwhile says which request it is about.
        poll_fn(|cx| {
            let _mark = telemetry::mark(&origin.correlation);
            answering.as_mut().poll(cx)
        })
        .await
    }
}

async fn followed<B: Incoming>(
    zone: &Arc<Zone>,
    headers: &HeaderMap,
    unreadable: Unreadable,
    body: (B, Option<Sender>),
    origin: &Origin,
) -> Response {
    // A span costs more than many an answer, so there is none unless somebody will see it.
    if !telemetry::traced() && !tracing::enabled!(Level::DEBUG) {
        let mut response = within(zone, headers, unreadable, body, origin).await;
        if let Some(parent) = &origin.trace {
            parent.child().put(response.headers_mut());
        }
        return response;
    }
    Box::pin(spanned(zone, headers, unreadable, body, origin)).await
}

/// The same, told to whoever follows traces.
async fn spanned<B: Incoming>(
    zone: &Arc<Zone>,
    headers: &HeaderMap,
    unreadable: Unreadable,
    body: (B, Option<Sender>),
    origin: &Origin,
) -> Response {
    let span = tracing::info_span!("request", correlation = %origin.correlation);
    if let Some(parent) = &origin.trace {
        telemetry::follow(&span, parent);
    }
    let mut response = within(zone, headers, unreadable, body, origin)
        .instrument(span.clone())
        .await;
    if let Some(parent) = &origin.trace {
        telemetry::current(&span)
            .unwrap_or_else(|| parent.child())
            .put(response.headers_mut());
    }
    response
}

async fn within<B: Incoming>(
    zone: &Arc<Zone>,
    headers: &HeaderMap,
    unreadable: Unreadable,
    body: (B, Option<Sender>),
    origin: &Origin,
) -> Response {
    if let Some(why) = unreadable
        && announced(headers).is_none_or(|size| size <= zone.limits.body)
    {
        zone.metrics.turned_away("media_type");
        let error = errors::transport(StatusCode::UNSUPPORTED_MEDIA_TYPE, why, "media_type");
        return answer::refused(&error, origin);
    }
    // What it takes of the memory for bodies stays taken until it is answered, whether or not the bytes are
    // still there.
    let (bytes, _reservation) = match read(zone, headers, body, origin).await {
        Ok(read) => read,
        Err(response) => return *response,
    };
    let asked = bytes.len();
    let mut served = rpc::serve(zone, bytes, headers, origin).await;
    if let Some((live, Some(known))) = served.live.take() {
        return call_sse::answer(zone, *live, known, &served, origin);
    }
    let Some(mut content) = served.body.take() else {
        return answer::served(&served, None, zone.always_200, origin);
    };
    let mut reserved = content.take_reservation();
    let whole = content
        .into_one()
        .map(|whole| body::hold_within(whole, asked, &zone.limits, &served.share, &mut reserved));
    match whole {
        Ok(Ok(body)) => answer::served(&served, Some(body.into()), zone.always_200, origin),
        Ok(Err(error)) => turned_away(zone, &error, origin),
        Err(large) => in_pieces(zone, &served, large, &mut reserved, origin),
    }
}

/// Reads the body, or makes the answer to one that is refused. The caller of a body of more than 64 KiB is
/// authenticated before the rest is read, and the rest counts against its own share.
async fn read<B: Incoming>(
    zone: &Zone,
    headers: &HeaderMap,
    (body, sender): (B, Option<Sender>),
    origin: &Origin,
) -> Result<(Bytes, Option<Reservation>), Box<Response>> {
    let peer = origin.peer.as_deref();
    let key = peer.map_or(ShareKey::Unattributed, Peer::share_key);
    let mut reader = BodyReader::new(body, headers, &zone.limits, key, sender);
    let refused = |error: BodyError| Box::new(turned_away(zone, &error, origin));
    if let Err(error) = reader.check_size() {
        reader.run_out();
        return Err(refused(error));
    }
    // Many others of this address are sending. A caller who can be told apart from them must not suffer for
    // it; what is wrong with its token is said in its turn.
    if reader.is_crowded()
        && let Ok(identity) = Box::pin(Known::identity(zone, headers, peer)).await
    {
        reader.authenticated(&identity.principal).map_err(refused)?;
    }
    let read = match reader.read_start().await {
        Ok(true) => return Ok(reader.finish()),
        Ok(false) => match Box::pin(Known::by(zone, headers, peer)).await {
            Ok(known) => match reader.authenticated(&known.identity.principal) {
                Ok(()) => reader.read_rest().await,
                full => full,
            },
            Err(error) => {
                reader.run_out();
                return Err(Box::new(unproved(zone, *error, origin)));
            }
        },
        Err(error) => Err(error),
    };
    match read {
        Ok(()) => Ok(reader.finish()),
        Err(error) => {
            if matches!(error, BodyError::TooLarge { .. } | BodyError::NoRoom) {
                reader.run_out();
            }
            Err(refused(error))
        }
    }
}

/// The answer to a body that is not read, for its caller could not be authenticated.
fn unproved(zone: &Zone, error: WireError, origin: &Origin) -> Response {
    let mut served = rpc::unproved_unread(error);
    let body = served.body.take().map(Content::joined);
    answer::served(&served, body.map(Into::into), zone.always_200, origin)
}

/// An answer with something large in it.
fn in_pieces(
    zone: &Zone,
    served: &Served,
    content: Content,
    reserved: &mut Option<Reservation>,
    origin: &Origin,
) -> Response {
    match answer::in_pieces(content.pieces(), &zone.limits, &served.share, reserved) {
        Ok((body, size)) => {
            let mut response = answer::served(served, Some(body), zone.always_200, origin);
            let headers = response.headers_mut();
            headers.insert(CONTENT_LENGTH, HeaderValue::from(size));
            response
        }
        Err(error) => turned_away(zone, &error, origin),
    }
}

fn turned_away(zone: &Zone, error: &BodyError, origin: &Origin) -> Response {
    let error = unread(error);
    zone.metrics.turned_away(error.word);
    answer::refused(&error, origin)
}

/// Why the body is not one that is read here, if it is not.
type Unreadable = Option<&'static str>;

/// What the headers say of a call, of its body and of the answer that is wanted. They are few, so that one walk
/// past all of them costs less than to look for each by its name.
#[derive(Default)]
struct Said<'h> {
    /// What the caller calls the request, whatever that may be.
    name: Option<&'h HeaderValue>,
    /// Whether it has a place in a trace, good or not.
    traced: bool,
    /// How often there is a media type, and whether the last is JSON's.
    types: usize,
    is_json: bool,
    /// Whether the body is packed, by the first that says so or not.
    packed: Option<bool>,
    /// Whether the caller takes server-sent events as the answer to a call.
    takes_events: bool,
}

impl<'h> Said<'h> {
    fn by(headers: &'h HeaderMap) -> Self {
        let mut said = Self::default();
        for (name, value) in headers {
            if *name == CONTENT_TYPE {
                said.types += 1;
                said.is_json = is_json(value);
            } else if *name == ACCEPT {
                said.takes_events |= takes_events(value);
            } else if *name == CONTENT_ENCODING {
                let plain = value.as_bytes().eq_ignore_ascii_case(b"identity");
                said.packed = said.packed.or(Some(!plain));
            } else if *name == CORRELATION {
                said.name = said.name.or(Some(value));
            } else if *name == TRACEPARENT {
                said.traced = true;
            }
        }
        said
    }

    /// Why the body is not one that is read here: it is said not to be JSON, or to be packed.
    fn unreadable(&self) -> Unreadable {
        if self.types != 1 || !self.is_json {
            return Some("Content-Type must be application/json");
        }
        let packed = self.packed.unwrap_or(false);
        packed.then_some("Content-Encoding is not taken here: send it plain")
    }
}

/// `application/json`, whatever parameters follow, and nothing else beside it.
fn is_json(value: &HeaderValue) -> bool {
    let kind = value.as_bytes().split(|byte| *byte == b';').next();
    kind.is_some_and(|kind| kind.trim_ascii().eq_ignore_ascii_case(b"application/json"))
}

/// Whether server-sent events are among what is taken.
fn takes_events(value: &HeaderValue) -> bool {
    let ranges = value.to_str().unwrap_or_default().split(',');
    ranges.into_iter().any(|range| {
        let kind = range.split(';').next().unwrap_or_default().trim();
        let refused = range.split(';').skip(1).any(|more| {
            let weight = more.trim().strip_prefix("q=");
            weight.is_some_and(|weight| weight.trim().parse() == Ok(0.0_f32))
        });
        kind.eq_ignore_ascii_case("text/event-stream") && !refused
    })
}

fn announced(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn unread(error: &BodyError) -> WireError {
    match error {
        BodyError::TooLarge { limit } => errors::transport(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("The body may have at most {limit} bytes"),
            "too_large",
        ),
        BodyError::NoRoom => errors::unavailable("no_room"),
        BodyError::TooSlow { .. } => errors::transport(
            StatusCode::REQUEST_TIMEOUT,
            "The body came too slowly",
            "too_slow",
        ),
        BodyError::Broken(_) => {
            errors::transport(StatusCode::BAD_REQUEST, "The body broke off", "broken_body")
        }
    }
}
