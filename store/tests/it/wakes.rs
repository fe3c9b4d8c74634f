//! Wakes: on a quiet day each change is heard of, here and on the other node.

use crate::engine::Engine;
use crate::make::{
    at, becoming, carry_wish, change, commit, create, enqueue, entry, event, from_start, make,
    of_stream, of_task, publish, queue, sub_id, subscribe, subscription, task, web, wish,
};
use interzone_hub::ports::{Op, Wake};
use interzone_hub::{OutboxEntry, Settlement, SubscriptionState};
use std::time::Duration;
use tokio::sync::broadcast;

contract!(
    tell_what_may_have_changed,
    are_heard_by_everybody_who_listens,
    tell_what_became_due_without_a_commit,
);

/// Waits for a wake that means this one. Longer than any poll should take, and no longer.
async fn heard(wakes: &mut broadcast::Receiver<Wake>, expected: &Wake) {
    let means = |wake: &Wake| match (wake, expected) {
        (Wake::Everything, _) => true,
        (Wake::Subject(subject, seq), Wake::Subject(wanted, least)) => {
            subject == wanted && seq >= least
        }
        (wake, expected) => wake == expected,
    };
    let hear = async {
        loop {
            match wakes.recv().await {
                Ok(wake) if means(&wake) => return,
                Ok(_) => {}
                // Too many to keep is as good as everything.
                Err(broadcast::error::RecvError::Lagged(_)) => return,
                Err(broadcast::error::RecvError::Closed) => panic!("the store has gone"),
            }
        }
    };
    let heard = tokio::time::timeout(Duration::from_secs(20), hear).await;
    assert!(heard.is_ok(), "nobody told of {expected:?}");
}

async fn tell_what_may_have_changed(on: Engine) {
    let nodes = on.two_nodes().await;
    let mut here = nodes[0].wakes();
    let mut there = nodes[1].wakes();
    let first = subscription("s");
    let second = becoming(&first, SubscriptionState::Revoked);
    let cases = [
        (
            vec![create(&task("t")), event(of_task("t"), 1)],
            Wake::Subject(of_task("t"), 1),
        ),
        (
            vec![event(of_task("t"), 2), event(of_task("t"), 3)],
            Wake::Subject(of_task("t"), 3),
        ),
        (
            vec![event(of_stream("🦀 s"), 1)],
            Wake::Subject(of_stream("🦀 s"), 1),
        ),
        (vec![queue("t")], Wake::Work),
        (vec![enqueue(&entry("e"))], Wake::Outbox),
        (vec![subscribe(&first)], Wake::Subscriptions),
        (vec![publish("x", &["s"])], Wake::Signals(sub_id("s"))),
        (vec![change(&second)], Wake::Subscriptions),
        (
            vec![Op::RemoveSubscription(sub_id("s"))],
            Wake::Subscriptions,
        ),
    ];
    for (ops, expected) in cases {
        nodes[0].commit(commit(ops)).await.unwrap();
        heard(&mut here, &expected).await;
        heard(&mut there, &expected).await;
    }
}

async fn are_heard_by_everybody_who_listens(on: Engine) {
    let nodes = on.two_nodes().await;
    let mut all: Vec<_> = (0..6).map(|n| nodes[n % 2].wakes()).collect();
    make(&*nodes[1], ["t"]).await;
    nodes[1].commit(commit(vec![queue("t")])).await.unwrap();
    for wakes in &mut all {
        heard(wakes, &Wake::Work).await;
    }
}

/// Work that is given back, an entry that waits for another, one that is replayed: nobody commits.
async fn tell_what_became_due_without_a_commit(on: Engine) {
    let nodes = on.two_nodes().await;
    let group = |id: &str| OutboxEntry {
        group: Some("group".to_owned()),
        ..entry(id)
    };
    make(&*nodes[0], ["t"]).await;
    let mut here = nodes[0].wakes();
    let mut there = nodes[1].wakes();
    // What is told of these must not be taken for what is told later.
    for (ops, expected) in [
        (vec![queue("t")], Wake::Work),
        (
            vec![enqueue(&group("a")), enqueue(&group("b"))],
            Wake::Outbox,
        ),
    ] {
        nodes[0].commit(commit(ops)).await.unwrap();
        heard(&mut here, &expected).await;
        heard(&mut there, &expected).await;
    }
    let work = nodes[0].claim_work(&wish("n", 1, at(0))).await.unwrap();
    let claimed = nodes[0]
        .claim_outbox(&carry_wish(&web(), at(0), at(100), 10))
        .await;
    let [first] = &*claimed.unwrap() else {
        panic!("of a group the first")
    };

    let (id, claim) = (&work[0].task_id, work[0].claim);
    let given_back = nodes[0]
        .release_work(id, "n", claim, from_start(at(0)), at(0))
        .await;
    assert!(given_back.unwrap());
    heard(&mut here, &Wake::Work).await;
    heard(&mut there, &Wake::Work).await;

    let dead = Settlement::Dead {
        error: "no".to_owned(),
    };
    let settled = nodes[0].settle_outbox(&first.id, 1, &dead, at(1)).await;
    assert!(settled.unwrap());
    heard(&mut here, &Wake::Outbox).await;
    heard(&mut there, &Wake::Outbox).await;

    assert!(nodes[0].replay_outbox(&first.id, at(2)).await.unwrap());
    heard(&mut here, &Wake::Outbox).await;
    heard(&mut there, &Wake::Outbox).await;
}
