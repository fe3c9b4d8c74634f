//! Two Verification Zones on one PostgreSQL, and a Slack that repeats itself.

use super::super::peers::postgres;
use super::place::{DONE, Plan, answers};
use interzone_playground::{EventFault, seed};

fn on_postgres(plan: Plan, name: &str) -> Plan {
    let schema = format!("slack_{name}_{}", std::process::id());
    plan.nodes(2, &postgres()).set("store.schema", schema)
}

/// Every event three times and in the opposite order, now to the one node and now to the other.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_storm_of_retries_every_question_is_answered_exactly_once() {
    let place = on_postgres(Plan::new(), "storm").start().await;
    let faults = place.slack.faults();
    let mut questions = Vec::new();
    for round in 0..5 {
        place.send_to(round % 2);
        // A mention is two events.
        faults.events(EventFault::Reverse { events: 16 });
        faults.events(EventFault::Duplicate {
            events: 16,
            copies: 3,
        });
        for number in 0..8 {
            let text = format!("@interzone echo {round}-{number}");
            let ts = place.slack.post(seed::ALEX, seed::GENERAL, &text).unwrap();
            questions.push((ts, format!("{round}-{number}")));
        }
        // Once more to the other node, as a balancer may do with a retry.
        place.send_to((round + 1) % 2);
    }
    for (ts, expected) in &questions {
        let thread = place.marked(seed::GENERAL, ts, DONE).await;
        assert_eq!(answers(&thread), [expected.as_str()], "{ts}");
    }
    // Whatever still comes changes nothing.
    for (ts, expected) in &questions {
        let thread = place.slack.thread(seed::GENERAL, ts);
        assert_eq!(answers(&thread), [expected.as_str()], "{ts}, in the end");
    }
}

/// The node that is at it dies, and the other one takes over.
#[tokio::test(flavor = "multi_thread")]
async fn the_other_node_takes_over_what_a_dead_one_held() {
    let mut place = on_postgres(Plan::new(), "over").start().await;
    let question = place
        .slack
        .post(seed::ALEX, seed::GENERAL, "@interzone wait 5")
        .unwrap();
    place
        .wait("a sign that it was received", |workspace| {
            let calls = workspace.calls_of("reactions.add");
            (!calls.is_empty()).then_some(())
        })
        .await;
    place.nodes[0].kill();
    place.send_to(1);
    let thread = place
        .slack
        .wait(std::time::Duration::from_secs(90), |workspace| {
            let message = workspace.message(seed::GENERAL, &question)?;
            super::place::has(message, DONE).then_some(())
        })
        .await;
    assert!(thread.is_some(), "it is answered all the same");
    let said = answers(&place.slack.thread(seed::GENERAL, &question));
    assert_eq!(said.len(), 1, "{said:#?}");
}
