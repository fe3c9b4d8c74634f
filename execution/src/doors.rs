//! The doors of the zone: which address leads where. What is said through them is decided behind them.

mod agentcore;
mod answer;
mod attach;
mod call_sse;
mod card;
mod jsonrpc;
mod operators;
mod seats;
mod watch_sse;
mod watch_ws;

pub use agentcore::{AgentCore, AgentCoreOptions};
pub use answer::turned_away;
pub use operators::OPERATE_SCOPE;
pub(crate) use seats::Seats;

use crate::zone::Zone;
use axum::Router;
use axum::routing::{any, get};
use interzone_edge::listener::{Answering, Arriving, Peer};
use std::ops::ControlFlow;
use std::sync::Arc;

/// The shortcut to the door for calls, which is by far the busiest.
pub fn shortcut(
    zone: Arc<Zone>,
) -> impl Fn(Arriving, &Arc<Peer>) -> ControlFlow<Answering, Arriving> + Send + Sync + 'static {
    move |request, peer| {
        if !matches!(request.uri().path(), "/jsonrpc" | "/rpc") {
            return ControlFlow::Continue(request);
        }
        let (zone, peer) = (Arc::clone(&zone), Arc::clone(peer));
        let sender = request.body().sender().cloned();
        let answer = jsonrpc::answer(zone, request, Some(peer), sender, answer::CALLS);
        ControlFlow::Break(Box::pin(answer))
    }
}

/// Every door of the zone.
pub fn router(zone: Arc<Zone>) -> Router {
    let issuer = zone.issuer.clone();
    let doors = Router::new()
        .route("/jsonrpc", any(jsonrpc::call))
        .route("/rpc", any(jsonrpc::call))
        .route("/tasks/{id}/events", get(watch_sse::task))
        .route("/streams/{id}/events", get(watch_sse::stream))
        .route("/streams/{id}", get(watch_ws::stream))
        .route("/.well-known/agent.json", get(card::agent))
        .route(
            "/.well-known/oauth-protected-resource",
            get(card::protected_resource),
        )
        .route("/health", get(operators::health))
        .route("/healthz", get(operators::alive))
        .route("/readyz", get(operators::ready))
        .route("/metrics", get(operators::metrics))
        .method_not_allowed_fallback(answer::wrong_verb)
        .with_state(zone);
    match issuer {
        Some(issuer) => doors.merge(issuer),
        None => doors,
    }
    .fallback(answer::nowhere)
}
