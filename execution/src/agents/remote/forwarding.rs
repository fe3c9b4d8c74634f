//! Context of forwarded tasks: hop count, trace context, and the id by which a task is found again. Also the state of
//! the peer's task while a question waits for its answer.

use interzone_client::Client;
use interzone_edge::request_context::TraceParent;
use interzone_edge::telemetry;
use interzone_hub::Turn;
use interzone_protocol::vocab::{AgentId, Message, Metadata, VerbatimJson};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Metadata field of tasks and messages that is reserved for Interzone.
const METADATA_FIELD: &str = "interzone";

/// Metadata that zones forward with a task.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct ForwardedMetadata {
    #[serde(default)]
    hops: u32,
    /// Id of the turn: the task of the calling zone and the length of its history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correlation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
}

/// Metadata of a task that was created by `execute_task`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct ZoneCall {
    #[serde(default)]
    pub(super) channel: Option<String>,
    #[serde(default)]
    pub(super) thread_ts: Option<String>,
    #[serde(default)]
    pub(super) team_id: Option<String>,
    #[serde(default)]
    pub(super) user_id: Option<String>,
    #[serde(default)]
    correlation_id: Option<String>,
    #[serde(default)]
    hops: Option<u32>,
    #[serde(default)]
    traceparent: Option<String>,
}

/// State of the peer's task while a question waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RemoteTaskState {
    /// The agent that asked, by its id in this zone.
    agent: String,
    /// The peer's task.
    pub(super) task: String,
    /// Last event seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<u64>,
    /// Number of artifacts at that time.
    #[serde(default, rename = "made")]
    pub(super) artifact_count: usize,
}

#[derive(Deserialize)]
struct QuestionMetadata {
    remote: RemoteTaskState,
}

/// Context that is forwarded with a turn.
pub(super) struct ForwardingContext {
    /// Number of earlier forwards.
    pub(super) hops: u32,
    /// Id of this turn; the same for each attempt.
    pub(super) origin: String,
    pub(super) correlation: String,
    trace: Option<String>,
    /// Metadata of the call that created the task, if that was `execute_task`.
    pub(super) zone: Option<ZoneCall>,
}

impl ForwardingContext {
    pub(super) fn from_turn(turn: &Turn) -> Self {
        let metadata = turn.task.metadata.as_ref();
        let forwarded: ForwardedMetadata = metadata
            .and_then(|all| all.get(METADATA_FIELD))
            .unwrap_or_default();
        let zone: Option<ZoneCall> = metadata.and_then(|all| all.get("zone"));
        let call = zone.clone().unwrap_or_default();
        let task_id = || turn.task.id.to_string();
        let attached = metadata.and_then(|all| all.get("traceparent"));
        let traceparent: Option<String> = attached.or(call.traceparent).or(forwarded.traceparent);
        let trace = traceparent.as_deref().and_then(TraceParent::parse);
        let trace = trace.map(|parent| parent.child());
        let trace = trace.or_else(|| telemetry::current_context(&tracing::Span::current()));
        Self {
            hops: forwarded.hops.max(call.hops.unwrap_or_default()),
            origin: format!("{}/{}", turn.task.id, turn.history.len()),
            correlation: forwarded
                .correlation
                .or(call.correlation_id)
                .unwrap_or_else(task_id),
            trace: trace.map(|parent| parent.to_string()),
            zone,
        }
    }

    /// Returns a client whose calls belong to this turn.
    pub(super) fn client(&self, client: &Client) -> Client {
        let client = client.with_correlation(&self.correlation);
        let client = match &self.zone {
            // A Slack thread already has a session, derived from its own id.
            Some(call) if call.thread_ts.is_some() => client,
            _ => client.with_conversation(self.origin.split('/').next().unwrap_or_default()),
        };
        match &self.trace {
            Some(trace) => client.with_trace_parent(trace),
            None => client,
        }
    }

    /// Returns the metadata for the peer's task.
    pub(super) fn metadata(&self) -> Option<Metadata> {
        let forwarded = ForwardedMetadata {
            hops: self.hops.saturating_add(1),
            origin: Some(self.origin.clone()),
            correlation: Some(self.correlation.clone()),
            traceparent: self.trace.clone(),
        };
        to_metadata(&BTreeMap::from([(METADATA_FIELD, forwarded)]))
    }

    /// Returns true if the peer's task was created by an earlier attempt of this turn.
    pub(super) fn is_same_turn(&self, metadata: Option<&Metadata>) -> bool {
        let forwarded = metadata.and_then(|all| all.get::<ForwardedMetadata>(METADATA_FIELD));
        forwarded.and_then(|passed| passed.origin).as_ref() == Some(&self.origin)
    }

    /// Returns the id of this turn's call: the same for each attempt, so that the peer starts it once. An `attempt`
    /// yields another id, for when the first call was canceled.
    pub(super) fn call_id(&self, agent: &AgentId, attempt: Option<u32>) -> String {
        let text = format!("{agent}\n{}\n{}", self.origin, attempt.unwrap_or_default());
        let digest = Sha256::digest(text);
        let mut bytes = [0; 16];
        bytes
            .iter_mut()
            .zip(digest)
            .for_each(|(to, from)| *to = from);
        uuid::Builder::from_random_bytes(bytes)
            .into_uuid()
            .to_string()
    }
}

/// Attaches the state of the peer's task to a question.
pub(super) fn attach_state(
    question: Message,
    agent: &AgentId,
    task: &str,
    after: Option<u64>,
    artifact_count: usize,
) -> Message {
    let state = RemoteTaskState {
        agent: agent.to_string(),
        task: task.to_owned(),
        after,
        artifact_count,
    };
    match to_metadata(&BTreeMap::from([(
        METADATA_FIELD,
        BTreeMap::from([("remote", state)]),
    )])) {
        Some(metadata) => question.with_metadata(metadata),
        None => question,
    }
}

/// Finds the state attached to this agent's last question, and the index of the question in the history. A question
/// waits for an answer only if no agent message follows it.
pub(super) fn find_state(history: &[Message], agent: &AgentId) -> Option<(usize, RemoteTaskState)> {
    let last = history.iter().rposition(Message::is_agent_output)?;
    let metadata = history.get(last)?.metadata()?;
    let state = metadata.get::<QuestionMetadata>(METADATA_FIELD)?.remote;
    (state.agent == agent.as_str()).then_some((last, state))
}

fn to_metadata<T: Serialize>(value: &T) -> Option<Metadata> {
    VerbatimJson::from_value(value).and_then(Metadata::new).ok()
}

/// Generates an id for an artifact that has no valid one.
pub(super) fn new_id() -> String {
    Uuid::new_v4().to_string()
}
