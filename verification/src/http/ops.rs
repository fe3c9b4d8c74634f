//! Health, readiness and metrics.

use super::text_response;
use crate::state::{StateInner, VerificationState};
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use interzone_edge::telemetry::METRICS_MEDIA_TYPE;
use serde_json::json;
use std::time::Duration;

/// Timeout for reading the outbox depth.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);

/// Liveness: the process runs.
pub(super) async fn healthz() -> Response {
    json_response(StatusCode::OK, &json!({"status": "alive"}))
}

/// Readiness, with reason codes if the zone is not ready.
pub(super) async fn readyz(State(zone): State<VerificationState>) -> Response {
    let missing = missing_reasons(&zone.0).await;
    let (status, label) = if missing.is_empty() {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not_ready")
    };
    let checks = zone.0.dependency_checks.get().into_iter().flatten();
    let unavailable: Vec<&str> = checks.filter_map(|check| check()).collect();
    let mut body = json!({"status": label, "reasons": missing});
    if let (Some(object), false) = (body.as_object_mut(), unavailable.is_empty()) {
        object.insert("away".to_owned(), json!(unavailable));
    }
    json_response(status, &body)
}

async fn missing_reasons(zone: &StateInner) -> Vec<&'static str> {
    let mut missing = Vec::new();
    // The only check that is not in memory, so all requests within a second share its result.
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

/// Prometheus metrics, if they are public.
pub(super) async fn metrics(State(zone): State<VerificationState>) -> Response {
    if !zone.0.metrics_public {
        return text_response(StatusCode::FORBIDDEN, "metrics are not public");
    }
    let store = zone.0.hub.store();
    let depth = tokio::time::timeout(STORE_TIMEOUT, store.outbox_depth()).await;
    if let Ok(Ok((waiting, dead))) = depth {
        zone.0.metrics.set_outbox(waiting, dead);
    }
    let mut response = Body::from(zone.0.metrics.encode()).into_response();
    let content_type = HeaderValue::from_static(METRICS_MEDIA_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

fn json_response(status: StatusCode, value: &serde_json::Value) -> Response {
    let content_type = HeaderValue::from_static("application/json");
    let mut response = (status, value.to_string()).into_response();
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}
