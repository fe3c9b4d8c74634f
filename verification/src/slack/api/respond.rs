//! The address that comes with a press: for half an hour, what was pressed can be changed by it. Whether
//! it should be is not decided here.

use super::answer::whole;
use super::{Slack, SlackError};
use http::header::CONTENT_TYPE;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

const TAKE_BACK: &str = "a press";
/// Nobody waits for it.
const PATIENCE: Duration = Duration::from_secs(5);
/// What Slack says to it; nobody reads it.
const RECEIPT: usize = 64 << 10;

/// An address that came with a press. Whoever has it may write there, so it is not printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResponseUrl(String);

impl ResponseUrl {
    /// The address, whoever named it: where it leads is looked at when it is used.
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
    /// Takes the message away that was pressed on. The address is a permission of its own, so no token
    /// goes along.
    ///
    /// # Errors
    /// The address is not Slack's, or it did not work.
    pub async fn take_back(&self, url: &ResponseUrl) -> Result<(), SlackError> {
        let url = self.slacks(TAKE_BACK, &url.0)?;
        let sent = self
            .inner
            .http
            .post(url)
            .timeout(PATIENCE)
            .header(CONTENT_TYPE, "application/json")
            .body(r#"{"delete_original":true}"#)
            .send();
        let response = sent
            .await
            .map_err(|error| SlackError::of(TAKE_BACK, error))?;
        let status = response.status();
        if !status.is_success() {
            let (what, status) = (TAKE_BACK, status.as_u16());
            return Err(SlackError::Status { what, status });
        }
        whole(TAKE_BACK, response, RECEIPT).await.map(drop)
    }
}
