//! Retention: what is finished goes when its time is over, in small steps, and nothing else does.

use crate::engine::Engine;
use crate::make::{
    artifact, at, becoming, blob, carry_wish, change, commit, commit_at, create, create_stream,
    delivery_id, enqueue, entry, event, finished, key, message, of_stream, of_task, publish, push,
    put_blob, put_push, queue, signal_id, stream, stream_id, sub_id, subscribe, subscription, task,
    task_id, update, web,
};
use crate::snapshot::{Eyes, log, look};
use interzone_hub::ports::{Op, Store, SubscriptionQuery};
use interzone_hub::{
    Acked, BlobId, Charge, OutboxEntry, Purged, Rate, Retention, Settlement, Stream, Subscription,
    SubscriptionState,
};
use interzone_protocol::vocab::{StreamState, Timestamp};
use std::time::Duration;

contract!(
    removes_finished_tasks_whole,
    removes_events_before_tasks,
    removes_closed_streams,
    removes_what_was_delivered,
    removes_the_dead_later,
    removes_what_was_acknowledged,
    removes_what_was_given_up,
    removes_subscriptions_that_ended,
    removes_claims_and_quotas_that_expired,
    removes_blobs_that_nobody_needs,
    leaves_alone_what_is_not_finished,
    goes_in_small_steps,
    disturbs_nobody,
);

const HOUR: Duration = Duration::from_secs(3_600);

/// A day for everything, so that a test can shorten one.
const KEEP: Retention = Retention {
    finished: HOUR.saturating_mul(24),
    events: HOUR.saturating_mul(24),
    delivered: HOUR.saturating_mul(24),
    dead: HOUR.saturating_mul(24),
    ended_subscriptions: HOUR.saturating_mul(24),
    unfetched: Duration::MAX,
    pairs: HOUR.saturating_mul(24),
    most_pairs: 1_000,
};

fn hours(count: i64) -> Timestamp {
    at(count * 3_600_000)
}

/// Purges until nothing more goes.
async fn purge(store: &dyn Store, keep: Retention, now: Timestamp) -> Purged {
    let mut all = Purged::default();
    loop {
        let some = store.purge(&keep, now, 1_000).await.unwrap();
        if some.total() == 0 {
            return all;
        }
        all.tasks += some.tasks;
        all.streams += some.streams;
        all.events += some.events;
        all.outbox += some.outbox;
        all.signals += some.signals;
        all.subscriptions += some.subscriptions;
        all.claims += some.claims;
        all.blobs += some.blobs;
        assert!(all.total() < 100_000, "a purge that never ends");
    }
}

/// A task with something of everything, finished at this moment.
async fn finish(store: &dyn Store, id: &str, at: Timestamp) {
    let open = task(id);
    let ops = vec![
        create(&open),
        message(id, 0, "hello"),
        artifact(id, "a", "made"),
        put_push(&push(id, "p")),
        event(of_task(id), 1),
        event(of_task(id), 2),
        put_blob(of_task(id), &blob(&format!("\"only of {id}\""))),
    ];
    store.commit(commit(ops)).await.unwrap();
    let ops = vec![update(&finished(&open, at)), event(of_task(id), 3)];
    store.commit(commit_at(at, ops)).await.unwrap();
}

async fn removes_finished_tasks_whole(on: Engine) {
    let store = on.node().await;
    finish(&*store, "old", hours(0)).await;
    finish(&*store, "young", hours(20)).await;
    let purged = purge(&*store, KEEP, hours(23)).await;
    assert_eq!(purged, Purged::default(), "nothing is old enough");
    let purged = purge(&*store, KEEP, hours(25)).await;
    assert_eq!((purged.tasks, purged.blobs), (1, 1), "{purged:?}");
    let id = task_id("old");
    assert_eq!(store.task(&id).await.unwrap(), None);
    assert_eq!(store.messages(&id, 0..9).await.unwrap(), []);
    assert_eq!(store.artifacts(&id).await.unwrap(), []);
    assert_eq!(store.pushes(&id).await.unwrap(), []);
    assert_eq!(log(&*store, &of_task("old")).await, []);
    let young = task_id("young");
    assert!(store.task(&young).await.unwrap().is_some());
    assert_eq!(store.messages(&young, 0..9).await.unwrap().len(), 1);
    assert_eq!(store.artifacts(&young).await.unwrap().len(), 1);
    assert_eq!(store.pushes(&young).await.unwrap().len(), 1);
    assert_eq!(log(&*store, &of_task("young")).await.len(), 3);
    // Its id is free again, and nothing of before hangs on it.
    let ops = vec![create(&task("old")), event(of_task("old"), 1)];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.messages(&id, 0..9).await.unwrap(), []);
    assert_eq!(log(&*store, &of_task("old")).await.len(), 1);
}

async fn removes_events_before_tasks(on: Engine) {
    let store = on.node().await;
    let keep = Retention {
        events: HOUR,
        ..KEEP
    };
    finish(&*store, "t", hours(0)).await;
    let ops = vec![create(&task("open")), event(of_task("open"), 1)];
    store.commit(commit(ops)).await.unwrap();
    let purged = purge(&*store, keep, hours(2)).await;
    assert_eq!((purged.events, purged.tasks), (3, 0), "{purged:?}");
    assert_eq!(log(&*store, &of_task("t")).await, []);
    assert!(store.task(&task_id("t")).await.unwrap().is_some());
    let messages = store.messages(&task_id("t"), 0..9).await.unwrap();
    assert_eq!(messages.len(), 1, "the rest stays");
    let kept = log(&*store, &of_task("open")).await;
    assert_eq!(kept.len(), 1, "it is not finished, however old");
    let purged = purge(&*store, keep, hours(25)).await;
    assert_eq!((purged.events, purged.tasks), (0, 1), "{purged:?}");
}

async fn removes_closed_streams(on: Engine) {
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
        event(of_stream("old"), 1),
        event(of_stream("young"), 1),
        event(of_stream("open"), 1),
        put_blob(of_stream("old"), &blob("1")),
        put_blob(of_stream("open"), &blob("2")),
    ];
    store.commit(commit(ops)).await.unwrap();
    let purged = purge(&*store, KEEP, hours(25)).await;
    assert_eq!((purged.streams, purged.blobs), (1, 1), "{purged:?}");
    assert_eq!(store.stream(&stream_id("old")).await.unwrap(), None);
    assert_eq!(log(&*store, &of_stream("old")).await, []);
    for id in ["young", "open"] {
        assert!(store.stream(&stream_id(id)).await.unwrap().is_some());
        assert_eq!(log(&*store, &of_stream(id)).await.len(), 1, "{id}");
    }
    purge(&*store, KEEP, hours(1_000)).await;
    assert!(store.stream(&stream_id("open")).await.unwrap().is_some());
    assert_eq!(log(&*store, &of_stream("open")).await.len(), 1);
}

async fn settle(store: &dyn Store, id: &str, what: Settlement, now: Timestamp) {
    let claimed = store
        .claim_outbox(&carry_wish(&web(), now, now.after(HOUR), 99))
        .await;
    assert!(claimed.unwrap().iter().any(|e| e.id == delivery_id(id)));
    let settled = store.settle_outbox(&delivery_id(id), 1, &what, now).await;
    assert!(settled.unwrap());
}

async fn removes_what_was_delivered(on: Engine) {
    let store = on.node().await;
    store
        .commit(commit(vec![enqueue(&entry("old"))]))
        .await
        .unwrap();
    settle(&*store, "old", Settlement::Delivered, hours(10)).await;
    let waiting = OutboxEntry {
        due_at: hours(900),
        ..entry("waiting")
    };
    store.commit(commit(vec![enqueue(&waiting)])).await.unwrap();
    assert_eq!(purge(&*store, KEEP, hours(33)).await.outbox, 0);
    assert_eq!(purge(&*store, KEEP, hours(35)).await.outbox, 1);
    assert_eq!(store.outbox_depth().await.unwrap(), (1, 0), "it waits");
    purge(&*store, KEEP, hours(2_000)).await;
    let due = store
        .claim_outbox(&carry_wish(&web(), hours(2_000), hours(2_001), 9))
        .await;
    assert_eq!(due.unwrap().len(), 1, "undelivered, however old");
}

async fn removes_the_dead_later(on: Engine) {
    let store = on.node().await;
    let keep = Retention {
        delivered: HOUR,
        ..KEEP
    };
    store
        .commit(commit(vec![enqueue(&entry("dead"))]))
        .await
        .unwrap();
    let dead = Settlement::Dead {
        error: "no".to_owned(),
    };
    settle(&*store, "dead", dead, hours(10)).await;
    assert_eq!(purge(&*store, keep, hours(33)).await, Purged::default());
    assert_eq!(store.outbox_depth().await.unwrap(), (0, 1));
    assert_eq!(purge(&*store, keep, hours(35)).await.outbox, 1);
    assert_eq!(store.outbox_depth().await.unwrap(), (0, 0));
    assert!(
        !store
            .replay_outbox(&delivery_id("dead"), hours(35))
            .await
            .unwrap()
    );
}

async fn removes_what_was_acknowledged(on: Engine) {
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
    assert_eq!(purge(&*store, KEEP, hours(33)).await, Purged::default());
    let again = store.ack_signals(&a, &ids, hours(34)).await.unwrap();
    assert_eq!(again, [Acked::Before; 2], "still remembered");
    assert!(purge(&*store, KEEP, hours(35)).await.signals > 0);
    let left = store.unacked_signals(&b, 0, 9).await.unwrap();
    assert_eq!(left.len(), 1, "b has not acknowledged it, however old");
    assert_eq!(left[0].signal.id, signal_id("x"));
    purge(&*store, KEEP, hours(2_000)).await;
    assert_eq!(store.unacked_signals(&b, 0, 9).await.unwrap(), left);
    // Numbers go on where they were, though what had them is gone.
    store
        .commit(commit(vec![publish("z", &["a"])]))
        .await
        .unwrap();
    let next = store.unacked_signals(&a, 0, 9).await.unwrap();
    assert_eq!(next[0].seq, 3);
}

async fn removes_what_was_given_up(on: Engine) {
    let store = on.node().await;
    let keep = Retention {
        delivered: HOUR,
        ..KEEP
    };
    let ops = vec![subscribe(&subscription("a")), publish("x", &["a"])];
    store.commit(commit(ops)).await.unwrap();
    store.bury_signal(&sub_id("a"), 1, hours(10)).await.unwrap();
    assert_eq!(purge(&*store, keep, hours(33)).await, Purged::default());
    assert_eq!(store.buried_signals(9).await.unwrap().len(), 1);
    assert!(purge(&*store, keep, hours(35)).await.signals > 0);
    assert_eq!(store.buried_signals(9).await.unwrap(), []);
}

async fn removes_subscriptions_that_ended(on: Engine) {
    let store = on.node().await;
    let all = SubscriptionState::ALL.map(|state| subscription(state.name()));
    let pending = all.clone().map(|one| Subscription {
        state: SubscriptionState::Pending,
        ..one
    });
    let ops = pending.iter().map(subscribe).collect();
    store.commit(commit(ops)).await.unwrap();
    // Long after they were asked for, they end.
    let ops = pending
        .iter()
        .zip(SubscriptionState::ALL)
        .skip(1)
        .map(|(one, state)| change(&becoming(one, state)))
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
    assert_eq!(purge(&*store, KEEP, hours(123)).await, Purged::default());
    assert_eq!(purge(&*store, KEEP, hours(125)).await.subscriptions, 3);
    assert_eq!(names().await, ["active", "pending"]);
    purge(&*store, KEEP, hours(9_000)).await;
    assert_eq!(names().await, ["active", "pending"]);
}

async fn removes_claims_and_quotas_that_expired(on: Engine) {
    let store = on.node().await;
    let ops = vec![key("old", "1", hours(1)), key("young", "2", hours(3))];
    store.commit(commit(ops)).await.unwrap();
    let rate = Rate {
        limit: 2,
        window: HOUR,
    };
    store.charge("short", rate, 2, hours(0)).await.unwrap();
    store.charge("long", rate, 2, hours(2)).await.unwrap();
    // After an hour the first quota is full again: forgetting it changes nothing.
    let purged = purge(&*store, KEEP, at(2 * 3_600_000 + 60_000)).await;
    assert_eq!(purged.claims, 2, "{purged:?}");
    let value = store.claimed("young", hours(2)).await.unwrap();
    assert_eq!(value.as_deref(), Some("2"));
    let charge = store.charge("long", rate, 2, hours(2)).await.unwrap();
    assert!(matches!(charge, Charge::Refused { .. }), "{charge:?}");
    let charge = store.charge("short", rate, 2, hours(2)).await.unwrap();
    assert_eq!(charge, Charge::Allowed { left: 0 });
}

async fn removes_blobs_that_nobody_needs(on: Engine) {
    let store = on.node().await;
    let shared = blob("\"shared\"");
    for (id, at) in [("a", hours(0)), ("b", hours(10))] {
        finish(&*store, id, at).await;
        let ops = vec![put_blob(of_task(id), &shared)];
        store.commit(commit(ops)).await.unwrap();
    }
    let known = |blob: BlobId| {
        let store = store.clone();
        async move { store.blobs(&[blob]).await.unwrap().len() == 1 }
    };
    let only_of_a = blob("\"only of a\"").id;
    assert!(known(only_of_a).await);
    let purged = purge(&*store, KEEP, hours(25)).await;
    assert_eq!((purged.tasks, purged.blobs), (1, 1), "{purged:?}");
    assert!(!known(only_of_a).await);
    assert!(known(shared.id).await, "b needs it");
    let purged = purge(&*store, KEEP, hours(35)).await;
    assert_eq!((purged.tasks, purged.blobs), (1, 2), "{purged:?}");
    assert!(!known(shared.id).await);
    // It comes back when somebody puts it again.
    let ops = vec![put_blob(of_task("c"), &shared), create(&task("c"))];
    store.commit(commit(ops)).await.unwrap();
    assert!(known(shared.id).await);
}

async fn leaves_alone_what_is_not_finished(on: Engine) {
    let store = on.node().await;
    let blob = blob("\"needed\"");
    let ops = vec![
        key("key", "taken", Timestamp::from_millis(i64::MAX)),
        create(&task("t")),
        message("t", 0, "hello"),
        artifact("t", "a", "made"),
        put_blob(of_task("t"), &blob),
        event(of_task("t"), 1),
        put_push(&push("t", "p")),
        queue("t"),
        create_stream(&stream("s")),
        event(of_stream("s"), 1),
        enqueue(&entry("waiting")),
        subscribe(&subscription("x")),
        publish("signal", &["x"]),
    ];
    store.commit(commit(ops)).await.unwrap();
    // Held, then tried and waiting: neither is settled.
    let held = OutboxEntry {
        channel: "mail".to_owned(),
        ..entry("held")
    };
    store.commit(commit(vec![enqueue(&held)])).await.unwrap();
    let mail = ["mail".to_owned()];
    store
        .claim_outbox(&carry_wish(&mail, at(0), at(9), 9))
        .await
        .unwrap();
    let eyes = Eyes {
        tasks: &["t"],
        streams: &["s"],
        subscriptions: &["x"],
        keys: &["key"],
        blobs: &[blob.id],
    };
    let before = look(&*store, &eyes).await;
    let nothing = Retention {
        finished: Duration::ZERO,
        events: Duration::ZERO,
        delivered: Duration::ZERO,
        dead: Duration::ZERO,
        ended_subscriptions: Duration::ZERO,
        unfetched: Duration::MAX,
        pairs: Duration::ZERO,
        most_pairs: 0,
    };
    let purged = purge(
        &*store,
        nothing,
        Timestamp::from_millis(i64::MAX).before(HOUR),
    )
    .await;
    assert_eq!(purged, Purged::default());
    store.tidy_up().await.unwrap();
    let after = look(&*store, &eyes).await;
    assert!(before == after, "\n{before}\nbecame\n{after}");
    on.end_leases(&*store, hours(9)).await;
    let due = store
        .claim_outbox(&carry_wish(&mail, hours(9), hours(10), 9))
        .await;
    assert_eq!(due.unwrap().len(), 1, "what was held is due again");
    // Work that nobody does is not lost either.
    assert_eq!(store.work_depth(hours(9_999)).await.unwrap(), (1, 0));
}

async fn goes_in_small_steps(on: Engine) {
    let store = on.node().await;
    for round in 0..6 {
        let mut ops = Vec::new();
        for number in 0..10 {
            let id = format!("{round}-{number}");
            ops.push(create(&finished(&task(&id), hours(0))));
            ops.extend((1..=4).map(|seq| event(of_task(&id), seq)));
            ops.push(key(&id, "", hours(0)));
        }
        store.commit(commit(ops)).await.unwrap();
    }
    let (mut steps, mut tasks) = (0, 0);
    loop {
        let some = store.purge(&KEEP, hours(48), 20).await.unwrap();
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
    let left = store.count_tasks(&crate::make::all_tasks()).await.unwrap();
    assert_eq!(left, 0);
}

async fn disturbs_nobody(on: Engine) {
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
                finish(&*node, &old, hours(0)).await;
                let ops = vec![
                    create(&task(&new)),
                    event(of_task(&new), 1),
                    put_blob(of_task(&new), &shared),
                    put_blob(of_task(&old), &shared),
                    Op::EndWork(task_id(&old)),
                ];
                node.commit(commit(ops)).await.unwrap();
            }
        });
    }
    for node in nodes.clone() {
        working.spawn(async move {
            for _ in 0..20 {
                node.purge(&KEEP, hours(48), 50).await.unwrap();
                node.tidy_up().await.unwrap();
                node.check().await.unwrap();
            }
        });
    }
    working.join_all().await;
    purge(&*nodes[0], KEEP, hours(48)).await;
    let left = nodes[0].tasks(&crate::make::all_tasks()).await.unwrap();
    assert_eq!(left.len(), 60);
    for task in left {
        assert!(task.id.as_str().starts_with("new"), "{}", task.id);
    }
    let shared: Vec<_> = (0..3)
        .map(|n| blob(&format!("\"shared {n}\"")).id)
        .collect();
    let known = nodes[1].blobs(&shared).await.unwrap();
    assert_eq!(known.len(), 3, "the new ones need them");
}
