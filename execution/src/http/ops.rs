//! Endpoints for operators: liveness, readiness and metrics.

use super::response::{error_response, json, with_headers};
use crate::rpc::acp::errors::{map_error, not_operator};
use crate::rpc::{AuthenticatedCaller, RequestMeta};
use crate::state::ExecutionState;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use interzone_edge::listener::Peer;
use interzone_edge::telemetry::METRICS_MEDIA_TYPE;
use interzone_protocol::Scope;
use serde_json::json as object;
use std::sync::Arc;
use std::time::Duration;

/// Timeout for reading queue depths from the store.
const DEPTH_QUERY_TIMEOUT: Duration = Duration::from_secs(2);

/// Scope for reading the metrics. Not an ACP scope: callers of agents do not need it.
pub const OPERATE_SCOPE: &str = Scope::Operate.name();

/// `GET /health`, ACP's health endpoint.
pub(super) async fn health(
    State(zone): State<Arc<ExecutionState>>,
    headers: HeaderMap,
) -> Response {
    let body = object!({"status": "healthy", "agent": zone.operator.name}).to_string();
    json(
        StatusCode::OK,
        body,
        &RequestMeta::from_headers(&headers, None),
    )
}

/// `GET /healthz`: the process is alive.
pub(super) async fn healthz(headers: HeaderMap) -> Response {
    let body = object!({"status": "alive"}).to_string();
    json(
        StatusCode::OK,
        body,
        &RequestMeta::from_headers(&headers, None),
    )
}

/// `GET /readyz`: 200 if the zone can serve calls, otherwise 503 with reasons.
pub(super) async fn readyz(
    State(zone): State<Arc<ExecutionState>>,
    headers: HeaderMap,
) -> Response {
    let reasons = not_ready_reasons(&zone).await;
    let (status, label) = if reasons.is_empty() {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not_ready")
    };
    let body = object!({"status": label, "reasons": reasons}).to_string();
    json(status, body, &RequestMeta::from_headers(&headers, None))
}

async fn not_ready_reasons(zone: &ExecutionState) -> Vec<&'static str> {
    let mut reasons = Vec::new();
    // The only check that does more than read memory, so all requests within a second share it.
    match zone.store_check.result().await {
        Some(true) => {}
        Some(false) => reasons.push("store_unavailable"),
        None => reasons.push("store_too_slow"),
    }
    let mut agents = zone.hub.agents().iter();
    if !agents.any(|agent| agent.is_available()) {
        reasons.push("no_agent_available");
    }
    if zone.stop.is_cancelled() {
        reasons.push("closing");
    }
    reasons.extend(zone.checks.iter().filter_map(|check| check()));
    reasons
}

/// `GET /metrics`. Task counts concern only the operator, so an operator token is required unless the
/// metrics are configured as public.
pub(super) async fn metrics(State(zone): State<Arc<ExecutionState>>, request: Request) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>();
    let meta = RequestMeta::from_headers(request.headers(), peer.cloned());
    if !zone.metrics_public {
        match AuthenticatedCaller::authenticate(&zone, request.headers(), meta.peer.as_deref())
            .await
        {
            Err(error) => {
                let error = map_error(None, &error, zone.auth_urls());
                return error_response(&error, &meta);
            }
            Ok(caller) if !caller.identity.has_scope(OPERATE_SCOPE) => {
                return error_response(&not_operator(OPERATE_SCOPE), &meta);
            }
            Ok(_) => {}
        }
    }
    update_depth_gauges(&zone).await;
    let body = Body::from(zone.metrics.encode());
    let mut response = with_headers(StatusCode::OK, body, &meta);
    let media_type = HeaderValue::from_static(METRICS_MEDIA_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

/// Updates the queue depth gauges. If the store does not answer in time, they keep their values.
async fn update_depth_gauges(zone: &ExecutionState) {
    let store = zone.hub.store();
    let queries = tokio::time::timeout(DEPTH_QUERY_TIMEOUT, async {
        if let Ok((waiting, held)) = store.work_depth(zone.hub.now()).await {
            zone.metrics.set_queue(waiting, held);
        }
        if let Ok((waiting, dead)) = store.outbox_depth().await {
            zone.metrics.set_outbox(waiting, dead);
        }
    });
    if queries.await.is_err() {
        tracing::warn!("reading queue depths timed out");
    }
}
