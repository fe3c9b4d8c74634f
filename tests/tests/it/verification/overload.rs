//! Overload and abuse: repeated Slack rate limits, store failures at the worst time, users who continue after a
//! rejection, and forged buttons and questions.

use super::{VerificationFixture, VerificationSetup, WAIT_TIMEOUT};
use crate::workers::counting_store::CountingStore;
use interzone_playground::{EventFault, seed};
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use interzone_verification::{FEEDBACK_ACTION, FeedbackStore, Question};
use serde_json::json;
use std::time::{Duration, Instant};

/// Burst of rejection notices per user, and the interval at which one more is allowed.
const NOTICE_BURST: usize = 5;
const NOTICE_INTERVAL: Duration = Duration::from_secs(12);

/// Setup that allows no user.
fn setup_without_users() -> VerificationSetup {
    VerificationSetup {
        users: Vec::new(),
        ..VerificationSetup::default()
    }
}

/// Number of ephemeral messages to this user.
fn ephemeral_count(world: &VerificationFixture, user: &str) -> usize {
    world.playground.inspect(|workspace| {
        let mut messages: Vec<_> = workspace.ephemerals().collect();
        messages.retain(|message| message.visible_to.as_deref() == Some(user));
        messages.len()
    })
}

#[tokio::test]
async fn slack_rate_limit_uses_no_attempt() {
    let mut setup = VerificationSetup::default();
    setup.workers.posts.retry.max_attempts = 2;
    let world = VerificationFixture::with_setup(setup).await;
    // Longer than a call waits by itself, so that the answer is deferred twice; then one real failure.
    let faults = world.playground.faults();
    faults.rate_limit("chat.stopStream", 4, 2);
    faults.status("chat.stopStream", 500, 1);
    let ts = world
        .playground
        .post(seed::ALEX, seed::DM_ALEX, "hello")
        .unwrap();
    let reaction = world.wait_for_reaction(seed::DM_ALEX, &ts).await;
    let calls = world.playground.inspect(|workspace| {
        let line =
            |call: &interzone_playground::ApiCall| format!("{} {}", call.method, call.outcome);
        workspace.calls().map(line).collect::<Vec<_>>()
    });
    assert_eq!(reaction, "white_check_mark", "{calls:#?}");
    world.wait_until_idle().await;
    let answers = world.answers(seed::DM_ALEX, &ts);
    assert_eq!(answers.len(), 1);
    assert!(answers[0].displayed_text().contains("You said: hello"));
    assert_eq!(world.store.outbox_depth().await.unwrap(), (0, 0));
}

#[tokio::test]
async fn undeliverable_answer_gets_failure_reaction() {
    let world = VerificationFixture::new().await;
    let faults = world.playground.faults();
    for method in ["chat.stopStream", "chat.update", "chat.postMessage"] {
        faults.reject(method, "restricted_action", u32::MAX);
    }
    let ts = world
        .playground
        .post(seed::ALEX, seed::DM_ALEX, "hello")
        .unwrap();
    assert_eq!(world.wait_for_reaction(seed::DM_ALEX, &ts).await, "x");
    world.wait_until_idle().await;
    assert_eq!(
        world.store.outbox_depth().await.unwrap().1,
        1,
        "one entry is dead"
    );
}

#[tokio::test]
async fn rejection_notices_per_user_are_limited() {
    let world = VerificationFixture::with_setup(setup_without_users()).await;
    let started_at = Instant::now();
    for number in 0..8 {
        let text = format!("let me in {number}");
        let slack = &world.playground;
        slack.post(seed::ALEX, seed::DM_ALEX, &text).unwrap();
    }
    world.wait_for_audit_lines(8).await;
    world.wait_until_idle().await;
    let notices = ephemeral_count(&world, seed::ALEX);
    let refilled = started_at.elapsed().as_secs() / NOTICE_INTERVAL.as_secs();
    let max_notices = NOTICE_BURST + usize::try_from(refilled).unwrap();
    assert!(
        (NOTICE_BURST..=max_notices).contains(&notices),
        "{notices} of {max_notices}"
    );
    // Another user still gets a notice.
    world
        .playground
        .post(seed::HANA, seed::DM_HANA, "and me?")
        .unwrap();
    world.wait_for_ephemeral(seed::HANA).await;
    assert!(world.agent.created_tasks().is_empty());
}

#[tokio::test]
async fn retried_rejection_is_sent_and_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("verification.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).await;
    let store = CountingStore::new(store.unwrap());
    let world = VerificationFixture::with_store(store.clone(), setup_without_users(), folder).await;
    for number in 1..=NOTICE_BURST {
        // The end of the last one cannot be written at first, three times over.
        if number == NOTICE_BURST {
            store.fail_claims("inbox/slack/ended/", 3);
        }
        let text = format!("let me in {number}");
        let slack = &world.playground;
        slack.post(seed::ALEX, seed::DM_ALEX, &text).unwrap();
        world.wait_for_audit_lines(number).await;
        world.wait_until_idle().await;
        assert_eq!(ephemeral_count(&world, seed::ALEX), number);
    }
    assert_eq!(
        store.remaining_failures(),
        0,
        "the injected failures happened"
    );
}

#[tokio::test]
async fn feedback_counts_only_for_own_answers() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &ts).await,
        "white_check_mark"
    );
    world.wait_until_idle().await;
    let answer = world.answers(seed::DM_ALEX, &ts).remove(0);
    let team = seed::TEAM.parse().unwrap();
    let channel = seed::DM_ALEX.parse().unwrap();
    let ours = Question::derive_id(&team, &channel, &ts.parse().unwrap());
    let unknown = Question::derive_id(&team, &channel, &"1.5".parse().unwrap());
    let elsewhere = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone hello")
        .unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::GENERAL, &elsewhere).await,
        "white_check_mark"
    );
    world.wait_until_idle().await;
    let other = world.answers(seed::GENERAL, &elsewhere).remove(0);
    let zone = world.running_node().zone.clone();
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
        zone.ingest_interaction(body.as_bytes()).await.unwrap();
        world.wait_until_idle().await;
    };
    let feedbacks = FeedbackStore::new(world.running_node().hub.clone());
    // An unknown question, and one of another channel.
    press(1, seed::DM_ALEX, &answer.ts, &unknown).await;
    press(2, seed::GENERAL, &other.ts, &ours).await;
    assert_eq!(feedbacks.all().await.unwrap(), []);
    press(3, seed::DM_ALEX, &answer.ts, &ours).await;
    let all = feedbacks.all().await.unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!((&all[0].question, all[0].good), (&ours, true));
}

#[tokio::test]
async fn too_long_question_is_not_stored_and_rejected_once() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    slack.faults().add_event_fault(EventFault::Duplicate {
        events: 1,
        copies: 3,
    });
    let long = "quite ".repeat(5_000);
    slack.post(seed::ALEX, seed::DM_ALEX, &long).unwrap();
    let notice = world.wait_for_ephemeral(seed::ALEX).await;
    assert!(
        notice.contains("29,999") || notice.contains("29999"),
        "{notice}"
    );
    let delivered = slack.wait_for(WAIT_TIMEOUT, |workspace| {
        (workspace.deliveries().count() >= 3).then_some(())
    });
    assert!(delivered.await.is_some());
    world.wait_until_idle().await;
    assert_eq!(ephemeral_count(&world, seed::ALEX), 1);
    assert_eq!(world.wait_for_audit_lines(1).await.len(), 1);
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
