//! Two nodes on one store, and leases on questions.

use super::{VerificationFixture, VerificationSetup, WAIT_TIMEOUT};
use interzone_playground::{EventFault, seed};
use std::time::Duration;

#[tokio::test]
async fn long_question_keeps_its_lease_and_is_asked_once() {
    let mut setup = VerificationSetup::default();
    setup.workers.asks.lease = Duration::from_secs(1);
    let (world, _, schema) = VerificationFixture::with_postgres(setup).await;
    let other = world
        .new_node_with_store(super::postgres(&schema).await)
        .await;
    let ts = world
        .playground
        .post(seed::ALEX, seed::DM_ALEX, "wait")
        .unwrap();
    world.agent.wait_for_tasks(1).await;
    // The lease is renewed several times, for longer than one lease.
    let channel = [interzone_verification::ASK_CHANNEL.to_owned()];
    let hub = &world.running_node().hub;
    let watching = async {
        let (mut renewals, mut last) = (0, Duration::MAX);
        while renewals < 5 {
            let left = hub.next_due(&channel).await.unwrap().unwrap();
            renewals += u32::from(left > last);
            last = left;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, watching).await.unwrap();
    world.agent.finish("done");
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &ts).await,
        "white_check_mark"
    );
    world.wait_until_idle().await;
    assert_eq!(world.agent.calls(), 1, "another node took it");
    assert_eq!(world.answers(seed::DM_ALEX, &ts).len(), 1);
    other.workers.join(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn duplicate_events_on_two_nodes_are_answered_once() {
    let (world, _, schema) = VerificationFixture::with_postgres(VerificationSetup::default()).await;
    let other = world
        .new_node_with_store(super::postgres(&schema).await)
        .await;
    world
        .playground
        .faults()
        .add_event_fault(EventFault::Duplicate {
            events: 40,
            copies: 3,
        });
    world
        .playground
        .faults()
        .add_event_fault(EventFault::Reverse { events: 8 });
    let mut questions = Vec::new();
    for number in 0..10 {
        let text = format!("@interzone question {number}");
        let ts = world.playground.post(seed::ALEX, seed::GENERAL, &text);
        questions.push(ts.unwrap());
    }
    for ts in &questions {
        assert_eq!(
            world.wait_for_reaction(seed::GENERAL, ts).await,
            "white_check_mark"
        );
    }
    world.wait_until_idle().await;
    assert_eq!(world.agent.created_tasks().len(), 10);
    for ts in &questions {
        assert_eq!(world.answers(seed::GENERAL, ts).len(), 1);
    }
    other.workers.join(Duration::from_secs(1)).await;
}
