//! Two nodes on one store, and what a node holds on to.

use super::{PATIENCE, Setup, World};
use interzone_playground::{EventFault, seed};
use std::time::Duration;

#[tokio::test]
async fn what_takes_long_is_held_on_and_not_asked_by_another_node() {
    let mut setup = Setup::default();
    setup.workers.asks.hold = Duration::from_secs(1);
    let (world, _, schema) = World::on_postgres(setup).await;
    let other = world.node_on(super::postgres(&schema).await).await;
    let ts = world
        .playground
        .post(seed::ALEX, seed::DM_ALEX, "wait")
        .unwrap();
    world.agent.has_begun(1).await;
    // It is held on, again and again, for longer than it would be held once.
    let channel = [interzone_verification::ASK_CHANNEL.to_owned()];
    let hub = &world.running().hub;
    let watching = async {
        let (mut renewals, mut last) = (0, Duration::MAX);
        while renewals < 5 {
            let left = hub.next_out(&channel).await.unwrap().unwrap();
            renewals += u32::from(left > last);
            last = left;
        }
    };
    tokio::time::timeout(PATIENCE, watching).await.unwrap();
    world.agent.finish("done");
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "white_check_mark");
    world.quiet().await;
    assert_eq!(world.agent.calls(), 1, "another node took it");
    assert_eq!(world.answers(seed::DM_ALEX, &ts).len(), 1);
    other.workers.join(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn every_event_thrice_and_two_nodes_answer_each_question_once() {
    let (world, _, schema) = World::on_postgres(Setup::default()).await;
    let other = world.node_on(super::postgres(&schema).await).await;
    world.playground.faults().events(EventFault::Duplicate {
        events: 40,
        copies: 3,
    });
    world
        .playground
        .faults()
        .events(EventFault::Reverse { events: 8 });
    let mut asked = Vec::new();
    for number in 0..10 {
        let text = format!("@interzone question {number}");
        let ts = world.playground.post(seed::ALEX, seed::GENERAL, &text);
        asked.push(ts.unwrap());
    }
    for ts in &asked {
        assert_eq!(world.sign(seed::GENERAL, ts).await, "white_check_mark");
    }
    world.quiet().await;
    assert_eq!(world.agent.asked().len(), 10);
    for ts in &asked {
        assert_eq!(world.answers(seed::GENERAL, ts).len(), 1);
    }
    other.workers.join(Duration::from_secs(1)).await;
}
