//! Two Verification Zones on one PostgreSQL, with duplicated and reordered Slack events.

use super::super::peers::postgres_url;
use super::fixture::{DONE, SlackTestBuilder, WAIT_TIMEOUT, answers};
use interzone_playground::{EventFault, seed};

fn on_postgres(builder: SlackTestBuilder, name: &str) -> SlackTestBuilder {
    let schema = format!("slack_{name}_{}", std::process::id());
    builder
        .nodes(2, &postgres_url())
        .set("store.schema", schema)
}

/// Each event is delivered three times and in reverse order, alternating between the nodes.
#[tokio::test(flavor = "multi_thread")]
async fn duplicated_and_reordered_events_are_answered_once() {
    // Acknowledgement speed is measured elsewhere; on a busy machine Slack must not give up on a delivery.
    let builder = SlackTestBuilder::new().slack(|slack| slack.ack_timeout = WAIT_TIMEOUT);
    let test = on_postgres(builder, "duplicates").start().await;
    let faults = test.slack.faults();
    let mut questions = Vec::new();
    // Slack allows about one message per second and channel, so the questions are spread.
    let channels = [
        (seed::ALEX, seed::GENERAL),
        (seed::ALEX, seed::DM_ALEX),
        (seed::HANA, seed::PLANS),
        (seed::HANA, seed::DM_HANA),
    ];
    for round in 0..6 {
        test.send_to(round % 2);
        // A mention is two events, and a direct message one.
        faults.add_event_fault(EventFault::Reverse { events: 6 });
        faults.add_event_fault(EventFault::Duplicate {
            events: 6,
            copies: 3,
        });
        for (number, (user, channel)) in channels.into_iter().enumerate() {
            let mention = if channel.starts_with('C') {
                "@interzone "
            } else {
                ""
            };
            let text = format!("{mention}echo {round}-{number}");
            let ts = test.slack.post(user, channel, &text).unwrap();
            questions.push((channel, ts, format!("{round}-{number}")));
        }
    }
    for (channel, ts, expected) in &questions {
        let thread = test.wait_for_reaction(channel, ts, DONE).await;
        assert_eq!(answers(&thread), [expected.as_str()], "{ts}");
    }
    // Late duplicates changed nothing.
    let delivered = test
        .slack
        .inspect(|workspace| workspace.deliveries().count());
    assert!(
        delivered > 2 * questions.len(),
        "too few duplicates: {delivered}"
    );
    for (channel, ts, expected) in &questions {
        let thread = test.slack.thread(channel, ts);
        assert_eq!(answers(&thread), [expected.as_str()], "{ts}, in the end");
    }
}

/// The node that works on the question is killed, and the other one takes over.
#[tokio::test(flavor = "multi_thread")]
async fn question_of_a_killed_node_is_taken_over() {
    let mut test = on_postgres(SlackTestBuilder::new(), "failover")
        .start()
        .await;
    let question = test
        .slack
        .post(seed::ALEX, seed::GENERAL, "@interzone wait 5")
        .unwrap();
    test.wait("the received emoji", |workspace| {
        let calls = workspace.calls_of("reactions.add");
        (!calls.is_empty()).then_some(())
    })
    .await;
    test.nodes[0].kill();
    test.send_to(1);
    let done = test
        .slack
        .wait_for(std::time::Duration::from_secs(90), |workspace| {
            let message = workspace.message(seed::GENERAL, &question)?;
            super::fixture::has_reaction(message, DONE).then_some(())
        })
        .await;
    assert!(done.is_some(), "the question was never done");
    let replies = answers(&test.slack.thread(seed::GENERAL, &question));
    assert_eq!(replies.len(), 1, "{replies:#?}");
}
