//! HTTP routes of the Execution Zone.

mod a2a_card;
mod agentcore;
mod call_stream;
mod card;
mod jsonrpc;
mod open_watch;
mod ops;
mod response;
mod watch_limit;
mod watch_sse;
mod watch_ws;

pub use agentcore::{AgentCore, AgentCoreOptions};
pub use ops::OPERATE_SCOPE;
pub use response::listener_rejection;
pub(crate) use watch_limit::WatchLimiter;

use crate::state::ExecutionState;
use axum::Router;
use axum::middleware::from_fn;
use axum::routing::{any, get};
use interzone_edge::telemetry;
use std::sync::Arc;

/// Router with every endpoint of the zone.
pub fn router(zone: Arc<ExecutionState>) -> Router {
    let issuer = zone.issuer.clone();
    let routes = Router::new()
        .route("/jsonrpc", any(jsonrpc::endpoint))
        .route("/rpc", any(jsonrpc::endpoint))
        .route("/agents/{id}/jsonrpc", any(jsonrpc::agent_endpoint))
        .route("/a2a", any(jsonrpc::a2a_endpoint))
        .route("/a2a/", any(jsonrpc::a2a_endpoint))
        .route("/agents/{id}/a2a", any(jsonrpc::a2a_agent_endpoint))
        .route("/agents/{id}/a2a/", any(jsonrpc::a2a_agent_endpoint))
        .route("/tasks/{id}/events", get(watch_sse::tasks_events))
        .route("/streams/{id}/events", get(watch_sse::streams_events))
        .route("/streams/{id}", get(watch_ws::streams_socket))
        .route("/.well-known/agent.json", get(card::agent_card))
        .route("/.well-known/agent-card.json", get(a2a_card::default_card))
        .route(
            "/agents/{id}/.well-known/agent-card.json",
            get(a2a_card::agent_card),
        )
        .route(
            "/.well-known/oauth-protected-resource",
            get(card::protected_resource),
        )
        .route("/health", get(ops::health))
        .route("/healthz", get(ops::healthz))
        .route("/readyz", get(ops::readyz))
        .route("/metrics", get(ops::metrics))
        .method_not_allowed_fallback(response::method_not_allowed)
        .with_state(zone);
    match issuer {
        Some(issuer) => routes.merge(issuer),
        None => routes,
    }
    .fallback(response::not_found)
    .layer(from_fn(telemetry::trace_request))
}
