//! Signals: numbered per subscription, due until acknowledged or dead-lettered.

use crate::builders::{
    commit, commit_at, json, long_after, millis, owner, publish, signal, signal_id, sub_id,
    subscribe, subscription, task_subject, time_at, update_subscription, with_state,
};
use crate::engine::Engine;
use interzone_hub::ports::{Op, Store};
use interzone_hub::{AckOutcome, Signal, SignalBody, SignalDelivery, SubscriptionState};
use interzone_protocol::vocab::Topic;
use std::collections::HashMap;
use std::time::Duration;

contract_tests!(
    signal_is_delivered_unchanged,
    signal_reaches_existing_subscriptions,
    unacked_signal_is_due_after_attempt_delay,
    signals_are_claimed_in_order_up_to_limit,
    signals_are_listed_until_acknowledged,
    signals_are_acknowledged_by_id,
    signals_with_same_id_are_acknowledged_together,
    dead_signals_are_never_due,
    subscriptions_due_lists_those_with_due_signals,
    concurrent_publishers_leave_no_seq_gap,
    concurrent_signal_claims_do_not_overlap,
);

const WAITS: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(40),
];

async fn claim(store: &dyn Store, id: &str, now: i64, limit: usize) -> Vec<SignalDelivery> {
    store
        .claim_signals(&sub_id(id), time_at(now), &WAITS, limit)
        .await
        .unwrap()
}

async fn unacked(store: &dyn Store, id: &str) -> Vec<u64> {
    let all = store.unacked_signals(&sub_id(id), 0, 1_000).await.unwrap();
    seqs(&all)
}

fn seqs(deliveries: &[SignalDelivery]) -> Vec<u64> {
    deliveries.iter().map(|delivery| delivery.seq).collect()
}

async fn ack(store: &dyn Store, id: &str, signals: &[&str]) -> Vec<AckOutcome> {
    let signals: Vec<_> = signals.iter().map(|id| signal_id(id)).collect();
    store
        .ack_signals(&sub_id(id), &signals, time_at(5))
        .await
        .unwrap()
}

/// Creates a subscription `s` with signals of these ids.
async fn create_signals(store: &dyn Store, signals: &[&str]) {
    let mut ops = vec![subscribe(&subscription("s"))];
    ops.extend(signals.iter().map(|id| publish(id, &["s"])));
    store.commit(commit(ops)).await.unwrap();
}

async fn signal_is_delivered_unchanged(on: Engine) {
    let store = on.node().await;
    create_signals(&*store, &[]).await;
    let signals = [
        signal("plain"),
        Signal {
            topic: Topic::new("x.y-z._").unwrap(),
            publisher: owner("other-publisher"),
            at: time_at(-7),
            body: SignalBody::Sent(json("[ 1 , 1.00 ]")),
            ..signal("sent")
        },
        Signal {
            body: SignalBody::Event(task_subject("t"), 42),
            ..signal("event")
        },
        Signal {
            body: SignalBody::Event(crate::builders::stream_subject("s"), 1),
            ..signal("stream event")
        },
    ];
    for signal in &signals {
        let op = Op::Publish {
            signal: Box::new(signal.clone()),
            to: vec![sub_id("s")],
        };
        store.commit(commit(vec![op])).await.unwrap();
    }
    let delivery = |attempt| {
        (1..)
            .zip(signals.clone())
            .map(move |(seq, signal)| SignalDelivery {
                subscription_id: sub_id("s"),
                seq,
                attempt,
                signal,
            })
    };
    let id = sub_id("s");
    let all = store.unacked_signals(&id, 0, 9).await.unwrap();
    assert_eq!(all, delivery(0).collect::<Vec<_>>(), "not yet claimed");
    let all = claim(&*store, "s", 0, 9).await;
    assert_eq!(all, delivery(1).collect::<Vec<_>>());
    let all = store.unacked_signals(&id, 0, 9).await.unwrap();
    assert_eq!(all, delivery(1).collect::<Vec<_>>());
}

async fn signal_reaches_existing_subscriptions(on: Engine) {
    let store = on.node().await;
    let mut ops = vec![publish("early", &["a", "b"])];
    ops.push(subscribe(&subscription("a")));
    ops.push(subscribe(&subscription("b")));
    ops.push(publish("x", &["a", "none", "b"]));
    ops.push(publish("y", &["b"]));
    ops.push(publish("no receivers", &[]));
    ops.push(publish("unknown receiver", &["none"]));
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(unacked(&*store, "a").await, [1]);
    assert_eq!(unacked(&*store, "b").await, [1, 2]);
    assert_eq!(unacked(&*store, "none").await, [0; 0]);
    assert_eq!(claim(&*store, "none", 0, 9).await, []);
    // The receivers are the hub's decision; the store only checks that they exist.
    let paused = with_state(&subscription("a"), SubscriptionState::Revoked);
    let ops = vec![update_subscription(&paused), publish("z", &["a"])];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(unacked(&*store, "a").await, [1, 2]);
    let ops = vec![Op::RemoveSubscription(sub_id("b"))];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(unacked(&*store, "b").await, [0; 0]);
    assert_eq!(claim(&*store, "b", 0, 9).await, []);
    assert_eq!(
        unacked(&*store, "a").await,
        [1, 2],
        "the other keeps its own"
    );
}

async fn unacked_signal_is_due_after_attempt_delay(on: Engine) {
    let store = on.node().await;
    create_signals(&*store, &["x"]).await;
    let mut now = 0;
    for (attempt, wait) in [(1, 10), (2, 20), (3, 40), (4, 40), (5, 40)] {
        let claimed = claim(&*store, "s", now, 9).await;
        assert_eq!(claimed.len(), 1, "due at {now}");
        assert_eq!((claimed[0].attempt, claimed[0].seq), (attempt, 1));
        let too_early = claim(&*store, "s", now + wait - 1, 9).await;
        assert_eq!(too_early, [], "attempt {attempt}");
        now += wait;
    }
    assert_eq!(
        store
            .claim_signals(&sub_id("s"), time_at(now), &[millis(5)], 9)
            .await
            .unwrap()[0]
            .attempt,
        6
    );
    assert_eq!(claim(&*store, "s", now + 5, 9).await[0].attempt, 7);
}

async fn signals_are_claimed_in_order_up_to_limit(on: Engine) {
    let store = on.node().await;
    create_signals(&*store, &["a", "b", "c", "d", "e"]).await;
    assert_eq!(claim(&*store, "s", 0, 0).await, []);
    assert_eq!(seqs(&claim(&*store, "s", 0, 2).await), [1, 2]);
    assert_eq!(seqs(&claim(&*store, "s", 5, 2).await), [3, 4]);
    assert_eq!(seqs(&claim(&*store, "s", 9, 9).await), [5]);
    // The first two are due again, by the clock; then all, in their order.
    assert_eq!(seqs(&claim(&*store, "s", 10, 9).await), [1, 2]);
    assert_eq!(seqs(&claim(&*store, "s", 1_000, 9).await), [1, 2, 3, 4, 5]);
    // Published long after, due at once.
    let ops = vec![publish("f", &["s"])];
    store.commit(commit_at(time_at(1_000), ops)).await.unwrap();
    assert_eq!(seqs(&claim(&*store, "s", 1_000, 9).await), [6]);
}

async fn signals_are_listed_until_acknowledged(on: Engine) {
    let store = on.node().await;
    create_signals(&*store, &["a", "b", "c", "d", "e"]).await;
    claim(&*store, "s", 0, 2).await;
    let id = sub_id("s");
    for (after, limit, expected) in [
        (0, 9, &[1, 2, 3, 4, 5][..]),
        (0, 2, &[1, 2]),
        (2, 2, &[3, 4]),
        (4, 9, &[5]),
        (5, 9, &[]),
        (u64::MAX, 9, &[]),
        (0, 0, &[]),
    ] {
        let page = store.unacked_signals(&id, after, limit).await.unwrap();
        assert_eq!(seqs(&page), expected, "{after} {limit}");
    }
    assert_eq!(
        ack(&*store, "s", &["b", "d"]).await,
        [AckOutcome::Acknowledged; 2]
    );
    store.dead_letter_signal(&id, 3, time_at(0)).await.unwrap();
    assert_eq!(unacked(&*store, "s").await, [1, 5]);
    let page = store.unacked_signals(&id, 1, 1).await.unwrap();
    assert_eq!(seqs(&page), [5]);
    // Listing is not claiming.
    assert_eq!(seqs(&claim(&*store, "s", 0, 9).await), [5]);
}

async fn signals_are_acknowledged_by_id(on: Engine) {
    let store = on.node().await;
    create_signals(&*store, &["a", "b", "c"]).await;
    let ops = vec![subscribe(&subscription("r")), publish("b", &["r"])];
    store.commit(commit(ops)).await.unwrap();
    claim(&*store, "s", 0, 1).await;
    assert_eq!(ack(&*store, "s", &[]).await, []);
    let all = ack(&*store, "s", &["none", "b", "a", "A"]).await;
    assert_eq!(
        all,
        [
            AckOutcome::Unknown,
            AckOutcome::Acknowledged,
            AckOutcome::Acknowledged,
            AckOutcome::Unknown
        ]
    );
    let again = ack(&*store, "s", &["c", "a", "b"]).await;
    assert_eq!(
        again,
        [
            AckOutcome::Acknowledged,
            AckOutcome::AlreadyAcknowledged,
            AckOutcome::AlreadyAcknowledged
        ]
    );
    assert_eq!(
        ack(&*store, "s", &["c"]).await,
        [AckOutcome::AlreadyAcknowledged]
    );
    assert_eq!(unacked(&*store, "s").await, [0; 0]);
    assert_eq!(claim(&*store, "s", 10_000, 9).await, [], "claimed or not");
    assert_eq!(unacked(&*store, "r").await, [1], "the other's is its own");
    assert_eq!(ack(&*store, "r", &["a"]).await, [AckOutcome::Unknown]);
    assert_eq!(ack(&*store, "r", &["b"]).await, [AckOutcome::Acknowledged]);
}

async fn signals_with_same_id_are_acknowledged_together(on: Engine) {
    let store = on.node().await;
    create_signals(&*store, &["x", "y", "x"]).await;
    assert_eq!(unacked(&*store, "s").await, [1, 2, 3]);
    assert_eq!(ack(&*store, "s", &["x"]).await, [AckOutcome::Acknowledged]);
    assert_eq!(unacked(&*store, "s").await, [2]);
    assert_eq!(
        ack(&*store, "s", &["x"]).await,
        [AckOutcome::AlreadyAcknowledged]
    );
    store
        .commit(commit(vec![publish("x", &["s"])]))
        .await
        .unwrap();
    assert_eq!(unacked(&*store, "s").await, [2, 4]);
    assert_eq!(seqs(&claim(&*store, "s", 0, 9).await), [2, 4]);
    assert_eq!(
        ack(&*store, "s", &["x"]).await,
        [AckOutcome::Acknowledged],
        "this one was due"
    );
    assert_eq!(unacked(&*store, "s").await, [2]);
}

async fn dead_signals_are_never_due(on: Engine) {
    let store = on.node().await;
    create_signals(&*store, &["a", "b", "c"]).await;
    let ops = vec![subscribe(&subscription("r")), publish("d", &["r"])];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.dead_signals(9).await.unwrap(), []);
    claim(&*store, "s", 0, 9).await;
    claim(&*store, "s", 10, 9).await;
    for (now, (id, seq)) in (20..).zip([("s", 2), ("r", 1), ("s", 1)]) {
        store
            .dead_letter_signal(&sub_id(id), seq, time_at(now))
            .await
            .unwrap();
    }
    let dead = store.dead_signals(9).await.unwrap();
    let shown: Vec<_> = dead
        .iter()
        .map(|d| {
            (
                d.subscription_id.as_str(),
                d.seq,
                d.attempt,
                d.signal.id.as_str(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [("s", 1, 2, "a"), ("r", 1, 0, "d"), ("s", 2, 2, "b")]
    );
    assert_eq!(dead[0].signal, signal("a"));
    assert_eq!(store.dead_signals(1).await.unwrap(), dead[..1]);
    assert_eq!(store.dead_signals(0).await.unwrap(), []);
    assert_eq!(seqs(&claim(&*store, "s", 90_000, 9).await), [3]);
    assert_eq!(unacked(&*store, "s").await, [3]);
    assert_eq!(claim(&*store, "r", 90_000, 9).await, []);
    // The next sequence number follows the last, dead or not.
    store
        .commit(commit(vec![publish("e", &["r"])]))
        .await
        .unwrap();
    assert_eq!(unacked(&*store, "r").await, [2]);
}

async fn subscriptions_due_lists_those_with_due_signals(on: Engine) {
    let store = on.node().await;
    let due = |now: i64, limit: usize| {
        let store = store.clone();
        async move {
            let mut ids = store.subscriptions_due(time_at(now), limit).await.unwrap();
            ids.sort();
            ids.iter().map(ToString::to_string).collect::<Vec<_>>()
        }
    };
    assert!(due(0, 9).await.is_empty());
    let mut ops: Vec<_> = ["a", "b", "c", "idle"]
        .map(|id| subscribe(&subscription(id)))
        .into();
    ops.push(publish("x", &["a", "b", "c"]));
    ops.push(publish("y", &["a", "b", "c"]));
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(due(0, 9).await, ["a", "b", "c"], "each once");
    assert_eq!(due(0, 2).await.len(), 2);
    assert!(due(0, 0).await.is_empty());
    claim(&*store, "a", 0, 9).await;
    claim(&*store, "b", 0, 1).await;
    assert_eq!(due(9, 9).await, ["b", "c"], "b has one more");
    assert_eq!(due(10, 9).await, ["a", "b", "c"], "a's are due again");
    ack(&*store, "a", &["x", "y"]).await;
    store
        .dead_letter_signal(&sub_id("c"), 1, time_at(0))
        .await
        .unwrap();
    assert_eq!(due(10, 9).await, ["b", "c"]);
    store
        .dead_letter_signal(&sub_id("c"), 2, time_at(0))
        .await
        .unwrap();
    let ops = vec![Op::RemoveSubscription(sub_id("b"))];
    store.commit(commit(ops)).await.unwrap();
    let none = store.subscriptions_due(long_after(), 9).await.unwrap();
    assert_eq!(none, []);
}

async fn concurrent_publishers_leave_no_seq_gap(on: Engine) {
    let nodes = on.two_nodes().await;
    let all = ["a", "b", "c"];
    let ops = all.map(|id| subscribe(&subscription(id))).into();
    nodes[0].commit(commit(ops)).await.unwrap();
    let mut publishers = tokio::task::JoinSet::new();
    for name in 0..8_usize {
        let node = nodes[name % 2].clone();
        publishers.spawn(async move {
            for number in 0..20 {
                // The receivers in a different order each time: that must not deadlock.
                let mut to = vec!["a", "b", "c"];
                to.rotate_left((name + number) % 3);
                let ops = vec![
                    publish(&format!("{name}-{number:02}"), &to),
                    publish(&format!("{name}-{number:02}-again"), &to[..1]),
                ];
                node.commit(commit(ops)).await.unwrap();
            }
        });
    }
    // A concurrent reader sees no gap either.
    let reader = nodes[1].clone();
    let reading = tokio::spawn(async move {
        let mut after = 0;
        while after < 160 {
            let page = reader
                .unacked_signals(&sub_id("a"), after, 7)
                .await
                .unwrap();
            for delivery in page {
                assert_eq!(delivery.seq, after + 1);
                after = delivery.seq;
            }
            tokio::task::yield_now().await;
        }
    });
    publishers.join_all().await;
    reading.await.unwrap();
    let mut again = 0;
    for id in all {
        let deliveries = nodes[0]
            .unacked_signals(&sub_id(id), 0, 1_000)
            .await
            .unwrap();
        let count = deliveries.len() as u64;
        assert_eq!(seqs(&deliveries), (1..=count).collect::<Vec<_>>());
        again += deliveries.len() - 160;
        // Each publisher's own signals are in its own order.
        let mut last: HashMap<String, String> = HashMap::new();
        for delivery in deliveries {
            let id = delivery.signal.id.to_string();
            let (name, number) = id.split_once('-').unwrap();
            if let Some(before) = last.insert(name.to_owned(), number.to_owned()) {
                assert!(*before < *number, "{before} before {number}");
            }
        }
    }
    assert_eq!(again, 160);
}

async fn concurrent_signal_claims_do_not_overlap(on: Engine) {
    let nodes = on.two_nodes().await;
    let ids: Vec<String> = (0..100).map(|n| format!("x{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    create_signals(&*nodes[0], &ids).await;
    let mut claimers = tokio::task::JoinSet::new();
    for index in 0..6 {
        let node = nodes[index % 2].clone();
        claimers.spawn(async move {
            let mut mine = Vec::new();
            loop {
                let some = claim(&*node, "s", 0, 1 + index).await;
                assert!(seqs(&some).is_sorted());
                if some.is_empty() {
                    return mine;
                }
                mine.extend(some);
            }
        });
    }
    let mut claimed: Vec<_> = claimers.join_all().await.into_iter().flatten().collect();
    claimed.extend(claim(&*nodes[0], "s", 0, 1_000).await);
    claimed.sort_by_key(|delivery| delivery.seq);
    assert_eq!(seqs(&claimed), (1..=100).collect::<Vec<_>>());
    assert!(claimed.iter().all(|delivery| delivery.attempt == 1));
}
