//! Public metadata: the agent card and the protected-resource metadata, served without a token.

use super::response::{JSONRPC_PATH, json};
use crate::card;
use crate::rpc::RequestMeta;
use crate::state::ExecutionState;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::json as object;
use std::sync::Arc;

/// `GET /.well-known/agent.json`, ACP's agent card.
pub(super) async fn agent_card(
    State(zone): State<Arc<ExecutionState>>,
    headers: HeaderMap,
) -> Response {
    card_response(JSONRPC_PATH, &zone, &headers)
}

/// Builds the card response for this call endpoint.
pub(super) fn card_response(
    endpoint: &str,
    zone: &ExecutionState,
    headers: &HeaderMap,
) -> Response {
    let card = card::agent_card(zone, endpoint);
    let body = serde_json::to_vec(&card).unwrap_or_default();
    json(
        StatusCode::OK,
        body,
        &RequestMeta::from_headers(headers, None),
    )
}

/// `GET /.well-known/oauth-protected-resource`, the metadata of RFC 9728.
pub(super) async fn protected_resource(
    State(zone): State<Arc<ExecutionState>>,
    headers: HeaderMap,
) -> Response {
    let metadata = object!({
        "resource": zone.public_url.as_str().trim_end_matches('/'),
        "authorization_servers": [zone.issuer_url],
        "scopes_supported": card::scopes(),
        "bearer_methods_supported": ["header"],
        "resource_name": zone.operator.name,
    });
    let body = metadata.to_string();
    json(
        StatusCode::OK,
        body,
        &RequestMeta::from_headers(&headers, None),
    )
}
