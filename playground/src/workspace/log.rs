//! Logs of API calls and event deliveries, for tests and inspection. They contain no tokens.

use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// A call of the Web API.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiCall {
    /// Sequence number, starting at 1.
    pub number: u64,
    /// Method, such as `chat.postMessage`; `upload` and `download` for files.
    pub method: String,
    /// Arguments without the token. Long values are truncated.
    pub args: BTreeMap<String, Value>,
    /// Time since the start.
    pub at: Duration,
    /// `ok`, the error code, or the injected fault; empty until it is answered.
    pub outcome: String,
}

impl ApiCall {
    /// Returns a text argument.
    pub fn arg(&self, name: &str) -> &str {
        self.args
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

/// One delivery attempt to the app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDelivery {
    /// Event id, or envelope id of an interaction.
    pub id: String,
    /// `app_mention`, `message`, `block_actions`, …
    pub kind: String,
    /// Attempt number, starting at 0.
    pub attempt: usize,
    /// `ok`, or Slack's retry reason: `http_timeout`, `http_error`, `connection_failed`.
    pub outcome: String,
    /// Duration.
    pub duration: Duration,
}
