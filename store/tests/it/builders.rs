//! Builders of stored values, with defaults for everything a test does not care about.

use interzone_hub::ports::{
    Commit, EventRow, Fence, IdempotencyClaim, Op, OutboxClaim, Store, WorkClaim, WorkItem,
};
use interzone_hub::{
    Blob, BlobId, EventBody, IdSource, Offloaded, OutboxEntry, PushSubscription, RandomIds,
    RunShares, Signal, SignalBody, Stream, Subject, Subscription, SubscriptionState, Task,
    TaskQuery, WorkOwner,
};
use interzone_protocol::vocab::{
    AgentId, Artifact, ArtifactId, ContextId, DeliveryId, Message, Part, PrincipalId, Priority,
    SignalId, StreamId, StreamState, SubscriptionId, TaskId, TaskState, Timestamp, Topic,
    TopicPattern, VerbatimJson,
};
use std::sync::Arc;
use std::time::Duration;

/// Timestamp, in milliseconds after the common start of all tests.
pub(crate) fn time_at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

/// Later than every lease and wait of a test.
pub(crate) fn long_after() -> Timestamp {
    time_at(1_000_000_000)
}

pub(crate) fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(crate) fn task_id(id: &str) -> TaskId {
    TaskId::new(id).unwrap()
}

pub(crate) fn stream_id(id: &str) -> StreamId {
    StreamId::new(id).unwrap()
}

pub(crate) fn sub_id(id: &str) -> SubscriptionId {
    SubscriptionId::new(id).unwrap()
}

pub(crate) fn signal_id(id: &str) -> SignalId {
    SignalId::new(id).unwrap()
}

pub(crate) fn agent(id: &str) -> AgentId {
    AgentId::new(id).unwrap()
}

pub(crate) fn owner(id: &str) -> PrincipalId {
    PrincipalId::new(id).unwrap()
}

pub(crate) fn delivery_id(id: &str) -> DeliveryId {
    DeliveryId::new(id).unwrap()
}

pub(crate) fn task_subject(id: &str) -> Subject {
    Subject::Task(task_id(id))
}

pub(crate) fn stream_subject(id: &str) -> Subject {
    Subject::Stream(stream_id(id))
}

pub(crate) fn json(text: &str) -> VerbatimJson {
    VerbatimJson::parse(text).unwrap()
}

pub(crate) fn commit(ops: Vec<Op>) -> Commit {
    commit_at(time_at(0), ops)
}

pub(crate) fn commit_at(at: Timestamp, ops: Vec<Op>) -> Commit {
    Commit {
        id: RandomIds.next(at),
        at,
        fence: None,
        epoch: None,
        ops,
    }
}

pub(crate) fn fence(item: &WorkItem, node: &str) -> Fence {
    Fence {
        task_id: item.task_id.clone(),
        node: node.to_owned(),
        claim: item.claim,
    }
}

/// Newly submitted task.
pub(crate) fn task(id: &str) -> Task {
    Task {
        id: task_id(id),
        context_id: ContextId::new("context").unwrap(),
        owner: owner("owner"),
        agent: agent("agent"),
        state: TaskState::Submitted,
        priority: Priority::Normal,
        metadata: None,
        status_message: None,
        created_at: time_at(0),
        status_at: time_at(0),
        updated_at: time_at(0),
        finished_at: None,
        revision: 1,
        seq: 0,
        generation: 0,
        is_direct: false,
        message_count: 0,
        artifact_count: 0,
        push_count: 0,
    }
}

/// The same task one revision later, otherwise unchanged.
pub(crate) fn next_revision(task: &Task) -> Task {
    Task {
        revision: task.revision + 1,
        ..task.clone()
    }
}

/// The same task, finished at this time.
pub(crate) fn finished(task: &Task, at: Timestamp) -> Task {
    Task {
        state: TaskState::Completed,
        updated_at: at,
        finished_at: Some(at),
        ..next_revision(task)
    }
}

pub(crate) fn create(task: &Task) -> Op {
    Op::CreateTask(Arc::new(task.clone()))
}

pub(crate) fn update(task: &Task) -> Op {
    Op::UpdateTask(Arc::new(task.clone()))
}

pub(crate) fn user_message(text: &str) -> Offloaded<Message> {
    Offloaded::offload(Message::user_text(text)).0
}

pub(crate) fn message(id: &str, index: u32, text: &str) -> Op {
    Op::AddMessage {
        task_id: task_id(id),
        index,
        message: user_message(text),
    }
}

pub(crate) fn report_artifact(id: &str, text: &str) -> Offloaded<Artifact> {
    let id = ArtifactId::new(id).unwrap();
    Offloaded::offload(Artifact::new(id, "report").with_part(Part::text(text))).0
}

pub(crate) fn artifact(task: &str, id: &str, text: &str) -> Op {
    Op::PutArtifact {
        task_id: task_id(task),
        artifact_id: ArtifactId::new(id).unwrap(),
        artifact: report_artifact(id, text),
    }
}

pub(crate) fn blob(text: &str) -> Blob {
    Blob {
        id: BlobId::for_content(text.as_bytes()),
        bytes: text.into(),
    }
}

pub(crate) fn put_blob(subject: Subject, blob: &Blob) -> Op {
    Op::PutBlob {
        subject,
        blob: blob.clone(),
    }
}

pub(crate) fn status(text: &str) -> EventBody {
    EventBody::Status {
        text: text.to_owned(),
    }
}

pub(crate) fn event(subject: Subject, seq: u64) -> Op {
    Op::AppendEvent(EventRow {
        subject,
        seq,
        generation: None,
        body: status(&format!("event {seq}")),
    })
}

pub(crate) fn stream(id: &str) -> Stream {
    Stream {
        id: stream_id(id),
        owner: owner("owner"),
        participants: vec!["participant".to_owned()],
        state: StreamState::Active,
        metadata: None,
        created_at: time_at(0),
        updated_at: time_at(0),
        closed_at: None,
        revision: 1,
        seq: 0,
    }
}

pub(crate) fn create_stream(stream: &Stream) -> Op {
    Op::CreateStream(Box::new(stream.clone()))
}

pub(crate) fn update_stream(stream: &Stream) -> Op {
    Op::UpdateStream(Box::new(stream.clone()))
}

/// Creates tasks that are only there to be queued.
pub(crate) async fn create_tasks<I: AsRef<str>>(
    store: &dyn Store,
    ids: impl IntoIterator<Item = I>,
) {
    let ops = ids.into_iter().map(|id| create(&task(id.as_ref())));
    store.commit(commit(ops.collect())).await.unwrap();
}

pub(crate) fn enqueue_work(id: &str) -> Op {
    enqueue_work_for(id, "agent", Priority::Normal, time_at(0))
}

pub(crate) fn enqueue_work_for(
    id: &str,
    agent_id: &str,
    priority: Priority,
    due_at: Timestamp,
) -> Op {
    enqueue_work_of(&work_owner("owner"), id, agent_id, priority, due_at)
}

/// Owner of a task without a user.
pub(crate) fn work_owner(principal: &str) -> WorkOwner {
    WorkOwner {
        principal: owner(principal),
        group: 0,
    }
}

pub(crate) fn enqueue_work_of(
    owner: &WorkOwner,
    id: &str,
    agent_id: &str,
    priority: Priority,
    due_at: Timestamp,
) -> Op {
    Op::EnqueueWork {
        task_id: task_id(id),
        agent: agent(agent_id),
        owner: owner.clone(),
        priority,
        due_at,
    }
}

/// Claim for tasks of `agent`, with a lease of one second.
pub(crate) fn work_claim(node: &str, count: usize, now: Timestamp) -> WorkClaim {
    WorkClaim {
        node: node.to_owned(),
        wanted: vec![(agent("agent"), count)],
        now,
        lease: Duration::from_secs(1),
        running_claims: Vec::new(),
        shares: RunShares::default(),
    }
}

/// Claim for entries of these channels, leased until this time.
pub(crate) fn outbox_claim(
    channels: &[String],
    now: Timestamp,
    until: Timestamp,
    limit: usize,
) -> OutboxClaim {
    OutboxClaim {
        channels: channels.to_vec(),
        now,
        lease: until.duration_since(now),
        limit,
        in_flight: Vec::new(),
    }
}

/// Duration from the start of the test's clock.
pub(crate) fn since_start(time: Timestamp) -> Duration {
    time.duration_since(time_at(0))
}

pub(crate) fn claim_key(key: &str, value: &str, expires_at: Timestamp) -> Op {
    Op::ClaimKey(IdempotencyClaim {
        key: key.to_owned(),
        value: value.to_owned(),
        expires_at,
    })
}

/// Entry of the channel `web`, due from the start.
pub(crate) fn entry(id: &str) -> OutboxEntry {
    OutboxEntry {
        id: delivery_id(id),
        channel: "web".to_owned(),
        key: format!("key of {id}"),
        group: None,
        owner: owner("owner"),
        subject: Some(task_subject("t")),
        payload: json(r#"{"to":"there"}"#),
        created_at: time_at(0),
        due_at: time_at(0),
        attempt: 0,
        error: None,
    }
}

pub(crate) fn enqueue(entry: &OutboxEntry) -> Op {
    Op::EnqueueOutbox(Box::new(entry.clone()))
}

pub(crate) fn web_channel() -> Vec<String> {
    vec!["web".to_owned()]
}

pub(crate) fn push(task: &str, id: &str) -> PushSubscription {
    PushSubscription {
        id: sub_id(id),
        task_id: task_id(task),
        owner: owner("owner"),
        channel: "web".to_owned(),
        events: vec!["state".to_owned()],
        format: "acp".to_owned(),
        target: json(r#"{"url":"there"}"#),
        secrets: None,
        created_at: time_at(0),
    }
}

pub(crate) fn put_push(push: &PushSubscription) -> Op {
    Op::PutPushSubscription(Box::new(push.clone()))
}

pub(crate) fn subscription(id: &str) -> Subscription {
    Subscription {
        id: sub_id(id),
        owner: owner("owner"),
        patterns: vec![TopicPattern::new("a.*").unwrap()],
        allowed_patterns: None,
        state: SubscriptionState::Active,
        dialect_data: None,
        created_at: time_at(0),
        expires_at: None,
        revision: 1,
    }
}

pub(crate) fn subscribe(subscription: &Subscription) -> Op {
    Op::CreateSubscription(Box::new(subscription.clone()))
}

pub(crate) fn update_subscription(subscription: &Subscription) -> Op {
    Op::UpdateSubscription(Box::new(subscription.clone()))
}

/// The same subscription one revision later, in this state.
pub(crate) fn with_state(subscription: &Subscription, state: SubscriptionState) -> Subscription {
    Subscription {
        state,
        revision: subscription.revision + 1,
        ..subscription.clone()
    }
}

pub(crate) fn signal(id: &str) -> Signal {
    Signal {
        topic: Topic::new("a.b").unwrap(),
        id: signal_id(id),
        publisher: owner("publisher"),
        at: time_at(0),
        body: SignalBody::Sent(json(&format!("{{\"of\":{id:?}}}"))),
    }
}

pub(crate) fn publish(id: &str, to: &[&str]) -> Op {
    Op::Publish {
        signal: Box::new(signal(id)),
        to: to.iter().map(|id| sub_id(id)).collect(),
    }
}

/// Query for all tasks.
pub(crate) fn all_tasks() -> TaskQuery {
    TaskQuery {
        owner: None,
        context_id: None,
        states: Vec::new(),
        agent: None,
        status_since: None,
        after: None,
        limit: 100_000,
    }
}
