//! Who the zone is and where tokens come from, for those who have none yet.

use super::answer::{CALLS, json};
use crate::card;
use crate::rpc::Origin;
use crate::zone::Zone;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use serde_json::json as object;
use std::sync::Arc;

/// The agent card of ACP.
pub(super) async fn agent(State(zone): State<Arc<Zone>>, headers: HeaderMap) -> Response {
    at(CALLS, &zone, &headers)
}

/// The same where calls go to another door.
pub(super) fn at(door: &str, zone: &Zone, headers: &HeaderMap) -> Response {
    let card = card::of(zone, door);
    let body = serde_json::to_vec(&card).unwrap_or_default();
    json(StatusCode::OK, body, &Origin::of(headers, None))
}

/// The protected-resource metadata of RFC 9728.
pub(super) async fn protected_resource(
    State(zone): State<Arc<Zone>>,
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
    json(StatusCode::OK, body, &Origin::of(&headers, None))
}
