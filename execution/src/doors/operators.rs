//! For those who run the zone: whether it lives, whether it can work, what it counts.

use super::answer::{json, refused, with_headers};
use crate::rpc::{Known, Origin, errors};
use crate::zone::Zone;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use interzone_edge::listener::Peer;
use interzone_edge::telemetry::MEDIA_TYPE;
use interzone_protocol::acp::Scope;
use serde_json::json as object;
use std::sync::Arc;
use std::time::Duration;

/// How long the store may take to say how much waits.
const STORE_TIME: Duration = Duration::from_secs(2);

/// The scope that reads the metrics. It is no scope of ACP: those who call agents do not need it.
pub const OPERATE_SCOPE: &str = Scope::Operate.name();

/// ACP's own: who is here.
pub(super) async fn health(State(zone): State<Arc<Zone>>, headers: HeaderMap) -> Response {
    let body = object!({"status": "healthy", "agent": zone.operator.name}).to_string();
    json(StatusCode::OK, body, &Origin::of(&headers, None))
}

/// The process lives.
pub(super) async fn alive(headers: HeaderMap) -> Response {
    let body = object!({"status": "alive"}).to_string();
    json(StatusCode::OK, body, &Origin::of(&headers, None))
}

/// The zone can do what it is there for; if not, words say what is missing.
pub(super) async fn ready(State(zone): State<Arc<Zone>>, headers: HeaderMap) -> Response {
    let missing = missing(&zone).await;
    let (status, word) = if missing.is_empty() {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not_ready")
    };
    let body = object!({"status": word, "reasons": missing}).to_string();
    json(status, body, &Origin::of(&headers, None))
}

async fn missing(zone: &Zone) -> Vec<&'static str> {
    let mut missing = Vec::new();
    // The only part that costs more than a look into memory, so all requests of a second share it.
    match zone.store_check.result().await {
        Some(true) => {}
        Some(false) => missing.push("store_unavailable"),
        None => missing.push("store_too_slow"),
    }
    let mut agents = zone.hub.agents().iter();
    if !agents.any(|agent| agent.is_available()) {
        missing.push("no_agent_available");
    }
    if zone.stop.is_cancelled() {
        missing.push("closing");
    }
    missing.extend(zone.checks.iter().filter_map(|check| check()));
    missing
}

/// What the zone counts. How many tasks there are is nobody's business but the operator's, so unless
/// they decide otherwise it takes a token of theirs.
pub(super) async fn metrics(State(zone): State<Arc<Zone>>, request: Request) -> Response {
    let peer = request.extensions().get::<Arc<Peer>>();
    let origin = Origin::of(request.headers(), peer.cloned());
    if !zone.metrics_public {
        match Known::by(&zone, request.headers(), origin.peer.as_deref()).await {
            Err(error) => return refused(&error, &origin),
            Ok(known) if !known.identity.has_scope(OPERATE_SCOPE) => {
                return refused(&errors::not_operator(OPERATE_SCOPE), &origin);
            }
            Ok(_) => {}
        }
    }
    depths(&zone).await;
    let body = Body::from(zone.metrics.encode());
    let mut response = with_headers(StatusCode::OK, body, &origin);
    let kind = HeaderValue::from_static(MEDIA_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Looks how much waits. A store that does not say soon leaves what was known before.
async fn depths(zone: &Zone) {
    let store = zone.hub.store();
    let looked = tokio::time::timeout(STORE_TIME, async {
        if let Ok((waiting, held)) = store.work_depth(zone.hub.now()).await {
            zone.metrics.queue(waiting, held);
        }
        if let Ok((waiting, dead)) = store.outbox_depth().await {
            zone.metrics.outbox(waiting, dead);
        }
    });
    if looked.await.is_err() {
        tracing::warn!("the store did not say how much waits");
    }
}
