//! Stopping: what goes on, what has not begun, and only by who asked. And what people think of answers.

use super::{PATIENCE, Setup, World};
use interzone_playground::{Message, seed};
use interzone_verification::slack::socket::{Ack, Envelopes};
use interzone_verification::{AskOptions, FEEDBACK_ACTION, Question, STOP_ACTION};
use serde_json::json;
use std::time::Duration;

/// The message with the button that stops an answer.
async fn button(world: &World) -> String {
    let found = world.playground.wait(PATIENCE, |workspace| {
        let mut all = workspace
            .messages(seed::DM_ALEX)
            .chain(workspace.ephemerals());
        let has = |blocks: &[serde_json::Value]| json!(blocks).to_string().contains(STOP_ACTION);
        all.find(|message| has(&message.blocks))
            .map(|message| message.ts.clone())
    });
    found.await.expect("there is no button")
}

#[tokio::test]
async fn a_button_stops_what_goes_on() {
    let world = World::new().await;
    let slack = &world.playground;
    let ts = slack
        .post(seed::ALEX, seed::DM_ALEX, "wait for it")
        .unwrap();
    let with_button = button(&world).await;
    slack
        .press(seed::ALEX, seed::DM_ALEX, &with_button, STOP_ACTION, None)
        .unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "octagonal_sign");
    world.quiet().await;
    assert_eq!(world.answers(seed::DM_ALEX, &ts).len(), 1);
    assert_eq!(world.audited(1).await[0]["outcome"], "stopped");
}

#[tokio::test]
async fn who_presses_for_somebody_else_or_too_late_is_told_and_the_offer_goes() {
    let world = World::new().await;
    let slack = &world.playground;
    let ts = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone wait for it")
        .unwrap();
    world.agent.has_begun(1).await;
    let offers = |workspace: &interzone_playground::Workspace| {
        let is_offer = |message: &&Message| json!(message.blocks).to_string().contains(STOP_ACTION);
        let offer = workspace.ephemerals().find(is_offer);
        offer.map(|offer| offer.ts.clone())
    };
    let offer = slack.wait(PATIENCE, offers).await.expect("no offer");
    let press = |user: &str, place: &str, at: &str| {
        let team = seed::TEAM.parse().unwrap();
        let channel = seed::GENERAL.parse().unwrap();
        let question = Question::id_of(&team, &channel, &ts.parse().unwrap());
        bytes::Bytes::from(
            json!({
                "type": "block_actions", "team": {"id": seed::TEAM}, "user": {"id": user},
                "container": {"message_ts": "1.5", "channel_id": place,
                    "thread_ts": (place == seed::GENERAL).then_some(&ts)},
                "actions": [{"action_id": STOP_ACTION, "value": question, "action_ts": at}],
            })
            .to_string(),
        )
    };
    let zone = &world.running().zone;
    // Somebody else; and whoever asked, but in a place where it was not asked.
    for (user, place, at) in [
        (seed::MALLORY, seed::GENERAL, "9.8"),
        (seed::ALEX, seed::DM_ALEX, "9.9"),
    ] {
        let pressed = zone.envelope("interactive", press(user, place, at)).await;
        assert_eq!(pressed, Ack::Done);
        let refused = slack.wait(PATIENCE, |workspace| {
            let mut told = workspace.ephemerals();
            let own = |message: &Message| message.only_for.as_deref() == Some(user);
            told.any(|told| own(told) && told.shown() == "Only the person who asked can stop this.")
                .then_some(())
        });
        refused.await.expect("they are told");
    }

    world.agent.finish("done after all");
    assert_eq!(world.sign(seed::GENERAL, &ts).await, "white_check_mark");
    world.quiet().await;
    slack
        .press(seed::ALEX, seed::GENERAL, &offer, STOP_ACTION, None)
        .unwrap();
    let late = |workspace: &interzone_playground::Workspace| {
        let told = workspace.ephemerals().map(Message::shown);
        let late = told.filter(|told| told == "This answer is already finished.");
        (late.count() == 1 && offers(workspace).is_none()).then_some(())
    };
    let late = slack.wait(PATIENCE, late).await;
    late.expect("it is told, and the offer is gone");
}

#[tokio::test]
async fn an_offer_that_is_pressed_in_time_goes_without_a_word() {
    let world = World::new().await;
    let slack = &world.playground;
    let ts = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone wait for it")
        .unwrap();
    let offer = slack
        .wait(PATIENCE, |workspace| {
            workspace.ephemerals().next().map(|offer| offer.ts.clone())
        })
        .await
        .expect("no offer");
    slack
        .press(seed::ALEX, seed::GENERAL, &offer, STOP_ACTION, None)
        .unwrap();
    assert_eq!(world.sign(seed::GENERAL, &ts).await, "octagonal_sign");
    world.quiet().await;
    let left = slack.look(|workspace| workspace.ephemerals().count());
    assert_eq!(left, 0, "it is gone, and nothing came in its place");
}

fn stopped(channel: &str, thread: &str, user: &str) -> serde_json::Value {
    json!({
        "type": "agent_session_stopped", "channel": channel, "thread_ts": thread, "user": user,
        "streaming_message_ts": [], "event_ts": "1.1",
    })
}

#[tokio::test]
async fn slacks_own_button_stops_what_goes_on_and_nobody_elses_press_does() {
    let world = World::new().await;
    let slack = &world.playground;
    let ts = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone wait for it")
        .unwrap();
    world.agent.has_begun(1).await;
    slack.send_event(stopped(seed::GENERAL, &ts, seed::MALLORY));
    // The errand is done when the inbox is empty but for the question itself.
    let hub = &world.running().hub;
    let waiting = async {
        let mut wakes = hub.store().wakes();
        let key = [interzone_verification::ERRAND_CHANNEL.to_owned()];
        let seen = |world: &World| {
            let deliveries = world.playground.look(|workspace| {
                let all = workspace.deliveries();
                all.filter(|one| one.kind == "agent_session_stopped" && one.outcome == "ok")
                    .count()
            });
            deliveries > 0
        };
        while !seen(&world) || hub.next_out(&key).await.unwrap().is_some() {
            let _ = tokio::time::timeout(Duration::from_millis(10), wakes.recv()).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    world.agent.finish("done after all");
    assert_eq!(world.sign(seed::GENERAL, &ts).await, "white_check_mark");

    let ts = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone wait again")
        .unwrap();
    world.agent.has_begun(2).await;
    slack.send_event(stopped(seed::GENERAL, &ts, seed::ALEX));
    assert_eq!(world.sign(seed::GENERAL, &ts).await, "octagonal_sign");
}

#[tokio::test]
async fn what_is_stopped_before_it_began_is_not_begun() {
    let world = World::new().await;
    let slack = &world.playground;
    // It stands at the gates until it is told to go on.
    let mut gate = slack
        .faults()
        .gate(Some("users.info"), 0, interzone_playground::When::Before);
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    gate.reached(PATIENCE).await.unwrap();
    let team = seed::TEAM.parse().unwrap();
    let channel = seed::DM_ALEX.parse().unwrap();
    let question = Question::id_of(&team, &channel, &ts.parse().unwrap());
    let zone = &world.running().zone;
    // Somebody else's wish counts for nothing, and takes nobody's away.
    for (user, at) in [(seed::ALEX, "9.9"), (seed::MALLORY, "10.1")] {
        let payload = json!({
            "type": "block_actions", "team": {"id": seed::TEAM}, "user": {"id": user},
            // Of a message for one person alone Slack does not always say in which thread it is.
            "container": {"message_ts": "1.5", "channel_id": seed::DM_ALEX, "is_ephemeral": true},
            "actions": [{"action_id": STOP_ACTION, "value": question, "action_ts": at}],
        });
        let payload = bytes::Bytes::from(payload.to_string());
        assert_eq!(zone.envelope("interactive", payload).await, Ack::Done);
    }
    let hub = &world.running().hub;
    let waiting = async {
        let key = [interzone_verification::ERRAND_CHANNEL.to_owned()];
        let mut wakes = hub.store().wakes();
        while hub.next_out(&key).await.unwrap().is_some() {
            let _ = tokio::time::timeout(Duration::from_millis(10), wakes.recv()).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    gate.open();
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "octagonal_sign");
    assert!(world.agent.asked().is_empty());
}

#[tokio::test]
async fn what_takes_too_long_is_called_off_and_said() {
    let mut setup = Setup::default();
    // An attempt has ten seconds at least, so time is set on.
    setup.ask = AskOptions {
        budget: Duration::ZERO,
        ..setup.ask
    };
    let world = World::with(setup).await;
    let slack = &world.playground;
    let ts = slack
        .post(seed::ALEX, seed::DM_ALEX, "wait for ever")
        .unwrap();
    world.agent.has_begun(1).await;
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "x");
    world.quiet().await;
    assert_eq!(world.audited(1).await[0]["outcome"], "async_timeout");
}

#[tokio::test]
async fn what_people_think_is_kept_and_the_last_press_counts() {
    let world = World::new().await;
    let slack = &world.playground;
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "white_check_mark");
    world.quiet().await;
    let answer = world.answers(seed::DM_ALEX, &ts).pop().unwrap();
    let team = seed::TEAM.parse().unwrap();
    let channel = seed::DM_ALEX.parse().unwrap();
    let question = Question::id_of(&team, &channel, &ts.parse().unwrap());
    let feedbacks = interzone_verification::Feedbacks::new(world.running().hub.clone());
    for (word, good) in [("good", true), ("bad", false)] {
        let value = format!("{word}/{question}");
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
            let mut wakes = world.store.wakes();
            loop {
                let all = feedbacks.all().await.unwrap();
                if all.first().is_some_and(|given| given.good == good) {
                    return all.len();
                }
                let _ = tokio::time::timeout(Duration::from_millis(10), wakes.recv()).await;
            }
        };
        let count = tokio::time::timeout(PATIENCE, waiting).await.unwrap();
        assert_eq!(count, 1);
    }
}
