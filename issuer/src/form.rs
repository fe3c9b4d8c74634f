//! Parameters of form bodies and query strings.

use super::oauth_error::OAuthError;
use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use interzone_edge::body::{BodyError, read_form};
use std::collections::BTreeMap;
use std::time::Duration;
use url::form_urlencoded;

/// Maximum body size; more than any OAuth request needs.
const MAX_BODY: usize = 64 << 10;
/// Time limit for receiving a body.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Parameters by name; each name occurs once.
#[derive(Clone, Default)]
pub(super) struct OAuthParameters(BTreeMap<String, String>);

impl OAuthParameters {
    /// Reads a form from a request body.
    pub(super) async fn read(headers: &HeaderMap, body: Body) -> Result<Self, OAuthError> {
        let content_type = headers
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok());
        let content_type = content_type
            .and_then(|kind| kind.split(';').next())
            .map(str::trim);
        let form_type = "application/x-www-form-urlencoded";
        if !content_type.is_some_and(|kind| kind.eq_ignore_ascii_case(form_type)) {
            return Err(OAuthError {
                status: StatusCode::UNSUPPORTED_MEDIA_TYPE,
                ..OAuthError::invalid_request("the body must be application/x-www-form-urlencoded")
            });
        }
        match read_form(body, MAX_BODY, READ_TIMEOUT).await {
            Ok(bytes) => Self::parse(&bytes),
            Err(BodyError::TooSlow { .. }) => Err(OAuthError {
                status: StatusCode::REQUEST_TIMEOUT,
                ..OAuthError::invalid_request("the body was not received in time")
            }),
            Err(_) => Err(OAuthError {
                status: StatusCode::PAYLOAD_TOO_LARGE,
                ..OAuthError::invalid_request("the body is too large or incomplete")
            }),
        }
    }

    /// Parses parameters. A repeated one is rejected (RFC 6749, 3.1 and 3.2), an empty one counts as absent.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, OAuthError> {
        let mut all = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(bytes) {
            // The parser replaces invalid UTF-8 by U+FFFD.
            if value.contains(['\0', '\u{fffd}']) {
                return Err(OAuthError::invalid_request("a parameter is not utf-8 text"));
            }
            if all.insert(name.into_owned(), value.into_owned()).is_some() {
                return Err(OAuthError::invalid_request("a parameter is repeated"));
            }
        }
        all.retain(|_, value| !value.is_empty());
        Ok(Self(all))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn require(&self, name: &str, missing: &'static str) -> Result<&str, OAuthError> {
        self.get(name).ok_or(OAuthError::invalid_request(missing))
    }
}
