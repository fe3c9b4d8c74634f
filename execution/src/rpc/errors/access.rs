//! Authentication and authorization errors, the same in every dialect.

use super::{WireError, truncate_echo, unavailable};
use axum::http::StatusCode;
use interzone_edge::auth::AuthFailure;
use interzone_protocol::acp::{Scope, codes};
use serde_json::json;

/// Token error. `token_url` is the token endpoint.
pub(crate) fn authentication_error(
    refusal: &AuthFailure,
    token_url: &str,
    metadata_url: &str,
) -> WireError {
    let (code, message, label, description) = match refusal {
        AuthFailure::Missing => (
            codes::AUTHENTICATION_FAILED,
            "Authentication required",
            "token_missing",
            "send a bearer token in the Authorization header",
        ),
        AuthFailure::Malformed => (
            codes::AUTHENTICATION_FAILED,
            "Authentication failed",
            "token_malformed",
            "the Authorization header must be: Bearer, a space, the token",
        ),
        AuthFailure::Invalid(reason) => (
            codes::AUTHENTICATION_FAILED,
            "Authentication failed",
            "token_invalid",
            *reason,
        ),
        AuthFailure::Expired => (
            codes::TOKEN_EXPIRED,
            "Token expired",
            "token_expired",
            "the token has expired; get a new one",
        ),
        AuthFailure::Unavailable => {
            return unavailable("issuer_unavailable");
        }
    };
    let mut error =
        WireError::new(code, StatusCode::UNAUTHORIZED, message, label).with_data(json!({
            "error": "invalid_token",
            "error_description": description,
            "requiredScopes": [Scope::AgentIdentify.name()],
            "tokenUrl": token_url,
        }));
    // RFC 6750: a request without a token gets no error code.
    error.challenge = Some(match refusal {
        AuthFailure::Missing => format!("resource_metadata=\"{metadata_url}\""),
        _ => format!(
            "error=\"invalid_token\", error_description=\"{description}\", resource_metadata=\"{metadata_url}\""
        ),
    });
    error
}

/// Valid token without a required scope.
pub(crate) fn insufficient_scope<'s>(
    required: &[Scope],
    provided: impl Iterator<Item = &'s str>,
    metadata_url: &str,
) -> WireError {
    let names: Vec<&str> = required.iter().map(|scope| scope.name()).collect();
    let mut error = WireError::new(
        codes::INSUFFICIENT_SCOPE,
        StatusCode::FORBIDDEN,
        "Insufficient scope",
        "insufficient_scope",
    )
    .with_data(json!({
        "requiredScopes": names,
        "providedScopes": provided.take(64).map(truncate_echo).collect::<Vec<_>>(),
        "suggestion": "get a token with all required scopes",
    }));
    error.challenge = Some(format!(
        "error=\"insufficient_scope\", scope=\"{}\", resource_metadata=\"{metadata_url}\"",
        names.join(" ")
    ));
    error
}

/// Valid token without the operator scope.
pub(crate) fn not_operator(scope: &str) -> WireError {
    let mut error = WireError::new(
        codes::INSUFFICIENT_SCOPE,
        StatusCode::FORBIDDEN,
        "Insufficient scope",
        "insufficient_scope",
    )
    .with_data(json!({"requiredScopes": [scope]}));
    error.challenge = Some(format!("error=\"insufficient_scope\", scope=\"{scope}\""));
    error
}
