//! What an operator asks about requests and what is told of them. Ours: ACP has no such thing. Nothing
//! that was said in a request or in its answer has a member here.

use crate::vocab::Timestamp;
use interzone_jsonrpc::RequestId;
use serde::{Deserialize, Serialize};

/// Params of `interzone.pairs.find`, which may be left out altogether: all that is said must fit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PairsFindParams {
    /// The id of a request; `1` and `"1"` are two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<RequestId<'static>>,
    /// The correlation id, as it is in the logs: the one that the caller gave, if it was usable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// The task that requests were about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Only what was answered at this moment or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// At most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The result of `interzone.pairs.find`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairList {
    /// Requests with how they were answered, the newest first.
    pub pairs: Vec<PairObject>,
}

/// A request, and how it was answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PairObject {
    /// When it was answered.
    pub at: Timestamp,
    /// How many milliseconds it took.
    pub took_ms: f64,
    /// The request's id; a very long one is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<RequestId<'static>>,
    /// What was called.
    pub method: String,
    /// Who called.
    pub who: String,
    /// By which client.
    pub client: String,
    /// The correlation id in the logs.
    pub correlation_id: String,
    /// How it went, in a word.
    pub outcome: String,
    /// The error's code, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// Where it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The task that it was about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// What became of that task, if it is still kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskTrace>,
}

/// What became of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskTrace {
    /// Where it stands.
    pub state: String,
    /// Why it failed, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// Who does it.
    pub agent: String,
    /// Who asked for it.
    pub owner: String,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Timestamp>,
    /// How many messages it has.
    pub messages: u32,
    /// How many artifacts it has.
    pub artifacts: u32,
    /// To how many addresses its events are sent.
    pub subscriptions: u32,
    /// What happened to it, in order; the same many times over is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<TraceEvent>,
}

/// Something that happened to a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceEvent {
    /// When; the first time, if it happened several times.
    pub at: Timestamp,
    /// What, in a word.
    pub event: String,
    /// The state that was left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The state that was entered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How often in a row.
    pub count: u32,
}
