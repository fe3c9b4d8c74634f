//! OAuth error responses and uncacheable JSON responses (RFC 6749, 5).
//!
//! Descriptions are fixed texts and never contain request data.

use super::record_store::IssuerStoreError;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, PRAGMA, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

/// OAuth error response (RFC 6749, 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OAuthError {
    pub(super) status: StatusCode,
    pub(super) error: &'static str,
    pub(super) description: &'static str,
}

impl OAuthError {
    pub(super) const fn invalid_request(description: &'static str) -> Self {
        Self::bad_request("invalid_request", description)
    }

    pub(super) const fn invalid_grant(description: &'static str) -> Self {
        Self::bad_request("invalid_grant", description)
    }

    pub(super) const fn invalid_scope() -> Self {
        Self::bad_request(
            "invalid_scope",
            "this client may not request one of the scopes",
        )
    }

    pub(super) const fn bad_request(error: &'static str, description: &'static str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            error,
            description,
        }
    }

    /// Client authentication failed. The text is the same for every cause.
    pub(super) const fn invalid_client() -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            error: "invalid_client",
            description: "unknown client or wrong credentials",
        }
    }

    /// Server-side failure.
    pub(super) const fn unavailable() -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            error: "temporarily_unavailable",
            description: "the issuer is temporarily unavailable, try again later",
        }
    }
}

impl From<IssuerStoreError> for OAuthError {
    fn from(error: IssuerStoreError) -> Self {
        tracing::error!(%error, cause = %error.0, "issuer record store failed");
        Self::unavailable()
    }
}

impl IntoResponse for OAuthError {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct ErrorBody {
            error: &'static str,
            error_description: &'static str,
        }
        let body = ErrorBody {
            error: self.error,
            error_description: self.description,
        };
        let mut response = no_store_json(self.status, &body);
        let headers = response.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Basic realm=\"oauth2\", charset=\"UTF-8\"");
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        response
    }
}

/// Returns a JSON response with `Cache-Control: no-store`.
pub(super) fn no_store_json(status: StatusCode, body: &impl Serialize) -> Response {
    let Ok(body) = serde_json::to_vec(body) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
        (PRAGMA, "no-cache"),
    ];
    (status, headers, body).into_response()
}
