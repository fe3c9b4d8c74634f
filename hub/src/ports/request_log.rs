//! Request log: metadata of answered requests for operators. Contains no request or response content.

use super::StoreError;
use async_trait::async_trait;
use interzone_protocol::vocab::{TaskId, Timestamp};
use std::net::IpAddr;
use std::time::Duration;

/// Log entry of an answered request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestLogEntry {
    /// Time of the response; the request arrived `duration` earlier.
    pub answered_at: Timestamp,
    /// Duration of the call, stored in microseconds.
    pub duration: Duration,
    /// The request id as JSON text, so that `1` and `"1"` differ; `None` for a notification.
    pub id: Option<String>,
    /// The method.
    pub method: String,
    /// The calling principal.
    pub principal: String,
    /// The client of the caller.
    pub client: String,
    /// Correlation id of the request in the logs.
    pub correlation_id: String,
    /// The task that the request refers to.
    pub task: Option<TaskId>,
    /// Label of the outcome.
    pub outcome: String,
    /// The error code, if any.
    pub code: Option<i32>,
    /// The client's address.
    pub address: Option<IpAddr>,
}

impl RequestLogEntry {
    /// Maximum stored bytes of each text field.
    pub const MAX_TEXT_BYTES: usize = 256;

    /// Truncates a text to the stored length. Query values are truncated the same way, so that long ids are found
    /// too.
    pub fn truncate(text: &str) -> &str {
        text.get(..text.floor_char_boundary(Self::MAX_TEXT_BYTES))
            .unwrap_or_default()
    }
}

/// Filter of request log entries; all given criteria must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestQuery {
    /// Request id, as JSON text.
    pub id: Option<String>,
    /// Correlation id.
    pub correlation_id: Option<String>,
    /// Task id.
    pub task: Option<TaskId>,
    /// Answered at this time or later.
    pub since: Option<Timestamp>,
    /// Maximum number of entries.
    pub limit: usize,
}

/// The request log.
#[async_trait]
pub trait RequestLogStore: Send + Sync {
    /// Appends entries atomically.
    async fn append_requests(&self, entries: Vec<RequestLogEntry>) -> Result<(), StoreError>;

    /// Finds entries, newest first; of equal times, the one appended last first.
    async fn find_requests(&self, query: &RequestQuery)
    -> Result<Vec<RequestLogEntry>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::RequestLogEntry;

    #[test]
    fn text_is_truncated_at_a_char_boundary() {
        assert_eq!(RequestLogEntry::truncate("short"), "short");
        let long = "é".repeat(200);
        assert_eq!(RequestLogEntry::truncate(&long).len(), 256);
        let unaligned = format!("x{long}");
        assert_eq!(RequestLogEntry::truncate(&unaligned).len(), 255);
    }
}
