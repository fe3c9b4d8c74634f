//! HTTP routes. The signature is verified over the raw body before anything else, and only one commit happens before
//! the response.

mod ops;

use crate::slack::signature::{
    SIGNATURE_HEADER, SignatureError, TIMESTAMP_HEADER, check_headers, verify,
};
use crate::state::{IngestResult, StateInner, VerificationState};
use axum::Router;
use axum::extract::{Request, State};
use axum::middleware::from_fn;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use interzone_edge::body::{self, BodyError};
use interzone_edge::budget::ShareKey;
use interzone_edge::listener::Peer;
use interzone_edge::telemetry;
use interzone_hub::{HubError, LogThrottle};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const EVENTS_METHOD: &str = "slack.events";
/// Anyone can send requests with a wrong signature, so not each of them gets a log line.
const SIGNATURE_LOG_INTERVAL: Duration = Duration::from_secs(5);
const INTERACTIONS_METHOD: &str = "slack.interactions";

/// Returns all routes of the zone.
pub fn router(zone: VerificationState) -> Router {
    let install = zone.0.install.clone();
    let routes = Router::new()
        .route("/slack/events", post(slack_events))
        .route("/slack/interactions", post(slack_interactions))
        .route("/healthz", get(ops::healthz))
        .route("/readyz", get(ops::readyz))
        .route("/metrics", get(ops::metrics))
        .with_state(zone);
    match install {
        Some(install) => routes.merge(install),
        None => routes,
    }
    .fallback(|| async { text_response(StatusCode::NOT_FOUND, "not found") })
    .layer(from_fn(telemetry::trace_request))
}

async fn slack_events(State(zone): State<VerificationState>, request: Request) -> Response {
    let started_at = Instant::now();
    let body = match verified_body(&zone.0, request).await {
        Ok(body) => body,
        Err(rejection) => return rejection.response(&zone.0, EVENTS_METHOD, started_at),
    };
    let result = zone.ingest_event(&body).await;
    ingest_response(&zone.0, EVENTS_METHOD, started_at, result)
}

async fn slack_interactions(State(zone): State<VerificationState>, request: Request) -> Response {
    let started_at = Instant::now();
    let body = match verified_body(&zone.0, request).await {
        Ok(body) => body,
        Err(rejection) => return rejection.response(&zone.0, INTERACTIONS_METHOD, started_at),
    };
    let result = zone.ingest_interaction(&body).await;
    ingest_response(&zone.0, INTERACTIONS_METHOD, started_at, result)
}

/// Reason why a request is rejected.
enum RequestRejection {
    Unsigned(SignatureError),
    Body(BodyError),
}

impl RequestRejection {
    fn response(self, zone: &StateInner, method: &'static str, started_at: Instant) -> Response {
        let (status, text, label) = match self {
            Self::Unsigned(error) => {
                if let Some(requests) = zone.signature_rejections.record(Instant::now()) {
                    tracing::warn!(requests, method, reason = %error, "request signatures rejected");
                }
                zone.metrics
                    .record_auth_failure(signature_error_label(error));
                (StatusCode::UNAUTHORIZED, "unauthorized", "unsigned")
            }
            Self::Body(BodyError::TooLarge { .. }) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "too large", "too_large")
            }
            Self::Body(BodyError::MemoryLimit) => {
                (StatusCode::SERVICE_UNAVAILABLE, "busy", "unavailable")
            }
            Self::Body(BodyError::TooSlow { .. }) => {
                (StatusCode::REQUEST_TIMEOUT, "too slow", "broken")
            }
            Self::Body(BodyError::Incomplete(_)) => {
                (StatusCode::BAD_REQUEST, "incomplete", "broken")
            }
        };
        record_request(zone, method, label, started_at);
        text_response(status, text)
    }
}

/// Counts requests whose signature was rejected, and reports them in one log line per interval.
pub(crate) struct SignatureRejectionLog(Mutex<LogThrottle>);

impl SignatureRejectionLog {
    /// Counts a request. If a log line is due, returns the number of requests it reports.
    fn record(&self, now: Instant) -> Option<u64> {
        let mut throttle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        throttle.record(1, now)
    }
}

impl Default for SignatureRejectionLog {
    fn default() -> Self {
        Self(Mutex::new(LogThrottle::new(SIGNATURE_LOG_INTERVAL)))
    }
}

const fn signature_error_label(error: SignatureError) -> &'static str {
    match error {
        SignatureError::NoSecret => "no_signing_secret",
        SignatureError::Missing => "signature_missing",
        SignatureError::InvalidTimestamp => "signature_bad_time",
        SignatureError::ClockSkew { .. } => "signature_wrong_time",
        SignatureError::Mismatch => "signature_wrong",
    }
}

/// Reads the body and verifies its signature.
async fn verified_body(zone: &StateInner, request: Request) -> Result<Bytes, RequestRejection> {
    let (head, body) = request.into_parts();
    let headers = head.headers;
    let secret = zone.signing_secret.as_ref();
    let secret = secret.ok_or(RequestRejection::Unsigned(SignatureError::NoSecret))?;
    let (timestamp, signature) = (
        single_header(&headers, TIMESTAMP_HEADER),
        single_header(&headers, SIGNATURE_HEADER),
    );
    let now = || u64::try_from(zone.hub.now().as_millis() / 1000).unwrap_or(0);
    // Requests whose headers cannot be valid are rejected before the body is read.
    check_headers(secret, timestamp, signature, now()).map_err(RequestRejection::Unsigned)?;
    let peer = head.extensions.get::<Arc<Peer>>();
    let key = peer.map_or(ShareKey::Unattributed, |peer| peer.share_key());
    let body = body::read_body(body, &headers, &zone.limits, key).await;
    let body = body.map_err(RequestRejection::Body)?;
    verify(secret, timestamp, signature, &body, now()).map_err(RequestRejection::Unsigned)?;
    Ok(body)
}

/// Returns the value of a header that occurs exactly once. Duplicates are ambiguous, so they count as missing.
fn single_header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn ingest_response(
    zone: &StateInner,
    method: &'static str,
    started_at: Instant,
    result: Result<IngestResult, HubError>,
) -> Response {
    match result {
        Ok(IngestResult::Challenge(challenge)) => {
            record_request(zone, method, "challenge", started_at);
            text_response(StatusCode::OK, challenge)
        }
        Ok(IngestResult::Done(label)) => {
            record_request(zone, method, label, started_at);
            StatusCode::OK.into_response()
        }
        Err(error) => {
            // Nothing was stored; Slack sends it again.
            tracing::error!(method, %error, "storing slack event failed");
            record_request(zone, method, "unavailable", started_at);
            let mut response = text_response(StatusCode::SERVICE_UNAVAILABLE, "try again");
            let retry_after = HeaderValue::from_static("1");
            response.headers_mut().insert(RETRY_AFTER, retry_after);
            response
        }
    }
}

fn record_request(
    zone: &StateInner,
    method: &'static str,
    label: &'static str,
    started_at: Instant,
) {
    let latency = started_at.elapsed().as_secs_f64();
    zone.metrics.record_request(method, label, latency);
}

fn text_response(status: StatusCode, text: impl Into<String>) -> Response {
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    let mut response = (status, text.into()).into_response();
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_signatures_get_one_log_line_per_interval() {
        let (log, start) = (SignatureRejectionLog::default(), Instant::now());
        assert_eq!(log.record(start), Some(1));
        for _ in 0..1000 {
            assert_eq!(log.record(start), None);
        }
        assert_eq!(log.record(start + SIGNATURE_LOG_INTERVAL), Some(1001));
    }
}
