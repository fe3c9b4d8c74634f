//! Request log queries for operators (Interzone extension). They never contain content of requests or
//! responses.

use crate::vocab::Timestamp;
use interzone_jsonrpc::RequestId;
use serde::{Deserialize, Serialize};

/// Params of `interzone.requests.find`; optional. All given criteria must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestsFindParams {
    /// Id of the request; `1` and `"1"` differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<RequestId<'static>>,
    /// Correlation id as logged: the one given by the caller, if it was valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Id of the task concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Earliest time of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Maximum number of results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The result of `interzone.requests.find`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RequestList {
    /// Requests with their outcomes, newest first.
    pub requests: Vec<RequestRecord>,
}

/// A request and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestRecord {
    /// Time of the response.
    pub at: Timestamp,
    /// Duration in milliseconds.
    pub took_ms: f64,
    /// Id of the request, truncated if very long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<RequestId<'static>>,
    /// Method name.
    pub method: String,
    /// Principal of the caller.
    pub who: String,
    /// Client id of the caller.
    pub client: String,
    /// Correlation id as logged.
    pub correlation_id: String,
    /// Outcome label.
    pub outcome: String,
    /// Error code, if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Remote address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Id of the task concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The task's history, if it is still stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskTrace>,
}

/// History of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskTrace {
    /// State of the task.
    pub state: String,
    /// Error code, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// The assigned agent.
    pub agent: String,
    /// The caller that created it.
    pub owner: String,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Completion time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// Number of messages.
    pub messages: u32,
    /// Number of artifacts.
    pub artifacts: u32,
    /// Number of webhook subscriptions.
    pub subscriptions: u32,
    /// Events in order; consecutive equal events are merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<TraceEvent>,
}

/// An event in a task's history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceEvent {
    /// Time of the event, of the first one if merged.
    pub at: Timestamp,
    /// Event label.
    pub event: String,
    /// Previous state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// New state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Number of merged consecutive events.
    pub count: u32,
}
