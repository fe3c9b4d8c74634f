//! Change hints: without load each change is announced, on this node and on the other.

use crate::builders::{
    commit, create, create_tasks, enqueue, enqueue_work, entry, event, outbox_claim, publish,
    since_start, stream_subject, sub_id, subscribe, subscription, task, task_subject, time_at,
    update_subscription, web_channel, with_state, work_claim,
};
use crate::engine::Engine;
use interzone_hub::ports::{ChangeHint, Op};
use interzone_hub::{DeliveryResult, OutboxEntry, SubscriptionState};
use std::time::Duration;
use tokio::sync::broadcast;

contract_tests!(
    commits_send_change_hints,
    hints_reach_all_subscribers,
    release_settle_and_replay_send_hints,
);

/// Waits for a hint that covers the expected one. The timeout is longer than any poll should take.
async fn wait_for_hint(hints: &mut broadcast::Receiver<ChangeHint>, expected: &ChangeHint) {
    let covers = |hint: &ChangeHint| match (hint, expected) {
        (ChangeHint::Everything, _) => true,
        (ChangeHint::Subject(subject, seq), ChangeHint::Subject(wanted, least)) => {
            subject == wanted && seq >= least
        }
        (wake, expected) => wake == expected,
    };
    let waiting = async {
        loop {
            match hints.recv().await {
                Ok(wake) if covers(&wake) => return,
                Ok(_) => {}
                // A lagged receiver may assume every change.
                Err(broadcast::error::RecvError::Lagged(_)) => return,
                Err(broadcast::error::RecvError::Closed) => panic!("the store has gone"),
            }
        }
    };
    let received = tokio::time::timeout(Duration::from_secs(20), waiting).await;
    assert!(received.is_ok(), "no hint for {expected:?}");
}

async fn commits_send_change_hints(on: Engine) {
    let nodes = on.two_nodes().await;
    let mut here = nodes[0].subscribe_changes();
    let mut there = nodes[1].subscribe_changes();
    let first = subscription("s");
    let second = with_state(&first, SubscriptionState::Revoked);
    let cases = [
        (
            vec![create(&task("t")), event(task_subject("t"), 1)],
            ChangeHint::Subject(task_subject("t"), 1),
        ),
        (
            vec![event(task_subject("t"), 2), event(task_subject("t"), 3)],
            ChangeHint::Subject(task_subject("t"), 3),
        ),
        (
            vec![event(stream_subject("🦀 s"), 1)],
            ChangeHint::Subject(stream_subject("🦀 s"), 1),
        ),
        (vec![enqueue_work("t")], ChangeHint::Work),
        (vec![enqueue(&entry("e"))], ChangeHint::Outbox),
        (vec![subscribe(&first)], ChangeHint::Subscriptions),
        (vec![publish("x", &["s"])], ChangeHint::Signals(sub_id("s"))),
        (
            vec![update_subscription(&second)],
            ChangeHint::Subscriptions,
        ),
        (
            vec![Op::RemoveSubscription(sub_id("s"))],
            ChangeHint::Subscriptions,
        ),
    ];
    for (ops, expected) in cases {
        nodes[0].commit(commit(ops)).await.unwrap();
        wait_for_hint(&mut here, &expected).await;
        wait_for_hint(&mut there, &expected).await;
    }
}

async fn hints_reach_all_subscribers(on: Engine) {
    let nodes = on.two_nodes().await;
    let mut all: Vec<_> = (0..6).map(|n| nodes[n % 2].subscribe_changes()).collect();
    create_tasks(&*nodes[1], ["t"]).await;
    nodes[1]
        .commit(commit(vec![enqueue_work("t")]))
        .await
        .unwrap();
    for hints in &mut all {
        wait_for_hint(hints, &ChangeHint::Work).await;
    }
}

/// Released work, an entry whose group became free, a replayed entry: changes without a commit.
async fn release_settle_and_replay_send_hints(on: Engine) {
    let nodes = on.two_nodes().await;
    let group = |id: &str| OutboxEntry {
        group: Some("group".to_owned()),
        ..entry(id)
    };
    create_tasks(&*nodes[0], ["t"]).await;
    let mut here = nodes[0].subscribe_changes();
    let mut there = nodes[1].subscribe_changes();
    // These hints must not be taken for later ones.
    for (ops, expected) in [
        (vec![enqueue_work("t")], ChangeHint::Work),
        (
            vec![enqueue(&group("a")), enqueue(&group("b"))],
            ChangeHint::Outbox,
        ),
    ] {
        nodes[0].commit(commit(ops)).await.unwrap();
        wait_for_hint(&mut here, &expected).await;
        wait_for_hint(&mut there, &expected).await;
    }
    let work = nodes[0]
        .claim_work(&work_claim("n", 1, time_at(0)))
        .await
        .unwrap();
    let claimed = nodes[0]
        .claim_outbox(&outbox_claim(&web_channel(), time_at(0), time_at(100), 10))
        .await;
    let [first] = &*claimed.unwrap() else {
        panic!("of a group the first")
    };

    let (id, claim) = (&work[0].task_id, work[0].claim);
    let released = nodes[0]
        .release_work(id, "n", claim, since_start(time_at(0)), time_at(0))
        .await;
    assert!(released.unwrap());
    wait_for_hint(&mut here, &ChangeHint::Work).await;
    wait_for_hint(&mut there, &ChangeHint::Work).await;

    let dead = DeliveryResult::Dead {
        error: "no".to_owned(),
    };
    let settled = nodes[0]
        .settle_outbox(&first.id, 1, &dead, time_at(1))
        .await;
    assert!(settled.unwrap());
    wait_for_hint(&mut here, &ChangeHint::Outbox).await;
    wait_for_hint(&mut there, &ChangeHint::Outbox).await;

    assert!(nodes[0].replay_outbox(&first.id, time_at(2)).await.unwrap());
    wait_for_hint(&mut here, &ChangeHint::Outbox).await;
    wait_for_hint(&mut there, &ChangeHint::Outbox).await;
}
