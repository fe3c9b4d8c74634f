//! The doors of the zone: which address leads where. The signature is looked at before anything else,
//! over the bytes as they came, and nothing is done before the answer but one commit.

mod operators;

use crate::slack::signature::{
    SIGNATURE_HEADER, TIMESTAMP_HEADER, Unsigned, check_headers, verify,
};
use crate::zone::{Parts, Taken, Zone};
use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use interzone_edge::body::{self, BodyError};
use interzone_edge::budget::ShareKey;
use interzone_edge::listener::Peer;
use interzone_hub::HubError;
use std::sync::Arc;
use std::time::Instant;

const EVENTS: &str = "slack.events";
const ACTIONS: &str = "slack.interactions";

/// Every door of the zone.
pub fn router(zone: Zone) -> Router {
    let install = zone.0.install.clone();
    let doors = Router::new()
        .route("/slack/events", post(events))
        .route("/slack/interactions", post(actions))
        .route("/healthz", get(operators::alive))
        .route("/readyz", get(operators::ready))
        .route("/metrics", get(operators::metrics))
        .with_state(zone);
    match install {
        Some(install) => doors.merge(install),
        None => doors,
    }
    .fallback(|| async { plain(StatusCode::NOT_FOUND, "not found") })
}

async fn events(State(zone): State<Zone>, request: Request) -> Response {
    let began = Instant::now();
    let body = match signed(&zone.0, request).await {
        Ok(body) => body,
        Err(refused) => return refused.answer(&zone.0, EVENTS, began),
    };
    let taken = zone.take_event(&body).await;
    answer(&zone.0, EVENTS, began, taken)
}

async fn actions(State(zone): State<Zone>, request: Request) -> Response {
    let began = Instant::now();
    let body = match signed(&zone.0, request).await {
        Ok(body) => body,
        Err(refused) => return refused.answer(&zone.0, ACTIONS, began),
    };
    let taken = zone.take_action(&body).await;
    answer(&zone.0, ACTIONS, began, taken)
}

/// Why a body is not read.
enum Refused {
    Unsigned(Unsigned),
    Body(BodyError),
}

impl Refused {
    fn answer(self, zone: &Parts, door: &'static str, began: Instant) -> Response {
        let (status, words, word) = match self {
            Self::Unsigned(unsigned) => {
                tracing::warn!(door, reason = %unsigned, "a request is not believed");
                zone.metrics.auth_refused(unsigned_word(unsigned));
                (StatusCode::UNAUTHORIZED, "unauthorized", "unsigned")
            }
            Self::Body(BodyError::TooLarge { .. }) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "too large", "too_large")
            }
            Self::Body(BodyError::NoRoom) => {
                (StatusCode::SERVICE_UNAVAILABLE, "busy", "unavailable")
            }
            Self::Body(BodyError::TooSlow { .. }) => {
                (StatusCode::REQUEST_TIMEOUT, "too slow", "broken")
            }
            Self::Body(BodyError::Broken(_)) => (StatusCode::BAD_REQUEST, "incomplete", "broken"),
        };
        count(zone, door, word, began);
        plain(status, words)
    }
}

const fn unsigned_word(unsigned: Unsigned) -> &'static str {
    match unsigned {
        Unsigned::NoSecret => "no_signing_secret",
        Unsigned::Missing => "signature_missing",
        Unsigned::BadTime => "signature_bad_time",
        Unsigned::WrongTime { .. } => "signature_wrong_time",
        Unsigned::Wrong => "signature_wrong",
    }
}

/// The body, if Slack sent it.
async fn signed(zone: &Parts, request: Request) -> Result<Bytes, Refused> {
    let (head, body) = request.into_parts();
    let headers = head.headers;
    let secret = zone.signing_secret.as_ref();
    let secret = secret.ok_or(Refused::Unsigned(Unsigned::NoSecret))?;
    let (time, signature) = (
        single(&headers, TIMESTAMP_HEADER),
        single(&headers, SIGNATURE_HEADER),
    );
    let now = || u64::try_from(zone.hub.now().as_millis() / 1000).unwrap_or(0);
    // What cannot be Slack's, whatever its body says, is not read.
    check_headers(secret, time, signature, now()).map_err(Refused::Unsigned)?;
    let peer = head.extensions.get::<Arc<Peer>>();
    let key = peer.map_or(ShareKey::Unattributed, |peer| peer.share_key());
    let body = body::read(body, &headers, &zone.limits, key).await;
    let body = body.map_err(Refused::Body)?;
    verify(secret, time, signature, &body, now()).map_err(Refused::Unsigned)?;
    Ok(body)
}

/// A header that is there once. Two are none: nobody can say which one counts.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn answer(
    zone: &Parts,
    door: &'static str,
    began: Instant,
    taken: Result<Taken, HubError>,
) -> Response {
    match taken {
        Ok(Taken::Challenge(challenge)) => {
            count(zone, door, "challenge", began);
            plain(StatusCode::OK, challenge)
        }
        Ok(Taken::Done(word)) => {
            count(zone, door, word, began);
            StatusCode::OK.into_response()
        }
        Err(error) => {
            // Slack tells it again, and nothing was kept of it.
            tracing::error!(door, %error, "what slack told could not be kept");
            count(zone, door, "unavailable", began);
            let mut response = plain(StatusCode::SERVICE_UNAVAILABLE, "try again");
            let soon = HeaderValue::from_static("1");
            response.headers_mut().insert(RETRY_AFTER, soon);
            response
        }
    }
}

fn count(zone: &Parts, door: &'static str, word: &'static str, began: Instant) {
    let took = began.elapsed().as_secs_f64();
    zone.metrics.request(door, word, took);
}

fn plain(status: StatusCode, words: impl Into<String>) -> Response {
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    let mut response = (status, words.into()).into_response();
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
