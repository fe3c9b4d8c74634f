//! What was called and what was delivered, for tests and for whoever wants to see. No token enters.

use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// A call of the Web API.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The first call is 1.
    pub number: u64,
    /// As `chat.postMessage`; an upload is `upload`, a download `download`.
    pub method: String,
    /// What it was called with, without the token. Long values are cut.
    pub args: BTreeMap<String, Value>,
    /// When, counted from the start.
    pub at: Duration,
    /// `ok`, the word of the refusal, or what was done to the answer; empty until it is answered.
    pub answer: String,
}

impl Call {
    /// An argument that is text.
    pub fn arg(&self, name: &str) -> &str {
        self.args
            .get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }
}

/// One attempt to bring something to the app.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The event, or the envelope of something else.
    pub id: String,
    /// `app_mention`, `message`, `block_actions`, …
    pub kind: String,
    /// 0 at first.
    pub attempt: usize,
    /// `ok`, or why not in Slack's words: `http_timeout`, `http_error`, `connection_failed`.
    pub outcome: String,
    /// How long it took.
    pub took: Duration,
}
