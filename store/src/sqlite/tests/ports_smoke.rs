//! A smoke test of every port; the contract suite checks their guarantees.

use super::{
    TempFolder, commit_of, create_task, created_event, new_task_commit, sample_task, timestamp,
};
use interzone_hub::ports::{
    DeadLetterQuery, Fence, IdempotencyClaim, Maintenance, Op, OutboxClaim, OutboxStore,
    QuotaStore, StoreError, StreamStore, SubscriptionQuery, TaskStore, TopicStore, WorkClaim,
    WorkStore,
};
use interzone_hub::{
    AckOutcome, Charge, DeliveryResult, OutboxEntry, Rate, Retention, Signal, SignalBody, Stream,
    Subject, Subscription, SubscriptionState, Task, TaskQuery,
};
use interzone_protocol::vocab::{
    AgentId, DeliveryId, PrincipalId, SignalId, StreamId, StreamState, SubscriptionId, TaskState,
    Topic, TopicPattern, VerbatimJson,
};
use std::sync::Arc;
use std::time::Duration;

const LEASE: Duration = Duration::from_millis(10);

#[tokio::test]
async fn task_store_smoke_test() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    store.commit(new_task_commit("t")).await.unwrap();
    let id = sample_task("t").id;
    assert_eq!(store.messages(&id, 0..9).await.unwrap().len(), 1);
    let events = store
        .events(&Subject::Task(id.clone()), 0, 9)
        .await
        .unwrap();
    assert_eq!((events.len(), events[0].at), (1, timestamp(0)));
    let query = TaskQuery {
        owner: Some(sample_task("t").owner),
        context_id: None,
        states: Vec::new(),
        agent: None,
        status_since: None,
        after: None,
        limit: 9,
    };
    assert_eq!(store.tasks(&query).await.unwrap(), [sample_task("t")]);
    assert_eq!(store.count_tasks(&query).await.unwrap(), 1);
    let key = |value: &str| {
        Op::ClaimKey(IdempotencyClaim {
            key: "k".to_owned(),
            value: value.to_owned(),
            expires_at: timestamp(9),
        })
    };
    store.commit(commit_of(vec![key("first")])).await.unwrap();
    let duplicate = store.commit(commit_of(vec![key("second")])).await;
    assert!(matches!(duplicate, Err(StoreError::KeyTaken { value, .. }) if value == "first"));
    let claimed = store.claimed_value("k", timestamp(0)).await.unwrap();
    assert_eq!(claimed.as_deref(), Some("first"));
}

#[tokio::test]
async fn stream_store_smoke_test() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    let stream = Stream {
        id: StreamId::new("s").unwrap(),
        owner: PrincipalId::new("o").unwrap(),
        participants: vec!["p".to_owned()],
        state: StreamState::Active,
        metadata: None,
        created_at: timestamp(0),
        updated_at: timestamp(0),
        closed_at: None,
        revision: 1,
        seq: 0,
    };
    let ops = vec![Op::CreateStream(Box::new(stream.clone()))];
    store.commit(commit_of(ops)).await.unwrap();
    let read = store.stream(&stream.id).await.unwrap();
    assert_eq!(read, Some(stream.clone()));
    assert_eq!(store.idle_streams(timestamp(1), 9).await.unwrap(), [stream]);
    assert_eq!(store.idle_streams(timestamp(0), 9).await.unwrap(), []);
}

#[tokio::test]
async fn work_store_smoke_test() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    store.commit(new_task_commit("t")).await.unwrap();
    let mut claim = WorkClaim {
        node: "n".to_owned(),
        wanted: vec![(AgentId::new("a").unwrap(), 5)],
        now: timestamp(0),
        lease: LEASE,
        running_claims: Vec::new(),
        shares: interzone_hub::RunShares::default(),
    };
    let items = store.claim_work(&claim).await.unwrap();
    let (id, first) = (items[0].task_id.clone(), items[0].claim);
    assert!(store.claim_work(&claim).await.unwrap().is_empty());
    assert_eq!(store.work_depth(timestamp(0)).await.unwrap(), (0, 1));
    assert!(
        store
            .renew_work(&id, "n", first, LEASE, timestamp(20))
            .await
            .unwrap()
    );
    store.release_stale_claims(timestamp(20)).await.unwrap();
    claim.now = timestamp(20);
    let items = store.claim_work(&claim).await.unwrap();
    assert_eq!(items[0].attempt, 2);
    assert!(items[0].claim > first);
    let fenced = interzone_hub::ports::Commit {
        fence: Some(Fence {
            task_id: id.clone(),
            node: "n".to_owned(),
            claim: first,
        }),
        ..commit_of(Vec::new())
    };
    let lost = store.commit(fenced).await;
    assert!(matches!(lost, Err(StoreError::Fenced)));
    let second = items[0].claim;
    let wait = Duration::from_millis(5);
    let release = async || {
        store
            .release_work(&id, "n", second, wait, timestamp(20))
            .await
    };
    assert!(release().await.unwrap());
    assert!(!release().await.unwrap());
    store.close().await;
    let store = folder.open().await;
    claim.now = timestamp(25);
    assert!(store.claim_work(&claim).await.unwrap()[0].claim > second);
}

#[tokio::test]
async fn outbox_store_smoke_test() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    let entry = |id: &str| {
        Op::EnqueueOutbox(Box::new(OutboxEntry {
            id: DeliveryId::new(id).unwrap(),
            channel: "web".to_owned(),
            key: id.to_owned(),
            group: Some("g".to_owned()),
            owner: PrincipalId::new("o").unwrap(),
            subject: None,
            payload: VerbatimJson::parse("{}").unwrap(),
            created_at: timestamp(0),
            due_at: timestamp(0),
            attempt: 0,
            error: None,
        }))
    };
    let ops = vec![entry("a"), entry("b"), entry("a")];
    store.commit(commit_of(ops)).await.unwrap();
    let web = ["web".to_owned()];
    let request = OutboxClaim {
        channels: web.to_vec(),
        now: timestamp(0),
        lease: LEASE,
        limit: 9,
        in_flight: Vec::new(),
    };
    let claim = async || store.claim_outbox(&request).await.unwrap();
    let first = claim().await;
    assert_eq!((first.len(), first[0].attempt), (1, 1));
    assert!(claim().await.is_empty());
    let next = store.next_outbox_due(&web, timestamp(0)).await.unwrap();
    assert!(
        next.unwrap() > LEASE,
        "one entry is leased, and the other waits behind it"
    );
    let dead = DeliveryResult::Dead {
        error: "gone".to_owned(),
    };
    let settled = store
        .settle_outbox(&first[0].id, 1, &dead, timestamp(1))
        .await;
    assert!(settled.unwrap());
    assert_eq!(claim().await[0].id.as_str(), "b");
    assert_eq!(store.outbox_depth().await.unwrap(), (1, 1));
    let query = DeadLetterQuery {
        limit: 9,
        ..DeadLetterQuery::default()
    };
    let dead_letters = store.dead_letters(&query).await.unwrap();
    assert_eq!(dead_letters[0].error.as_deref(), Some("gone"));
    assert!(
        store
            .replay_outbox(&first[0].id, timestamp(0))
            .await
            .unwrap()
    );
    assert_eq!(claim().await[0].id.as_str(), "a");
}

#[tokio::test]
async fn topic_store_smoke_test() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    let subscription = Subscription {
        id: SubscriptionId::new("s").unwrap(),
        owner: PrincipalId::new("o").unwrap(),
        patterns: vec![TopicPattern::new("a.*").unwrap()],
        allowed_patterns: None,
        state: SubscriptionState::Active,
        dialect_data: None,
        created_at: timestamp(0),
        expires_at: None,
        revision: 1,
    };
    let signal = Signal {
        topic: Topic::new("a.b").unwrap(),
        id: SignalId::new("1").unwrap(),
        publisher: PrincipalId::new("p").unwrap(),
        at: timestamp(0),
        body: SignalBody::Event(Subject::Task(sample_task("t").id), 1),
    };
    let id = subscription.id.clone();
    let ops = vec![
        Op::CreateSubscription(Box::new(subscription.clone())),
        Op::Publish {
            signal: Box::new(signal.clone()),
            to: vec![id.clone(), id.clone(), SubscriptionId::new("gone").unwrap()],
        },
    ];
    store.commit(commit_of(ops)).await.unwrap();
    let (epoch, active) = store.active_subscriptions(None).await.unwrap().unwrap();
    assert_eq!(active, std::slice::from_ref(&subscription));
    let unchanged = store.active_subscriptions(Some(epoch)).await.unwrap();
    assert!(unchanged.is_none());
    let query = SubscriptionQuery {
        limit: 9,
        ..SubscriptionQuery::default()
    };
    let (_, total) = store.subscriptions(&query).await.unwrap();
    assert_eq!(total, 1);
    assert_eq!(
        store.subscriptions_due(timestamp(0), 9).await.unwrap(),
        std::slice::from_ref(&id)
    );
    let waits = [Duration::from_millis(5)];
    let claimed = store
        .claim_signals(&id, timestamp(0), &waits, 9)
        .await
        .unwrap();
    assert_eq!((claimed[0].seq, claimed[0].attempt), (1, 1));
    assert_eq!(claimed[0].signal, signal);
    assert!(
        store
            .subscriptions_due(timestamp(4), 9)
            .await
            .unwrap()
            .is_empty()
    );
    store
        .dead_letter_signal(&id, 1, timestamp(6))
        .await
        .unwrap();
    assert_eq!(store.dead_signals(9).await.unwrap().len(), 1);
    assert!(store.unacked_signals(&id, 0, 9).await.unwrap().is_empty());
    let ids = [signal.id.clone(), signal.id, SignalId::new("2").unwrap()];
    assert_eq!(
        store.ack_signals(&id, &ids, timestamp(7)).await.unwrap(),
        [
            AckOutcome::Acknowledged,
            AckOutcome::AlreadyAcknowledged,
            AckOutcome::Unknown
        ]
    );
}

#[tokio::test]
async fn quota_store_smoke_test() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    let rate = Rate {
        limit: 2,
        window: Duration::from_secs(1),
    };
    for left in [1, 0] {
        let charge = store.charge("k", rate, 1, timestamp(0)).await.unwrap();
        assert_eq!(charge, Charge::Allowed { remaining: left });
    }
    let charge = store.charge("k", rate, 1, timestamp(0)).await.unwrap();
    assert!(matches!(charge, Charge::Refused { .. }));
}

#[tokio::test]
async fn maintenance_smoke_test() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    for number in 0..20 {
        let id = format!("t{number}");
        store.commit(new_task_commit(&id)).await.unwrap();
        let finished = Task {
            state: TaskState::Completed,
            finished_at: Some(timestamp(10)),
            revision: 2,
            ..sample_task(&id)
        };
        let ops = vec![Op::UpdateTask(Arc::new(finished)), created_event(&id, 2)];
        store.commit(commit_of(ops)).await.unwrap();
    }
    store
        .commit(commit_of(vec![create_task("open")]))
        .await
        .unwrap();
    let retention = Retention::default();
    let later = timestamp(10).plus(retention.finished);
    let (mut tasks, mut events) = (0, 0);
    loop {
        let purged = store.purge(&retention, later, 7).await.unwrap();
        assert!(purged.total() <= 14, "{purged:?}");
        (tasks, events) = (tasks + purged.tasks, events + purged.events);
        if purged.total() == 0 {
            break;
        }
    }
    assert_eq!((tasks, events), (20, 40));
    assert!(store.task(&sample_task("t0").id).await.unwrap().is_none());
    assert!(store.task(&sample_task("open").id).await.unwrap().is_some());
    assert_eq!(store.work_depth(later).await.unwrap(), (0, 0));
    store.optimize().await.unwrap();
    store.check().await.unwrap();
}
