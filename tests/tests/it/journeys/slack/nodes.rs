//! Two Verification Zones on one PostgreSQL, and a Slack that repeats itself.

use super::super::peers::postgres;
use super::place::{DONE, PATIENCE, Plan, answers};
use interzone_playground::{EventFault, seed};

fn on_postgres(plan: Plan, name: &str) -> Plan {
    let schema = format!("slack_{name}_{}", std::process::id());
    plan.nodes(2, &postgres()).set("store.schema", schema)
}

/// Every event three times and in the opposite order, now to the one node and now to the other.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_storm_of_retries_every_question_is_answered_exactly_once() {
    // How fast it acknowledges is measured elsewhere: a busy machine must not lose what Slack gives up.
    let plan = Plan::new().slack(|slack| slack.ack_time = PATIENCE);
    let place = on_postgres(plan, "storm").start().await;
    let faults = place.slack.faults();
    let mut questions = Vec::new();
    // Slack takes about one message a second in a channel, so they are spread.
    let places = [
        (seed::ALEX, seed::GENERAL),
        (seed::ALEX, seed::DM_ALEX),
        (seed::HANA, seed::PLANS),
        (seed::HANA, seed::DM_HANA),
    ];
    for round in 0..6 {
        place.send_to(round % 2);
        // A mention is two events, and a direct message one.
        faults.events(EventFault::Reverse { events: 6 });
        faults.events(EventFault::Duplicate {
            events: 6,
            copies: 3,
        });
        for (number, (user, channel)) in places.into_iter().enumerate() {
            let mention = if channel.starts_with('C') {
                "@interzone "
            } else {
                ""
            };
            let text = format!("{mention}echo {round}-{number}");
            let ts = place.slack.post(user, channel, &text).unwrap();
            questions.push((channel, ts, format!("{round}-{number}")));
        }
    }
    for (channel, ts, expected) in &questions {
        let thread = place.marked(channel, ts, DONE).await;
        assert_eq!(answers(&thread), [expected.as_str()], "{ts}");
    }
    // Whatever still came changed nothing.
    let delivered = place.slack.look(|workspace| workspace.deliveries().count());
    assert!(delivered > 2 * questions.len(), "a storm: {delivered}");
    for (channel, ts, expected) in &questions {
        let thread = place.slack.thread(channel, ts);
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
