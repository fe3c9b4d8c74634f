//! Wakes: on a quiet day each change is heard of, here and on the other node.

use crate::engine::Engine;
use crate::make::{
    becoming, change, commit, create, enqueue, entry, event, of_stream, of_task, publish, queue,
    sub_id, subscribe, subscription, task,
};
use interzone_hub::SubscriptionState;
use interzone_hub::ports::{Op, Wake};
use std::time::Duration;
use tokio::sync::broadcast;

contract!(
    tell_what_may_have_changed,
    are_heard_by_everybody_who_listens,
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
    nodes[1].commit(commit(vec![queue("t")])).await.unwrap();
    for wakes in &mut all {
        heard(wakes, &Wake::Work).await;
    }
}
