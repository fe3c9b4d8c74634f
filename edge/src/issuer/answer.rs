//! What the issuer says to programs: JSON, never to be cached (RFC 6749, 5).
//!
//! Descriptions are fixed texts. Nothing that somebody sent comes back in them.

use super::keep::KeepError;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, PRAGMA, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

/// A refusal, in the words of RFC 6749, 5.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    pub(super) error: &'static str,
    pub(super) description: &'static str,
}

impl Failure {
    pub(super) const fn request(description: &'static str) -> Self {
        Self::bad("invalid_request", description)
    }

    pub(super) const fn grant(description: &'static str) -> Self {
        Self::bad("invalid_grant", description)
    }

    pub(super) const fn scope() -> Self {
        Self::bad(
            "invalid_scope",
            "a scope was asked for that this client may not have",
        )
    }

    pub(super) const fn bad(error: &'static str, description: &'static str) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            error,
            description,
        }
    }

    /// The client did not prove who it is. Says the same whatever was wrong.
    pub(super) const fn client() -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            error: "invalid_client",
            description: "the client is not known or its credentials are wrong",
        }
    }

    /// Something on our side.
    pub(super) const fn unavailable() -> Self {
        Self {
            status: StatusCode::SERVICE_UNAVAILABLE,
            error: "temporarily_unavailable",
            description: "the issuer cannot answer at the moment, try again later",
        }
    }
}

impl From<KeepError> for Failure {
    fn from(error: KeepError) -> Self {
        tracing::error!(%error, cause = %error.0, "the issuer cannot answer");
        Self::unavailable()
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        #[derive(Serialize)]
        struct Body {
            error: &'static str,
            error_description: &'static str,
        }
        let body = Body {
            error: self.error,
            error_description: self.description,
        };
        let mut answer = json(self.status, &body);
        let headers = answer.headers_mut();
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Basic realm=\"oauth2\", charset=\"UTF-8\"");
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("5"));
        }
        answer
    }
}

/// A JSON answer that nobody may keep.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
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
