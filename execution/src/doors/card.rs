//! Who the zone is and where tokens come from, for those who have none yet.

use super::answer::json;
use crate::rpc::Origin;
use crate::zone::Zone;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use interzone_hub::AgentInfo;
use interzone_protocol::acp::{AgentCard, Authentication, Capabilities, CardSkill, Scope};
use serde_json::json as object;
use std::sync::Arc;

/// The agent card of ACP.
pub(super) async fn agent(State(zone): State<Arc<Zone>>, headers: HeaderMap) -> Response {
    let card = card(&zone);
    let body = serde_json::to_vec(&card).unwrap_or_default();
    json(StatusCode::OK, body, &Origin::of(&headers, None))
}

/// The protected-resource metadata of RFC 9728.
pub(super) async fn protected_resource(
    State(zone): State<Arc<Zone>>,
    headers: HeaderMap,
) -> Response {
    let metadata = object!({
        "resource": zone.public_url.as_str().trim_end_matches('/'),
        "authorization_servers": [zone.issuer_url],
        "scopes_supported": scopes(),
        "bearer_methods_supported": ["header"],
        "resource_name": zone.operator.name,
    });
    let body = metadata.to_string();
    json(StatusCode::OK, body, &Origin::of(&headers, None))
}

fn scopes() -> Vec<String> {
    Scope::ALL
        .iter()
        .map(|scope| scope.name().to_owned())
        .collect()
}

fn card(zone: &Zone) -> AgentCard {
    let operator = &zone.operator;
    let skills: Vec<CardSkill> = zone
        .hub
        .agents()
        .iter()
        .flat_map(|agent| skills_of(agent.info()))
        .collect();
    AgentCard {
        name: cut(&operator.name, 100),
        description: cut(&operator.description, 500),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        url: zone.address("/jsonrpc"),
        provider: operator.provider.clone(),
        capabilities: Some(Capabilities {
            streaming: true,
            push_notifications: true,
            file_upload: true,
            multimodal: true,
        }),
        authentication: Some(Authentication {
            schemes: vec!["oauth2".to_owned(), "bearer".to_owned()],
            scopes: scopes(),
        }),
        skills: Some(skills).filter(|skills| !skills.is_empty()),
        metadata: None,
    }
}

/// An agent that names no skills is one itself, so that callers find whom to assign work to.
fn skills_of(info: &AgentInfo) -> Vec<CardSkill> {
    let skill = |id: &str, name: &str, description: &str| CardSkill {
        id: slug(id),
        name: name.to_owned(),
        description: description.to_owned(),
        input_modes: modes(),
        output_modes: modes(),
    };
    if info.skills.is_empty() {
        return vec![skill(info.id.as_str(), &info.name, &info.description)];
    }
    info.skills
        .iter()
        .map(|known| skill(&known.id, &known.name, &known.description))
        .collect()
}

fn modes() -> Vec<String> {
    ["text", "data", "file", "image", "audio"]
        .map(str::to_owned)
        .to_vec()
}

/// An id as the card's schema wants it.
fn slug(id: &str) -> String {
    let slug: String = id
        .chars()
        .map(|c| c.to_ascii_lowercase())
        .map(|c| {
            if c.is_ascii_lowercase() || c.is_ascii_digit() {
                c
            } else {
                '-'
            }
        })
        .collect();
    if slug.is_empty() {
        "agent".to_owned()
    } else {
        slug
    }
}

fn cut(text: &str, most: usize) -> String {
    let cut: String = text.chars().take(most).collect();
    if cut.is_empty() {
        "Interzone".to_owned()
    } else {
        cut
    }
}
