//! Issuer metadata (RFC 8414) and key set (RFC 7517) endpoints.

use super::Issuer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde_json::json;

/// Cache policy of both documents. Keys are published an hour before they sign.
const CACHE_POLICY: &str = "public, max-age=300";

/// `GET /.well-known/oauth-authorization-server`.
pub(super) async fn metadata(State(issuer): State<Issuer>) -> Response {
    let url = &issuer.0.url;
    let scopes: Vec<&str> = issuer
        .0
        .scopes
        .iter()
        .map(|scope| scope.name.as_str())
        .collect();
    let confidential_methods = ["client_secret_basic", "client_secret_post"];
    let all_methods = ["client_secret_basic", "client_secret_post", "none"];
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
        "token_endpoint_auth_methods_supported": all_methods,
        "revocation_endpoint_auth_methods_supported": all_methods,
        "introspection_endpoint_auth_methods_supported": confidential_methods,
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    });
    cacheable_response("application/json", body.to_string())
}

/// `GET /oauth2/jwks`.
pub(super) async fn jwks(State(issuer): State<Issuer>) -> Response {
    cacheable_response(
        "application/jwk-set+json",
        issuer.0.keys.load().jwks.clone(),
    )
}

fn cacheable_response(content_type: &'static str, body: impl IntoResponse) -> Response {
    (
        [(CACHE_CONTROL, CACHE_POLICY), (CONTENT_TYPE, content_type)],
        body,
    )
        .into_response()
}
