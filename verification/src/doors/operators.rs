//! For those who run the zone: whether it lives, whether it can work, what it counts.

use super::plain;
use crate::zone::{Parts, Zone};
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use interzone_edge::telemetry::MEDIA_TYPE;
use serde_json::json;
use std::time::Duration;

/// How long the store may take to say how much waits.
const STORE_TIME: Duration = Duration::from_secs(2);

/// The process lives.
pub(super) async fn alive() -> Response {
    object(StatusCode::OK, &json!({"status": "alive"}))
}

/// The zone can do what it is there for; if not, words say what is missing.
pub(super) async fn ready(State(zone): State<Zone>) -> Response {
    let missing = missing(&zone.0).await;
    let (status, word) = if missing.is_empty() {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not_ready")
    };
    let neighbours = zone.0.neighbours.get().into_iter().flatten();
    let away: Vec<&str> = neighbours.filter_map(|check| check()).collect();
    let mut told = json!({"status": word, "reasons": missing});
    if let (Some(told), false) = (told.as_object_mut(), away.is_empty()) {
        told.insert("away".to_owned(), json!(away));
    }
    object(status, &told)
}

async fn missing(zone: &Parts) -> Vec<&'static str> {
    let mut missing = Vec::new();
    // The only part that costs more than a look into memory, so all requests of a second share it.
    match zone.store_check.result().await {
        Some(true) => {}
        Some(false) => missing.push("store_unavailable"),
        None => missing.push("store_too_slow"),
    }
    if zone.stop.is_cancelled() {
        missing.push("closing");
    }
    missing.extend(zone.checks.iter().filter_map(|check| check()));
    missing
}

/// What the zone counts, if the operator has opened it.
pub(super) async fn metrics(State(zone): State<Zone>) -> Response {
    if !zone.0.metrics_public {
        return plain(StatusCode::FORBIDDEN, "the metrics are not public here");
    }
    let store = zone.0.hub.store();
    let looked = tokio::time::timeout(STORE_TIME, store.outbox_depth()).await;
    if let Ok(Ok((waiting, dead))) = looked {
        zone.0.metrics.outbox(waiting, dead);
    }
    let mut response = Body::from(zone.0.metrics.encode()).into_response();
    let kind = HeaderValue::from_static(MEDIA_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn object(status: StatusCode, value: &serde_json::Value) -> Response {
    let kind = HeaderValue::from_static("application/json");
    let mut response = (status, value.to_string()).into_response();
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}
