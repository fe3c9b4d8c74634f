//! What must hold when somebody presses: Slack that says "later" again and again, a store that fails at the
//! worst moment, people who go on in spite of a refusal, and buttons and questions that nobody should send.

use super::{PATIENCE, Setup, World};
use crate::workers::counting::Counting;
use interzone_playground::{EventFault, seed};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use interzone_verification::{FEEDBACK_ACTION, Feedbacks, Question};
use serde_json::json;
use std::time::{Duration, Instant};

/// So many refusals are told at once, and then one whenever so much time has gone by.
const TOLD: usize = 5;
const REFILLS: Duration = Duration::from_secs(12);

/// A setup in which nobody may.
fn nobody() -> Setup {
    Setup {
        users: Vec::new(),
        ..Setup::default()
    }
}

/// How often somebody alone was told something.
fn whispers(world: &World, user: &str) -> usize {
    world.playground.look(|workspace| {
        let mut told: Vec<_> = workspace.ephemerals().collect();
        told.retain(|message| message.only_for.as_deref() == Some(user));
        told.len()
    })
}

#[tokio::test]
async fn who_is_told_to_come_later_has_not_used_up_a_try() {
    let mut setup = Setup::default();
    setup.workers.posts.retry.attempts = 2;
    let world = World::with(setup).await;
    // Longer than a call waits by itself, so that the answer is put off twice; then one real failure.
    let faults = world.playground.faults();
    faults.rate_limit("chat.stopStream", 4, 2);
    faults.status("chat.stopStream", 500, 1);
    let ts = world
        .playground
        .post(seed::ALEX, seed::DM_ALEX, "hello")
        .unwrap();
    let sign = world.sign(seed::DM_ALEX, &ts).await;
    let calls = world.playground.look(|workspace| {
        let line = |call: &interzone_playground::Call| format!("{} {}", call.method, call.answer);
        workspace.calls().map(line).collect::<Vec<_>>()
    });
    assert_eq!(sign, "white_check_mark", "{calls:#?}");
    world.quiet().await;
    let answers = world.answers(seed::DM_ALEX, &ts);
    assert_eq!(answers.len(), 1);
    assert!(answers[0].shown().contains("You said: hello"));
    assert_eq!(world.store.outbox_depth().await.unwrap(), (0, 0));
}

#[tokio::test]
async fn an_answer_that_never_comes_gets_the_sign_of_a_failure() {
    let world = World::new().await;
    let faults = world.playground.faults();
    for method in ["chat.stopStream", "chat.update", "chat.postMessage"] {
        faults.refuse(method, "restricted_action", u32::MAX);
    }
    let ts = world
        .playground
        .post(seed::ALEX, seed::DM_ALEX, "hello")
        .unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "x");
    world.quiet().await;
    assert_eq!(
        world.store.outbox_depth().await.unwrap().1,
        1,
        "one is dead"
    );
}

#[tokio::test]
async fn who_goes_on_in_spite_of_a_refusal_is_not_told_without_end() {
    let world = World::with(nobody()).await;
    let began = Instant::now();
    for number in 0..8 {
        let text = format!("let me in {number}");
        let slack = &world.playground;
        slack.post(seed::ALEX, seed::DM_ALEX, &text).unwrap();
    }
    world.audited(8).await;
    world.quiet().await;
    let told = whispers(&world, seed::ALEX);
    let refilled = began.elapsed().as_secs() / REFILLS.as_secs();
    let most = TOLD + usize::try_from(refilled).unwrap();
    assert!((TOLD..=most).contains(&told), "{told} of {most}");
    // Another one is told all the same.
    world
        .playground
        .post(seed::HANA, seed::DM_HANA, "and me?")
        .unwrap();
    world.told(seed::HANA).await;
    assert!(world.agent.asked().is_empty());
}

#[tokio::test]
async fn a_refusal_that_is_tried_again_is_told_once_and_counts_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("verification.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).await;
    let store = Counting::new(store.unwrap());
    let world = World::on(store.clone(), nobody(), folder).await;
    for number in 1..=TOLD {
        // The last that may be told is not noted at first, three times over.
        if number == TOLD {
            store.fail_claims("inbox/slack/ended/", 3);
        }
        let text = format!("let me in {number}");
        let slack = &world.playground;
        slack.post(seed::ALEX, seed::DM_ALEX, &text).unwrap();
        world.audited(number).await;
        world.quiet().await;
        assert_eq!(whispers(&world, seed::ALEX), number);
    }
    assert_eq!(store.left_to_fail(), 0, "it has failed as told");
}

#[tokio::test]
async fn a_thumb_counts_for_an_answer_of_ours_alone() {
    let world = World::new().await;
    let slack = &world.playground;
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "white_check_mark");
    world.quiet().await;
    let answer = world.answers(seed::DM_ALEX, &ts).remove(0);
    let team = seed::TEAM.parse().unwrap();
    let channel = seed::DM_ALEX.parse().unwrap();
    let ours = Question::id_of(&team, &channel, &ts.parse().unwrap());
    let unknown = Question::id_of(&team, &channel, &"1.5".parse().unwrap());
    let elsewhere = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone hello")
        .unwrap();
    assert_eq!(
        world.sign(seed::GENERAL, &elsewhere).await,
        "white_check_mark"
    );
    world.quiet().await;
    let other = world.answers(seed::GENERAL, &elsewhere).remove(0);
    let zone = world.running().zone.clone();
    let press = async |number: u32, channel: &str, ts: &str, question: &str| {
        let payload = json!({
            "type": "block_actions", "team": {"id": seed::TEAM}, "user": {"id": seed::ALEX},
            "container": {"message_ts": ts, "channel_id": channel},
            "actions": [{
                "action_id": FEEDBACK_ACTION, "value": format!("good/{question}"),
                "action_ts": format!("170000000{number}.000100"),
            }],
        });
        let payload = [("payload", payload.to_string())];
        let form = reqwest::Url::parse_with_params("http://form/", payload).unwrap();
        let body = form.query().unwrap();
        zone.take_action(body.as_bytes()).await.unwrap();
        world.quiet().await;
    };
    let feedbacks = Feedbacks::new(world.running().hub.clone());
    // A question that nobody asked, and one that was asked elsewhere.
    press(1, seed::DM_ALEX, &answer.ts, &unknown).await;
    press(2, seed::GENERAL, &other.ts, &ours).await;
    assert_eq!(feedbacks.all().await.unwrap(), []);
    press(3, seed::DM_ALEX, &answer.ts, &ours).await;
    let all = feedbacks.all().await.unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!((&all[0].question, all[0].good), (&ours, true));
}

#[tokio::test]
async fn of_a_question_that_is_too_long_little_is_stored_and_its_refusal_comes_once() {
    let world = World::new().await;
    let slack = &world.playground;
    slack.faults().events(EventFault::Duplicate {
        events: 1,
        copies: 3,
    });
    let long = "quite ".repeat(5_000);
    slack.post(seed::ALEX, seed::DM_ALEX, &long).unwrap();
    let told = world.told(seed::ALEX).await;
    assert!(told.contains("29,999") || told.contains("29999"), "{told}");
    let delivered = slack.wait(PATIENCE, |workspace| {
        (workspace.deliveries().count() >= 3).then_some(())
    });
    assert!(delivered.await.is_some());
    world.quiet().await;
    assert_eq!(whispers(&world, seed::ALEX), 1);
    assert_eq!(world.audited(1).await.len(), 1);
    let part = "quite ".repeat(40);
    for file in std::fs::read_dir(world.audit.parent().unwrap()).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes
            .windows(part.len())
            .any(|some| some == part.as_bytes());
        assert!(!found, "{} holds the question", path.display());
    }
}
