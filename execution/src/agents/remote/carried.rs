//! What goes along when work is passed on: how often it was passed on, its place in a trace, the name
//! it is found by. And what must be known of the peer's task when it asked back.

use interzone_client::Client;
use interzone_edge::request::TraceParent;
use interzone_edge::telemetry;
use interzone_hub::Turn;
use interzone_protocol::vocab::{AgentId, Json, Message, Metadata, Role};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use uuid::Uuid;

/// The member of a task's or a message's metadata that is ours.
const MEMBER: &str = "interzone";

/// What zones tell each other about a task, beside the task.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Passed {
    #[serde(default)]
    hops: u32,
    /// Whose turn it is: the asking zone's task, and how much was said in it before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    origin: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    correlation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
}

/// What a task that came by `execute_task` says about itself.
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

/// What is kept of the peer's task while a question waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Memory {
    /// The agent that asked, by its id here.
    agent: String,
    /// The peer's task.
    pub(super) task: String,
    /// The last event that was seen of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) after: Option<u64>,
    /// How many artifacts it had then.
    #[serde(default)]
    pub(super) made: usize,
}

#[derive(Deserialize)]
struct Remembered {
    remote: Memory,
}

pub(super) struct Carried {
    /// How often the task was passed on before.
    pub(super) hops: u32,
    /// This turn, by a name that is the same each time it is begun.
    pub(super) origin: String,
    pub(super) correlation: String,
    trace: Option<String>,
    /// What the task says of the call that began it, if that was `execute_task`.
    pub(super) zone: Option<ZoneCall>,
}

impl Carried {
    pub(super) fn of(turn: &Turn) -> Self {
        let metadata = turn.task.metadata.as_ref();
        let passed: Passed = metadata.and_then(|all| all.get(MEMBER)).unwrap_or_default();
        let zone: Option<ZoneCall> = metadata.and_then(|all| all.get("zone"));
        let call = zone.clone().unwrap_or_default();
        let own = || turn.task.id.to_string();
        let attached = metadata.and_then(|all| all.get("traceparent"));
        let told: Option<String> = attached.or(call.traceparent).or(passed.traceparent);
        let trace = told.as_deref().and_then(TraceParent::parse);
        let trace = trace.map(|parent| parent.child());
        let trace = trace.or_else(|| telemetry::current(&tracing::Span::current()));
        Self {
            hops: passed.hops.max(call.hops.unwrap_or_default()),
            origin: format!("{}/{}", turn.task.id, turn.history.len()),
            correlation: passed
                .correlation
                .or(call.correlation_id)
                .unwrap_or_else(own),
            trace: trace.map(|parent| parent.to_string()),
            zone,
        }
    }

    /// A client whose calls belong to this turn.
    pub(super) fn client(&self, client: &Client) -> Client {
        let client = client.with_correlation(&self.correlation);
        let client = match &self.zone {
            // A thread has its session already, made of its own name.
            Some(call) if call.thread_ts.is_some() => client,
            _ => client.with_conversation(self.origin.split('/').next().unwrap_or_default()),
        };
        match &self.trace {
            Some(trace) => client.with_trace_parent(trace),
            None => client,
        }
    }

    /// What the peer's task is told of where it comes from.
    pub(super) fn metadata(&self) -> Option<Metadata> {
        let passed = Passed {
            hops: self.hops.saturating_add(1),
            origin: Some(self.origin.clone()),
            correlation: Some(self.correlation.clone()),
            traceparent: self.trace.clone(),
        };
        object(&BTreeMap::from([(MEMBER, passed)]))
    }

    /// Whether a task of the peer's is the one that an earlier attempt at this turn began.
    pub(super) fn began(&self, metadata: Option<&Metadata>) -> bool {
        let passed = metadata.and_then(|all| all.get::<Passed>(MEMBER));
        passed.and_then(|passed| passed.origin).as_ref() == Some(&self.origin)
    }

    /// The id of the call that this turn makes: the same each time it is begun, so that the peer begins
    /// it once. `again` makes another, for when the first was called off.
    pub(super) fn call_id(&self, agent: &AgentId, again: Option<u32>) -> String {
        let text = format!("{agent}\n{}\n{}", self.origin, again.unwrap_or_default());
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

/// A question with what must be known when it is answered.
pub(super) fn remembering(
    question: Message,
    agent: &AgentId,
    task: &str,
    after: Option<u64>,
    made: usize,
) -> Message {
    let memory = Memory {
        agent: agent.to_string(),
        task: task.to_owned(),
        after,
        made,
    };
    match object(&BTreeMap::from([(
        MEMBER,
        BTreeMap::from([("remote", memory)]),
    )])) {
        Some(metadata) => question.with_metadata(metadata),
        None => question,
    }
}

/// What the last question of this agent tells of the peer's task, and where in the history it stands.
/// Only a question that nobody has spoken after as an agent waits for an answer.
pub(super) fn remembered(history: &[Message], agent: &AgentId) -> Option<(usize, Memory)> {
    let last = history
        .iter()
        .rposition(|message| message.role() == Role::Agent)?;
    let metadata = history.get(last)?.metadata()?;
    let memory = metadata.get::<Remembered>(MEMBER)?.remote;
    (memory.agent == agent.as_str()).then_some((last, memory))
}

fn object<T: Serialize>(value: &T) -> Option<Metadata> {
    Json::of(value).and_then(Metadata::new).ok()
}

/// A fresh id for what a peer left without one.
pub(super) fn fresh_id() -> String {
    Uuid::new_v4().to_string()
}
