//! What the issuer publishes of itself: its metadata (RFC 8414) and its keys (RFC 7517).

use super::Issuer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde_json::json;

/// How long others may keep it. Keys are published an hour before they sign.
const CACHED: &str = "public, max-age=300";

/// `GET /.well-known/oauth-authorization-server`.
pub(super) async fn metadata(State(issuer): State<Issuer>) -> Response {
    let url = &issuer.0.url;
    let scopes: Vec<&str> = issuer
        .0
        .scopes
        .iter()
        .map(|scope| scope.name.as_str())
        .collect();
    let with_secret = ["client_secret_basic", "client_secret_post"];
    let with_or_without = ["client_secret_basic", "client_secret_post", "none"];
    let body = json!({
        "issuer": url,
        "authorization_endpoint": format!("{url}/oauth2/authorize"),
        "token_endpoint": format!("{url}/oauth2/token"),
        "jwks_uri": format!("{url}/oauth2/jwks"),
        "introspection_endpoint": format!("{url}/oauth2/introspect"),
        "revocation_endpoint": format!("{url}/oauth2/revoke"),
        "scopes_supported": scopes,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["client_credentials", "authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": with_or_without,
        "revocation_endpoint_auth_methods_supported": with_or_without,
        "introspection_endpoint_auth_methods_supported": with_secret,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    });
    publish("application/json", body.to_string())
}

/// `GET /oauth2/jwks`.
pub(super) async fn jwks(State(issuer): State<Issuer>) -> Response {
    publish(
        "application/jwk-set+json",
        issuer.0.ring.load().jwks.clone(),
    )
}

fn publish(kind: &'static str, body: impl IntoResponse) -> Response {
    ([(CACHE_CONTROL, CACHED), (CONTENT_TYPE, kind)], body).into_response()
}
