//! Retention: finished data is purged after its retention, in small steps, and nothing else is.

use crate::builders::{
    artifact, blob, claim_key, commit, commit_at, create, create_stream, delivery_id, enqueue,
    enqueue_work, entry, event, finished, message, outbox_claim, publish, push, put_blob, put_push,
    signal_id, stream, stream_id, stream_subject, sub_id, subscribe, subscription, task, task_id,
    task_subject, time_at, update, update_subscription, web_channel, with_state,
};
use crate::engine::Engine;
use crate::snapshot::{SnapshotScope, event_log, take_snapshot};
use interzone_hub::ports::{Op, Store, SubscriptionQuery};
use interzone_hub::{
    AckOutcome, BlobId, Charge, DeliveryResult, OutboxEntry, Purged, Rate, Retention, Stream,
    Subscription, SubscriptionState,
};
use interzone_protocol::vocab::{StreamState, Timestamp};
use std::time::Duration;

contract_tests!(
    finished_tasks_are_purged_completely,
    events_are_purged_before_their_task,
    closed_streams_are_purged,
    delivered_entries_are_purged,
    dead_entries_are_purged_later,
    acknowledged_signals_are_purged,
    dead_signals_are_purged,
    ended_subscriptions_are_purged,
    expired_keys_and_quotas_are_purged,
    unreferenced_blobs_are_purged,
    unfinished_data_is_not_purged,
    purge_removes_limited_rows_per_step,
    purge_runs_concurrently_with_writers,
);

const HOUR: Duration = Duration::from_secs(3_600);

/// A day for everything, so that a test can shorten one.
const ONE_DAY: Retention = Retention {
    finished: HOUR.saturating_mul(24),
    events: HOUR.saturating_mul(24),
    delivered: HOUR.saturating_mul(24),
    dead: HOUR.saturating_mul(24),
    ended_subscriptions: HOUR.saturating_mul(24),
    unfetched: Duration::MAX,
    requests: HOUR.saturating_mul(24),
    max_requests: 1_000,
};

fn hours(count: i64) -> Timestamp {
    time_at(count * 3_600_000)
}

/// Purges until nothing more is removed.
async fn purge(store: &dyn Store, retention: Retention, now: Timestamp) -> Purged {
    let mut all = Purged::default();
    loop {
        let some = store.purge(&retention, now, 1_000).await.unwrap();
        if some.total() == 0 {
            return all;
        }
        all.tasks += some.tasks;
        all.streams += some.streams;
        all.events += some.events;
        all.outbox += some.outbox;
        all.signals += some.signals;
        all.subscriptions += some.subscriptions;
        all.expired += some.expired;
        all.blobs += some.blobs;
        assert!(all.total() < 100_000, "a purge that never ends");
    }
}

/// Creates a task with data of every kind, finished at this time.
async fn create_finished_task(store: &dyn Store, id: &str, at: Timestamp) {
    let open = task(id);
    let ops = vec![
        create(&open),
        message(id, 0, "hello"),
        artifact(id, "a", "made"),
        put_push(&push(id, "p")),
        event(task_subject(id), 1),
        event(task_subject(id), 2),
        put_blob(task_subject(id), &blob(&format!("\"only of {id}\""))),
    ];
    store.commit(commit(ops)).await.unwrap();
    let ops = vec![update(&finished(&open, at)), event(task_subject(id), 3)];
    store.commit(commit_at(at, ops)).await.unwrap();
}

async fn finished_tasks_are_purged_completely(on: Engine) {
    let store = on.node().await;
    create_finished_task(&*store, "old", hours(0)).await;
    create_finished_task(&*store, "young", hours(20)).await;
    let purged = purge(&*store, ONE_DAY, hours(23)).await;
    assert_eq!(purged, Purged::default(), "nothing is old enough");
    let purged = purge(&*store, ONE_DAY, hours(25)).await;
    assert_eq!((purged.tasks, purged.blobs), (1, 1), "{purged:?}");
    let id = task_id("old");
    assert_eq!(store.task(&id).await.unwrap(), None);
    assert_eq!(store.messages(&id, 0..9).await.unwrap(), []);
    assert_eq!(store.artifacts(&id).await.unwrap(), []);
    assert_eq!(store.push_subscriptions(&id).await.unwrap(), []);
    assert_eq!(event_log(&*store, &task_subject("old")).await, []);
    let young = task_id("young");
    assert!(store.task(&young).await.unwrap().is_some());
    assert_eq!(store.messages(&young, 0..9).await.unwrap().len(), 1);
    assert_eq!(store.artifacts(&young).await.unwrap().len(), 1);
    assert_eq!(store.push_subscriptions(&young).await.unwrap().len(), 1);
    assert_eq!(event_log(&*store, &task_subject("young")).await.len(), 3);
    // Its id can be used again, and nothing of the old task remains.
    let ops = vec![create(&task("old")), event(task_subject("old"), 1)];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.messages(&id, 0..9).await.unwrap(), []);
    assert_eq!(event_log(&*store, &task_subject("old")).await.len(), 1);
}

async fn events_are_purged_before_their_task(on: Engine) {
    let store = on.node().await;
    let retention = Retention {
        events: HOUR,
        ..ONE_DAY
    };
    create_finished_task(&*store, "t", hours(0)).await;
    let ops = vec![create(&task("open")), event(task_subject("open"), 1)];
    store.commit(commit(ops)).await.unwrap();
    let purged = purge(&*store, retention, hours(2)).await;
    assert_eq!((purged.events, purged.tasks), (3, 0), "{purged:?}");
    assert_eq!(event_log(&*store, &task_subject("t")).await, []);
    assert!(store.task(&task_id("t")).await.unwrap().is_some());
    let messages = store.messages(&task_id("t"), 0..9).await.unwrap();
    assert_eq!(messages.len(), 1, "the other data stays");
    let open_log = event_log(&*store, &task_subject("open")).await;
    assert_eq!(open_log.len(), 1, "it is not finished, however old");
    let purged = purge(&*store, retention, hours(25)).await;
    assert_eq!((purged.events, purged.tasks), (0, 1), "{purged:?}");
}

async fn closed_streams_are_purged(on: Engine) {
    let store = on.node().await;
    let closed = |id: &str, at: Timestamp| Stream {
        state: StreamState::Closed,
        updated_at: at,
        closed_at: Some(at),
        ..stream(id)
    };
    let ops = vec![
        create_stream(&closed("old", hours(0))),
        create_stream(&closed("young", hours(20))),
        create_stream(&stream("open")),
        event(stream_subject("old"), 1),
        event(stream_subject("young"), 1),
        event(stream_subject("open"), 1),
        put_blob(stream_subject("old"), &blob("1")),
        put_blob(stream_subject("open"), &blob("2")),
    ];
    store.commit(commit(ops)).await.unwrap();
    let purged = purge(&*store, ONE_DAY, hours(25)).await;
    assert_eq!((purged.streams, purged.blobs), (1, 1), "{purged:?}");
    assert_eq!(store.stream(&stream_id("old")).await.unwrap(), None);
    assert_eq!(event_log(&*store, &stream_subject("old")).await, []);
    for id in ["young", "open"] {
        assert!(store.stream(&stream_id(id)).await.unwrap().is_some());
        assert_eq!(
            event_log(&*store, &stream_subject(id)).await.len(),
            1,
            "{id}"
        );
    }
    purge(&*store, ONE_DAY, hours(1_000)).await;
    assert!(store.stream(&stream_id("open")).await.unwrap().is_some());
    assert_eq!(event_log(&*store, &stream_subject("open")).await.len(), 1);
}

async fn settle(store: &dyn Store, id: &str, what: DeliveryResult, now: Timestamp) {
    let claimed = store
        .claim_outbox(&outbox_claim(&web_channel(), now, now.plus(HOUR), 99))
        .await;
    assert!(claimed.unwrap().iter().any(|e| e.id == delivery_id(id)));
    let settled = store.settle_outbox(&delivery_id(id), 1, &what, now).await;
    assert!(settled.unwrap());
}

async fn delivered_entries_are_purged(on: Engine) {
    let store = on.node().await;
    store
        .commit(commit(vec![enqueue(&entry("old"))]))
        .await
        .unwrap();
    settle(&*store, "old", DeliveryResult::Delivered, hours(10)).await;
    let waiting = OutboxEntry {
        due_at: hours(900),
        ..entry("waiting")
    };
    store.commit(commit(vec![enqueue(&waiting)])).await.unwrap();
    assert_eq!(purge(&*store, ONE_DAY, hours(33)).await.outbox, 0);
    assert_eq!(purge(&*store, ONE_DAY, hours(35)).await.outbox, 1);
    assert_eq!(store.outbox_depth().await.unwrap(), (1, 0), "it waits");
    purge(&*store, ONE_DAY, hours(2_000)).await;
    let due = store
        .claim_outbox(&outbox_claim(&web_channel(), hours(2_000), hours(2_001), 9))
        .await;
    assert_eq!(due.unwrap().len(), 1, "undelivered, however old");
}

async fn dead_entries_are_purged_later(on: Engine) {
    let store = on.node().await;
    let retention = Retention {
        delivered: HOUR,
        ..ONE_DAY
    };
    store
        .commit(commit(vec![enqueue(&entry("dead"))]))
        .await
        .unwrap();
    let dead = DeliveryResult::Dead {
        error: "no".to_owned(),
    };
    settle(&*store, "dead", dead, hours(10)).await;
    assert_eq!(
        purge(&*store, retention, hours(33)).await,
        Purged::default()
    );
    assert_eq!(store.outbox_depth().await.unwrap(), (0, 1));
    assert_eq!(purge(&*store, retention, hours(35)).await.outbox, 1);
    assert_eq!(store.outbox_depth().await.unwrap(), (0, 0));
    assert!(
        !store
            .replay_outbox(&delivery_id("dead"), hours(35))
            .await
            .unwrap()
    );
}

async fn acknowledged_signals_are_purged(on: Engine) {
    let store = on.node().await;
    let ops = vec![
        subscribe(&subscription("a")),
        subscribe(&subscription("b")),
        publish("x", &["a", "b"]),
        publish("y", &["a"]),
    ];
    store.commit(commit(ops)).await.unwrap();
    let (a, b) = (sub_id("a"), sub_id("b"));
    let ids = [signal_id("x"), signal_id("y")];
    store.ack_signals(&a, &ids, hours(10)).await.unwrap();
    assert_eq!(purge(&*store, ONE_DAY, hours(33)).await, Purged::default());
    let again = store.ack_signals(&a, &ids, hours(34)).await.unwrap();
    assert_eq!(
        again,
        [AckOutcome::AlreadyAcknowledged; 2],
        "still remembered"
    );
    assert!(purge(&*store, ONE_DAY, hours(35)).await.signals > 0);
    let left = store.unacked_signals(&b, 0, 9).await.unwrap();
    assert_eq!(left.len(), 1, "b has not acknowledged it, however old");
    assert_eq!(left[0].signal.id, signal_id("x"));
    purge(&*store, ONE_DAY, hours(2_000)).await;
    assert_eq!(store.unacked_signals(&b, 0, 9).await.unwrap(), left);
    // Sequence numbers continue after their signals were purged.
    store
        .commit(commit(vec![publish("z", &["a"])]))
        .await
        .unwrap();
    let next = store.unacked_signals(&a, 0, 9).await.unwrap();
    assert_eq!(next[0].seq, 3);
}

async fn dead_signals_are_purged(on: Engine) {
    let store = on.node().await;
    let retention = Retention {
        delivered: HOUR,
        ..ONE_DAY
    };
    let ops = vec![subscribe(&subscription("a")), publish("x", &["a"])];
    store.commit(commit(ops)).await.unwrap();
    store
        .dead_letter_signal(&sub_id("a"), 1, hours(10))
        .await
        .unwrap();
    assert_eq!(
        purge(&*store, retention, hours(33)).await,
        Purged::default()
    );
    assert_eq!(store.dead_signals(9).await.unwrap().len(), 1);
    assert!(purge(&*store, retention, hours(35)).await.signals > 0);
    assert_eq!(store.dead_signals(9).await.unwrap(), []);
}

async fn ended_subscriptions_are_purged(on: Engine) {
    let store = on.node().await;
    let all = SubscriptionState::ALL.map(|state| subscription(state.name()));
    let pending = all.clone().map(|one| Subscription {
        state: SubscriptionState::Pending,
        ..one
    });
    let ops = pending.iter().map(subscribe).collect();
    store.commit(commit(ops)).await.unwrap();
    // They end long after they were created.
    let ops = pending
        .iter()
        .zip(SubscriptionState::ALL)
        .skip(1)
        .map(|(one, state)| update_subscription(&with_state(one, state)))
        .collect();
    store.commit(commit_at(hours(100), ops)).await.unwrap();
    let names = || async {
        let query = SubscriptionQuery {
            limit: 99,
            ..SubscriptionQuery::default()
        };
        let (mut all, _) = store.subscriptions(&query).await.unwrap();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all.iter().map(|one| one.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(purge(&*store, ONE_DAY, hours(123)).await, Purged::default());
    assert_eq!(purge(&*store, ONE_DAY, hours(125)).await.subscriptions, 3);
    assert_eq!(names().await, ["active", "pending"]);
    purge(&*store, ONE_DAY, hours(9_000)).await;
    assert_eq!(names().await, ["active", "pending"]);
}

async fn expired_keys_and_quotas_are_purged(on: Engine) {
    let store = on.node().await;
    let ops = vec![
        claim_key("old", "1", hours(1)),
        claim_key("young", "2", hours(3)),
    ];
    store.commit(commit(ops)).await.unwrap();
    let rate = Rate {
        limit: 2,
        window: HOUR,
    };
    store.charge("short", rate, 2, hours(0)).await.unwrap();
    store.charge("long", rate, 2, hours(2)).await.unwrap();
    // After an hour the first quota is full again: purging it changes nothing.
    let purged = purge(&*store, ONE_DAY, time_at(2 * 3_600_000 + 60_000)).await;
    assert_eq!(purged.expired, 2, "{purged:?}");
    let value = store.claimed_value("young", hours(2)).await.unwrap();
    assert_eq!(value.as_deref(), Some("2"));
    let charge = store.charge("long", rate, 2, hours(2)).await.unwrap();
    assert!(matches!(charge, Charge::Refused { .. }), "{charge:?}");
    let charge = store.charge("short", rate, 2, hours(2)).await.unwrap();
    assert_eq!(charge, Charge::Allowed { remaining: 0 });
}

async fn unreferenced_blobs_are_purged(on: Engine) {
    let store = on.node().await;
    let shared = blob("\"shared\"");
    for (id, at) in [("a", hours(0)), ("b", hours(10))] {
        create_finished_task(&*store, id, at).await;
        let ops = vec![put_blob(task_subject(id), &shared)];
        store.commit(commit(ops)).await.unwrap();
    }
    let is_stored = |blob: BlobId| {
        let store = store.clone();
        async move { store.blobs(&[blob]).await.unwrap().len() == 1 }
    };
    let only_of_a = blob("\"only of a\"").id;
    assert!(is_stored(only_of_a).await);
    let purged = purge(&*store, ONE_DAY, hours(25)).await;
    assert_eq!((purged.tasks, purged.blobs), (1, 1), "{purged:?}");
    assert!(!is_stored(only_of_a).await);
    assert!(is_stored(shared.id).await, "b needs it");
    let purged = purge(&*store, ONE_DAY, hours(35)).await;
    assert_eq!((purged.tasks, purged.blobs), (1, 2), "{purged:?}");
    assert!(!is_stored(shared.id).await);
    // It is stored again when it is put again.
    let ops = vec![put_blob(task_subject("c"), &shared), create(&task("c"))];
    store.commit(commit(ops)).await.unwrap();
    assert!(is_stored(shared.id).await);
}

async fn unfinished_data_is_not_purged(on: Engine) {
    let store = on.node().await;
    let blob = blob("\"needed\"");
    let ops = vec![
        claim_key("key", "taken", Timestamp::from_millis(i64::MAX)),
        create(&task("t")),
        message("t", 0, "hello"),
        artifact("t", "a", "made"),
        put_blob(task_subject("t"), &blob),
        event(task_subject("t"), 1),
        put_push(&push("t", "p")),
        enqueue_work("t"),
        create_stream(&stream("s")),
        event(stream_subject("s"), 1),
        enqueue(&entry("waiting")),
        subscribe(&subscription("x")),
        publish("signal", &["x"]),
    ];
    store.commit(commit(ops)).await.unwrap();
    // Leased, then retried and waiting: neither is settled.
    let leased = OutboxEntry {
        channel: "mail".to_owned(),
        ..entry("held")
    };
    store.commit(commit(vec![enqueue(&leased)])).await.unwrap();
    let mail = ["mail".to_owned()];
    store
        .claim_outbox(&outbox_claim(&mail, time_at(0), time_at(9), 9))
        .await
        .unwrap();
    let scope = SnapshotScope {
        tasks: &["t"],
        streams: &["s"],
        subscriptions: &["x"],
        keys: &["key"],
        blobs: &[blob.id],
    };
    let before = take_snapshot(&*store, &scope).await;
    let nothing = Retention {
        finished: Duration::ZERO,
        events: Duration::ZERO,
        delivered: Duration::ZERO,
        dead: Duration::ZERO,
        ended_subscriptions: Duration::ZERO,
        unfetched: Duration::MAX,
        requests: Duration::ZERO,
        max_requests: 0,
    };
    let purged = purge(
        &*store,
        nothing,
        Timestamp::from_millis(i64::MAX).minus(HOUR),
    )
    .await;
    assert_eq!(purged, Purged::default());
    store.optimize().await.unwrap();
    let after = take_snapshot(&*store, &scope).await;
    assert!(before == after, "\n{before}\nbecame\n{after}");
    on.expire_leases(&*store, hours(9)).await;
    let due = store
        .claim_outbox(&outbox_claim(&mail, hours(9), hours(10), 9))
        .await;
    assert_eq!(due.unwrap().len(), 1, "the leased entry is due again");
    // Unclaimed work is not lost either.
    assert_eq!(store.work_depth(hours(9_999)).await.unwrap(), (1, 0));
}

async fn purge_removes_limited_rows_per_step(on: Engine) {
    let store = on.node().await;
    for round in 0..6 {
        let mut ops = Vec::new();
        for number in 0..10 {
            let id = format!("{round}-{number}");
            ops.push(create(&finished(&task(&id), hours(0))));
            ops.extend((1..=4).map(|seq| event(task_subject(&id), seq)));
            ops.push(claim_key(&id, "", hours(0)));
        }
        store.commit(commit(ops)).await.unwrap();
    }
    let (mut steps, mut tasks) = (0, 0);
    loop {
        let some = store.purge(&ONE_DAY, hours(48), 20).await.unwrap();
        if some.total() == 0 {
            break;
        }
        assert!(some.total() <= 60, "at most about 20: {some:?}");
        tasks += some.tasks;
        steps += 1;
        assert!(steps < 1_000);
    }
    assert_eq!(tasks, 60);
    assert!(steps >= 4, "{steps}");
    let left = store
        .count_tasks(&crate::builders::all_tasks())
        .await
        .unwrap();
    assert_eq!(left, 0);
}

async fn purge_runs_concurrently_with_writers(on: Engine) {
    let nodes = on.two_nodes().await;
    let mut working = tokio::task::JoinSet::new();
    for writer in 0..4 {
        let node = nodes[writer % 2].clone();
        working.spawn(async move {
            for number in 0..15 {
                let (old, new) = (
                    format!("old {writer}-{number}"),
                    format!("new {writer}-{number}"),
                );
                let shared = blob(&format!("\"shared {}\"", number % 3));
                create_finished_task(&*node, &old, hours(0)).await;
                let ops = vec![
                    create(&task(&new)),
                    event(task_subject(&new), 1),
                    put_blob(task_subject(&new), &shared),
                    put_blob(task_subject(&old), &shared),
                    Op::DequeueWork(task_id(&old)),
                ];
                node.commit(commit(ops)).await.unwrap();
            }
        });
    }
    for node in nodes.clone() {
        working.spawn(async move {
            for _ in 0..20 {
                node.purge(&ONE_DAY, hours(48), 50).await.unwrap();
                node.optimize().await.unwrap();
                node.check().await.unwrap();
            }
        });
    }
    working.join_all().await;
    purge(&*nodes[0], ONE_DAY, hours(48)).await;
    let left = nodes[0].tasks(&crate::builders::all_tasks()).await.unwrap();
    assert_eq!(left.len(), 60);
    for task in left {
        assert!(task.id.as_str().starts_with("new"), "{}", task.id);
    }
    let shared: Vec<_> = (0..3)
        .map(|n| blob(&format!("\"shared {n}\"")).id)
        .collect();
    let stored = nodes[1].blobs(&shared).await.unwrap();
    assert_eq!(stored.len(), 3, "the new ones need them");
}
