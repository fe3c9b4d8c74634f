//! Stopping: running and queued questions, only by the asker. And user feedback on answers.

use super::{VerificationFixture, VerificationSetup, WAIT_TIMEOUT};
use interzone_playground::{PlaygroundMessage, seed};
use interzone_verification::slack::socket::{EnvelopeAck, EnvelopeHandler};
use interzone_verification::{AskOptions, FEEDBACK_ACTION, Question, STOP_ACTION};
use serde_json::json;
use std::time::Duration;

/// Waits for the message with the stop button.
async fn wait_for_stop_button(world: &VerificationFixture) -> String {
    let found = world.playground.wait_for(WAIT_TIMEOUT, |workspace| {
        let mut all = workspace
            .messages(seed::DM_ALEX)
            .chain(workspace.ephemerals());
        let has = |blocks: &[serde_json::Value]| json!(blocks).to_string().contains(STOP_ACTION);
        all.find(|message| has(&message.blocks))
            .map(|message| message.ts.clone())
    });
    found.await.expect("a stop button before the timeout")
}

#[tokio::test]
async fn stop_button_cancels_running_question() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    let ts = slack
        .post(seed::ALEX, seed::DM_ALEX, "wait for it")
        .unwrap();
    let with_button = wait_for_stop_button(&world).await;
    slack
        .press(seed::ALEX, seed::DM_ALEX, &with_button, STOP_ACTION, None)
        .unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &ts).await,
        "octagonal_sign"
    );
    world.wait_until_idle().await;
    assert_eq!(world.answers(seed::DM_ALEX, &ts).len(), 1);
    assert_eq!(world.wait_for_audit_lines(1).await[0]["outcome"], "stopped");
}

#[tokio::test]
async fn stop_by_other_user_or_too_late_is_rejected() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    let ts = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone wait for it")
        .unwrap();
    world.agent.wait_for_tasks(1).await;
    let offers = |workspace: &interzone_playground::Workspace| {
        let is_offer =
            |message: &&PlaygroundMessage| json!(message.blocks).to_string().contains(STOP_ACTION);
        let offer = workspace.ephemerals().find(is_offer);
        offer.map(|offer| offer.ts.clone())
    };
    let offer = slack
        .wait_for(WAIT_TIMEOUT, offers)
        .await
        .expect("a stop button");
    let press = |user: &str, channel_id: &str, at: &str| {
        let team = seed::TEAM.parse().unwrap();
        let channel = seed::GENERAL.parse().unwrap();
        let question = Question::derive_id(&team, &channel, &ts.parse().unwrap());
        bytes::Bytes::from(
            json!({
                "type": "block_actions", "team": {"id": seed::TEAM}, "user": {"id": user},
                "container": {"message_ts": "1.5", "channel_id": channel_id,
                    "thread_ts": (channel_id == seed::GENERAL).then_some(&ts)},
                "actions": [{"action_id": STOP_ACTION, "value": question, "action_ts": at}],
            })
            .to_string(),
        )
    };
    let zone = &world.running_node().zone;
    // Another user; and the asker, but in another channel.
    for (user, channel_id, at) in [
        (seed::MALLORY, seed::GENERAL, "9.8"),
        (seed::ALEX, seed::DM_ALEX, "9.9"),
    ] {
        let pressed = zone
            .handle("interactive", press(user, channel_id, at))
            .await;
        assert_eq!(pressed, EnvelopeAck::Done);
        let refused = slack.wait_for(WAIT_TIMEOUT, |workspace| {
            let mut messages = workspace.ephemerals();
            let own = |message: &PlaygroundMessage| message.visible_to.as_deref() == Some(user);
            messages
                .any(|message| {
                    own(message)
                        && message.displayed_text() == "Only the person who asked can stop this."
                })
                .then_some(())
        });
        refused.await.expect("the rejection is shown");
    }

    world.agent.finish("done after all");
    assert_eq!(
        world.wait_for_reaction(seed::GENERAL, &ts).await,
        "white_check_mark"
    );
    world.wait_until_idle().await;
    slack
        .press(seed::ALEX, seed::GENERAL, &offer, STOP_ACTION, None)
        .unwrap();
    let late = |workspace: &interzone_playground::Workspace| {
        let texts = workspace
            .ephemerals()
            .map(PlaygroundMessage::displayed_text);
        let late = texts.filter(|text| text == "This answer is already finished.");
        (late.count() == 1 && offers(workspace).is_none()).then_some(())
    };
    let late = slack.wait_for(WAIT_TIMEOUT, late).await;
    late.expect("the notice is shown and the button is gone");
}

#[tokio::test]
async fn stop_button_is_removed_after_stop() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    let ts = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone wait for it")
        .unwrap();
    let offer = slack
        .wait_for(WAIT_TIMEOUT, |workspace| {
            workspace.ephemerals().next().map(|offer| offer.ts.clone())
        })
        .await
        .expect("a stop button");
    slack
        .press(seed::ALEX, seed::GENERAL, &offer, STOP_ACTION, None)
        .unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::GENERAL, &ts).await,
        "octagonal_sign"
    );
    world.wait_until_idle().await;
    let left = slack.inspect(|workspace| workspace.ephemerals().count());
    assert_eq!(left, 0, "the button is gone and no message replaces it");
}

fn session_stopped_event(channel: &str, thread: &str, user: &str) -> serde_json::Value {
    json!({
        "type": "agent_session_stopped", "channel": channel, "thread_ts": thread, "user": user,
        "streaming_message_ts": [], "event_ts": "1.1",
    })
}

#[tokio::test]
async fn session_stopped_event_counts_only_from_asker() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    let ts = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone wait for it")
        .unwrap();
    world.agent.wait_for_tasks(1).await;
    slack.send_event(session_stopped_event(seed::GENERAL, &ts, seed::MALLORY));
    // The background job is done when the inbox has only the question itself.
    let hub = &world.running_node().hub;
    let waiting = async {
        let mut changes = hub.store().subscribe_changes();
        let key = [interzone_verification::JOB_CHANNEL.to_owned()];
        let was_delivered = |world: &VerificationFixture| {
            let deliveries = world.playground.inspect(|workspace| {
                let all = workspace.deliveries();
                all.filter(|one| one.kind == "agent_session_stopped" && one.outcome == "ok")
                    .count()
            });
            deliveries > 0
        };
        while !was_delivered(&world) || hub.next_due(&key).await.unwrap().is_some() {
            let _ = tokio::time::timeout(Duration::from_millis(10), changes.recv()).await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, waiting).await.unwrap();
    world.agent.finish("done after all");
    assert_eq!(
        world.wait_for_reaction(seed::GENERAL, &ts).await,
        "white_check_mark"
    );

    let ts = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone wait again")
        .unwrap();
    world.agent.wait_for_tasks(2).await;
    slack.send_event(session_stopped_event(seed::GENERAL, &ts, seed::ALEX));
    assert_eq!(
        world.wait_for_reaction(seed::GENERAL, &ts).await,
        "octagonal_sign"
    );
}

#[tokio::test]
async fn question_stopped_while_queued_is_not_asked() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    // The question waits for `users.info` until the gate is opened.
    let mut gate = slack.faults().break_point(
        Some("users.info"),
        0,
        interzone_playground::FaultTiming::Before,
    );
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    gate.wait_reached(WAIT_TIMEOUT).await.unwrap();
    let team = seed::TEAM.parse().unwrap();
    let channel = seed::DM_ALEX.parse().unwrap();
    let question = Question::derive_id(&team, &channel, &ts.parse().unwrap());
    let zone = &world.running_node().zone;
    // A stop by another user has no effect and does not replace the asker's.
    for (user, at) in [(seed::ALEX, "9.9"), (seed::MALLORY, "10.1")] {
        let payload = json!({
            "type": "block_actions", "team": {"id": seed::TEAM}, "user": {"id": user},
            // Slack does not always name the thread of an ephemeral message.
            "container": {"message_ts": "1.5", "channel_id": seed::DM_ALEX, "is_ephemeral": true},
            "actions": [{"action_id": STOP_ACTION, "value": question, "action_ts": at}],
        });
        let payload = bytes::Bytes::from(payload.to_string());
        assert_eq!(zone.handle("interactive", payload).await, EnvelopeAck::Done);
    }
    let hub = &world.running_node().hub;
    let waiting = async {
        let key = [interzone_verification::JOB_CHANNEL.to_owned()];
        let mut changes = hub.store().subscribe_changes();
        while hub.next_due(&key).await.unwrap().is_some() {
            let _ = tokio::time::timeout(Duration::from_millis(10), changes.recv()).await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, waiting).await.unwrap();
    gate.open();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &ts).await,
        "octagonal_sign"
    );
    assert!(world.agent.created_tasks().is_empty());
}

#[tokio::test]
async fn question_over_budget_is_canceled_and_reported() {
    let mut setup = VerificationSetup::default();
    // An attempt has at least ten seconds, so the budget is zero.
    setup.ask = AskOptions {
        budget: Duration::ZERO,
        ..setup.ask
    };
    let world = VerificationFixture::with_setup(setup).await;
    let slack = &world.playground;
    let ts = slack
        .post(seed::ALEX, seed::DM_ALEX, "wait for ever")
        .unwrap();
    world.agent.wait_for_tasks(1).await;
    assert_eq!(world.wait_for_reaction(seed::DM_ALEX, &ts).await, "x");
    world.wait_until_idle().await;
    assert_eq!(
        world.wait_for_audit_lines(1).await[0]["outcome"],
        "async_timeout"
    );
}

#[tokio::test]
async fn latest_feedback_press_is_stored() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &ts).await,
        "white_check_mark"
    );
    world.wait_until_idle().await;
    let answer = world.answers(seed::DM_ALEX, &ts).pop().unwrap();
    let team = seed::TEAM.parse().unwrap();
    let channel = seed::DM_ALEX.parse().unwrap();
    let question = Question::derive_id(&team, &channel, &ts.parse().unwrap());
    let feedbacks = interzone_verification::FeedbackStore::new(world.running_node().hub.clone());
    for (label, good) in [("good", true), ("bad", false)] {
        let value = format!("{label}/{question}");
        slack
            .press(
                seed::ALEX,
                seed::DM_ALEX,
                &answer.ts,
                FEEDBACK_ACTION,
                Some(&value),
            )
            .unwrap();
        let waiting = async {
            let mut changes = world.store.subscribe_changes();
            loop {
                let all = feedbacks.all().await.unwrap();
                if all.first().is_some_and(|given| given.good == good) {
                    return all.len();
                }
                let _ = tokio::time::timeout(Duration::from_millis(10), changes.recv()).await;
            }
        };
        let count = tokio::time::timeout(WAIT_TIMEOUT, waiting).await.unwrap();
        assert_eq!(count, 1);
    }
}
