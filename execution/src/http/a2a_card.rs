//! The agent card of A2A, served without a token in the shape that the caller can read.

use super::open_watch::path_id;
use super::response::{A2A_PATH, json, not_found_with, with_headers};
use crate::rpc::RequestMeta;
use crate::rpc::a2a::card;
use crate::state::ExecutionState;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use interzone_hub::{AgentInfo, Route};
use interzone_protocol::a2a::RequestedVersion;
use interzone_protocol::vocab::AgentId;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// `GET /.well-known/agent-card.json`, the card of the default agent.
pub(super) async fn default_card(
    State(zone): State<Arc<ExecutionState>>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let agents = zone.hub.agents();
    let agent = agents.select(&Route::default());
    match agent.and_then(|id| agents.get(id)) {
        Some(agent) => card_response(&zone, agent.info(), A2A_PATH, &uri, &headers),
        None => not_found_with(A2A_PATH, &headers),
    }
}

/// `GET /agents/{id}/.well-known/agent-card.json`, the card of this agent.
pub(super) async fn agent_card(
    State(zone): State<Arc<ExecutionState>>,
    id: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let id = AgentId::new(path_id(id)).ok();
    match id.and_then(|id| zone.hub.agents().get(&id)) {
        Some(agent) => {
            let info = agent.info();
            let path = format!("/agents/{}{A2A_PATH}", info.id);
            card_response(&zone, info, &path, &uri, &headers)
        }
        None => not_found_with(A2A_PATH, &headers),
    }
}

fn card_response(
    zone: &ExecutionState,
    agent: &AgentInfo,
    path: &str,
    uri: &Uri,
    headers: &HeaderMap,
) -> Response {
    let header = headers.get(RequestedVersion::NAME);
    let header = header.map(|value| String::from_utf8_lossy(value.as_bytes()));
    let query = uri.query().unwrap_or_default();
    let mut query = url::form_urlencoded::parse(query.as_bytes());
    let query = query.find(|(name, _)| name.eq_ignore_ascii_case(RequestedVersion::NAME));
    let query = query.map(|(_, value)| value);
    let shape = RequestedVersion::parse(header.as_deref(), query.as_deref()).card_shape();
    let card = card::agent_card(zone, agent, path);
    let body = serde_json::to_vec(&card.in_shape(shape)).unwrap_or_default();
    let hash = Sha256::digest(&body);
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let tag = format!("\"{hash}\"");
    let conditions = headers.get_all(IF_NONE_MATCH).iter();
    let mut conditions = conditions.filter_map(|value| value.to_str().ok());
    let is_cached = conditions.any(|tags| tags.split(',').any(|cached| cached.trim() == tag));
    let meta = RequestMeta::from_headers(headers, None);
    let mut response = match is_cached {
        true => with_headers(StatusCode::NOT_MODIFIED, Body::empty(), &meta),
        false => json(StatusCode::OK, body, &meta),
    };
    let headers = response.headers_mut();
    let fixed = [
        (CACHE_CONTROL, "public, max-age=300"),
        (VARY, "A2A-Version"),
        (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(ETAG, tag);
    }
    response
}
