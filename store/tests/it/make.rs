//! Things to store, with everything decided that a test does not care about.

use interzone_hub::ports::{
    ClaimKey, Commit, EventRow, Fence, Op, OutboxClaim, Store, WorkClaim, WorkItem,
};
use interzone_hub::{
    Blob, BlobId, EventBody, IdSource, OutboxEntry, Packed, Push, RandomIds, RunShares, Signal,
    SignalBody, Stream, Subject, Subscription, SubscriptionState, Task, TaskQuery, WorkOwner,
};
use interzone_protocol::vocab::{
    AgentId, Artifact, ArtifactId, ContextId, DeliveryId, Json, Message, Part, PrincipalId,
    Priority, SignalId, StreamId, StreamState, SubscriptionId, TaskId, TaskState, Timestamp, Topic,
    TopicPattern,
};
use std::sync::Arc;
use std::time::Duration;

/// A moment, in milliseconds after one that all tests begin at.
pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

/// Later than every lease, hold and wait of a test.
pub(crate) fn long_after() -> Timestamp {
    at(1_000_000_000)
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

pub(crate) fn of_task(id: &str) -> Subject {
    Subject::Task(task_id(id))
}

pub(crate) fn of_stream(id: &str) -> Subject {
    Subject::Stream(stream_id(id))
}

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

pub(crate) fn commit(ops: Vec<Op>) -> Commit {
    commit_at(at(0), ops)
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

/// A task as it is when it was just accepted.
pub(crate) fn task(id: &str) -> Task {
    Task {
        id: task_id(id),
        context_id: ContextId::new("context").unwrap(),
        owner: owner("owner"),
        agent: agent("agent"),
        state: TaskState::Submitted,
        priority: Priority::Normal,
        metadata: None,
        status: None,
        created_at: at(0),
        updated_at: at(0),
        finished_at: None,
        revision: 1,
        seq: 0,
        messages: 0,
        artifacts: 0,
        pushes: 0,
    }
}

/// The same task one revision later, otherwise unchanged.
pub(crate) fn next(task: &Task) -> Task {
    Task {
        revision: task.revision + 1,
        ..task.clone()
    }
}

/// The same task, finished at this moment.
pub(crate) fn finished(task: &Task, at: Timestamp) -> Task {
    Task {
        state: TaskState::Completed,
        updated_at: at,
        finished_at: Some(at),
        ..next(task)
    }
}

pub(crate) fn create(task: &Task) -> Op {
    Op::CreateTask(Arc::new(task.clone()))
}

pub(crate) fn update(task: &Task) -> Op {
    Op::UpdateTask(Arc::new(task.clone()))
}

pub(crate) fn said(text: &str) -> Packed<Message> {
    Packed::pack(Message::user_text(text)).0
}

pub(crate) fn message(id: &str, index: u32, text: &str) -> Op {
    Op::AddMessage {
        task_id: task_id(id),
        index,
        message: said(text),
    }
}

pub(crate) fn made(id: &str, text: &str) -> Packed<Artifact> {
    let id = ArtifactId::new(id).unwrap();
    Packed::pack(Artifact::new(id, "report").with_part(Part::text(text))).0
}

pub(crate) fn artifact(task: &str, id: &str, text: &str) -> Op {
    Op::PutArtifact {
        task_id: task_id(task),
        artifact_id: ArtifactId::new(id).unwrap(),
        artifact: made(id, text),
    }
}

pub(crate) fn blob(text: &str) -> Blob {
    Blob {
        id: BlobId::of(text.as_bytes()),
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
        body: status(&format!("event {seq}")),
    })
}

pub(crate) fn stream(id: &str) -> Stream {
    Stream {
        id: stream_id(id),
        owner: owner("owner"),
        participants: vec!["somebody".to_owned()],
        state: StreamState::Active,
        metadata: None,
        created_at: at(0),
        updated_at: at(0),
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

/// Makes tasks that are only there to be queued.
pub(crate) async fn make<I: AsRef<str>>(store: &dyn Store, ids: impl IntoIterator<Item = I>) {
    let ops = ids.into_iter().map(|id| create(&task(id.as_ref())));
    store.commit(commit(ops.collect())).await.unwrap();
}

pub(crate) fn queue(id: &str) -> Op {
    queue_for(id, "agent", Priority::Normal, at(0))
}

pub(crate) fn queue_for(id: &str, of: &str, priority: Priority, due_at: Timestamp) -> Op {
    queue_of(&work_owner("owner"), id, of, priority, due_at)
}

/// Whose a task is that names no person.
pub(crate) fn work_owner(principal: &str) -> WorkOwner {
    WorkOwner {
        principal: owner(principal),
        group: 0,
    }
}

pub(crate) fn queue_of(
    owner: &WorkOwner,
    id: &str,
    of: &str,
    priority: Priority,
    due_at: Timestamp,
) -> Op {
    Op::QueueWork {
        task_id: task_id(id),
        agent: agent(of),
        owner: owner.clone(),
        priority,
        due_at,
    }
}

/// A wish for tasks of `agent`, with leases of a second.
pub(crate) fn wish(node: &str, count: usize, now: Timestamp) -> WorkClaim {
    WorkClaim {
        node: node.to_owned(),
        wanted: vec![(agent("agent"), count)],
        now,
        lease: Duration::from_secs(1),
        running: Vec::new(),
        shares: RunShares::default(),
    }
}

/// A wish for entries of these channels, held until a moment.
pub(crate) fn carry_wish(
    channels: &[String],
    now: Timestamp,
    until: Timestamp,
    limit: usize,
) -> OutboxClaim {
    OutboxClaim {
        channels: channels.to_vec(),
        now,
        hold: until.since(now),
        limit,
        carrying: Vec::new(),
    }
}

/// How long it is from the beginning to a moment.
pub(crate) fn from_start(moment: Timestamp) -> Duration {
    moment.since(at(0))
}

pub(crate) fn key(key: &str, value: &str, expires_at: Timestamp) -> Op {
    Op::Claim(ClaimKey {
        key: key.to_owned(),
        value: value.to_owned(),
        expires_at,
    })
}

/// An entry of the channel `web`, due from the beginning.
pub(crate) fn entry(id: &str) -> OutboxEntry {
    OutboxEntry {
        id: delivery_id(id),
        channel: "web".to_owned(),
        key: format!("key of {id}"),
        group: None,
        owner: owner("owner"),
        subject: Some(of_task("t")),
        payload: json(r#"{"to":"there"}"#),
        created_at: at(0),
        due_at: at(0),
        attempt: 0,
        error: None,
    }
}

pub(crate) fn enqueue(entry: &OutboxEntry) -> Op {
    Op::Enqueue(Box::new(entry.clone()))
}

pub(crate) fn web() -> Vec<String> {
    vec!["web".to_owned()]
}

pub(crate) fn push(task: &str, id: &str) -> Push {
    Push {
        id: sub_id(id),
        task_id: task_id(task),
        owner: owner("owner"),
        channel: "web".to_owned(),
        events: vec!["state".to_owned()],
        target: json(r#"{"url":"there"}"#),
        created_at: at(0),
    }
}

pub(crate) fn put_push(push: &Push) -> Op {
    Op::PutPush(Box::new(push.clone()))
}

pub(crate) fn subscription(id: &str) -> Subscription {
    Subscription {
        id: sub_id(id),
        owner: owner("owner"),
        patterns: vec![TopicPattern::new("a.*").unwrap()],
        allowed: None,
        state: SubscriptionState::Active,
        about: None,
        created_at: at(0),
        expires_at: None,
        revision: 1,
    }
}

pub(crate) fn subscribe(subscription: &Subscription) -> Op {
    Op::CreateSubscription(Box::new(subscription.clone()))
}

pub(crate) fn change(subscription: &Subscription) -> Op {
    Op::UpdateSubscription(Box::new(subscription.clone()))
}

/// The same subscription one revision later, in this state.
pub(crate) fn becoming(subscription: &Subscription, state: SubscriptionState) -> Subscription {
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
        at: at(0),
        body: SignalBody::Sent(json(&format!("{{\"of\":{id:?}}}"))),
    }
}

pub(crate) fn publish(id: &str, to: &[&str]) -> Op {
    Op::Publish {
        signal: Box::new(signal(id)),
        to: to.iter().map(|id| sub_id(id)).collect(),
    }
}

/// Every task there is.
pub(crate) fn all_tasks() -> TaskQuery {
    TaskQuery {
        owner: None,
        context_id: None,
        states: Vec::new(),
        agent: None,
        updated_since: None,
        after: None,
        limit: 100_000,
    }
}
