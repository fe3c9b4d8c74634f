//! What is told to whoever has not proved who they are, or may not do what they ask: the same in every
//! dialect.

use super::{WireError, echo, unavailable};
use axum::http::StatusCode;
use interzone_edge::auth::Refusal;
use interzone_protocol::acp::{Scope, codes};
use serde_json::json;

/// A token that is not good. `token_url` is where a good one comes from.
pub(crate) fn refused(refusal: &Refusal, token_url: &str, metadata_url: &str) -> WireError {
    let (code, message, word, why) = match refusal {
        Refusal::Missing => (
            codes::AUTHENTICATION_FAILED,
            "Authentication required",
            "token_missing",
            "send a bearer token in the Authorization header",
        ),
        Refusal::Malformed => (
            codes::AUTHENTICATION_FAILED,
            "Authentication failed",
            "token_malformed",
            "the Authorization header must be: Bearer, a space, the token",
        ),
        Refusal::Invalid(why) => (
            codes::AUTHENTICATION_FAILED,
            "Authentication failed",
            "token_invalid",
            *why,
        ),
        Refusal::Expired => (
            codes::TOKEN_EXPIRED,
            "Token expired",
            "token_expired",
            "the token has expired; get a new one",
        ),
        Refusal::Unavailable => {
            return unavailable("issuer_unavailable");
        }
    };
    let mut error = WireError::new(code, StatusCode::UNAUTHORIZED, message, word).with(json!({
        "error": "invalid_token",
        "error_description": why,
        "requiredScopes": [Scope::AgentIdentify.name()],
        "tokenUrl": token_url,
    }));
    // RFC 6750: whoever sent no token at all is told no error.
    error.challenge = Some(match refusal {
        Refusal::Missing => format!("resource_metadata=\"{metadata_url}\""),
        _ => format!(
            "error=\"invalid_token\", error_description=\"{why}\", resource_metadata=\"{metadata_url}\""
        ),
    });
    error
}

/// A good token that lacks a scope.
pub(crate) fn lacks_scope<'s>(
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
    .with(json!({
        "requiredScopes": names,
        "providedScopes": provided.take(64).map(echo).collect::<Vec<_>>(),
        "suggestion": "get a token with all required scopes",
    }));
    error.challenge = Some(format!(
        "error=\"insufficient_scope\", scope=\"{}\", resource_metadata=\"{metadata_url}\"",
        names.join(" ")
    ));
    error
}

/// A good token of somebody who does not run the zone.
pub(crate) fn not_operator(scope: &str) -> WireError {
    let mut error = WireError::new(
        codes::INSUFFICIENT_SCOPE,
        StatusCode::FORBIDDEN,
        "Insufficient scope",
        "insufficient_scope",
    )
    .with(json!({"requiredScopes": [scope]}));
    error.challenge = Some(format!("error=\"insufficient_scope\", scope=\"{scope}\""));
    error
}
