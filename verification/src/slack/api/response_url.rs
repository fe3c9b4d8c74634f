//! The `response_url` of an interaction, which allows changes to its message for half an hour.

use super::response::read_body;
use super::{Slack, SlackError};
use http::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

const DELETE_ORIGINAL: &str = "a response_url call";
/// Request timeout; the call is optional.
const RESPONSE_URL_TIMEOUT: Duration = Duration::from_secs(5);
/// Size limit of the response, which is discarded.
const MAX_RESPONSE_BYTES: usize = 64 << 10;

/// `response_url` of an interaction. It grants write access, so `Debug` omits it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResponseUrl(String);

impl ResponseUrl {
    /// Wraps a URL; its host is checked when it is used.
    pub fn new(url: impl Into<String>) -> Self {
        Self(url.into())
    }
}

impl fmt::Debug for ResponseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseUrl(…)")
    }
}

impl Slack {
    /// Deletes the message of an interaction. The URL grants access by itself, so no token is sent.
    ///
    /// # Errors
    /// The URL is not on a Slack host, or the call failed.
    pub async fn delete_original(&self, url: &ResponseUrl) -> Result<(), SlackError> {
        let url = self.require_slack_url(DELETE_ORIGINAL, &url.0)?;
        let sent = self
            .inner
            .http
            .post(url)
            .timeout(RESPONSE_URL_TIMEOUT)
            .header(CONTENT_TYPE, "application/json")
            .body(r#"{"delete_original":true}"#)
            .send();
        let response = sent
            .await
            .map_err(|error| SlackError::from_reqwest(DELETE_ORIGINAL, error))?;
        let status = response.status();
        if !status.is_success() {
            let (operation, status) = (DELETE_ORIGINAL, status.as_u16());
            return Err(SlackError::HttpStatus { operation, status });
        }
        read_body(DELETE_ORIGINAL, response, MAX_RESPONSE_BYTES)
            .await
            .map(drop)
    }
}
