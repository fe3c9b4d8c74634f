//! Behaviour while Slack or the store is unavailable during the access checks: bounded waits, reported errors
//! and final decisions.

use super::{VerificationFixture, VerificationSetup, WAIT_TIMEOUT};
use crate::workers::counting_store::CountingStore;
use interzone_playground::{FileShare, seed};
use interzone_protocol::zone::UserMessageKey;
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use interzone_verification::{AskOptions, Language, texts};
use std::time::Duration;

/// Longest wait within a call, in seconds; a longer one defers the question.
const MAX_INLINE_WAIT_SECS: u64 = 4;

fn setup_with_budget(budget: u64, attempts: u32) -> VerificationSetup {
    VerificationSetup {
        ask: AskOptions {
            budget: Duration::from_secs(budget),
            attempts,
            ..AskOptions::default()
        },
        ..VerificationSetup::default()
    }
}

fn busy_text(language: Language) -> &'static str {
    texts::error_text(language, UserMessageKey::Busy)
}

#[tokio::test]
async fn wait_over_budget_is_reported_at_once_in_user_language() {
    let world = VerificationFixture::with_setup(setup_with_budget(20, 3)).await;
    let slack = &world.playground;
    let ts = slack.post(seed::HANA, seed::DM_HANA, "hello").unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_HANA, &ts).await,
        "white_check_mark"
    );
    world.wait_until_idle().await;
    // Alex is not cached yet; Hana is, but not the channel.
    slack.faults().rate_limit("users.info", 3_600, 1);
    slack.faults().rate_limit("conversations.info", 3_600, 2);
    slack
        .post(seed::ALEX, seed::GENERAL, "@interzone hello")
        .unwrap();
    assert_eq!(
        world.wait_for_ephemeral(seed::ALEX).await,
        busy_text(Language::En)
    );
    slack
        .post(seed::HANA, seed::GENERAL, "@interzone hello")
        .unwrap();
    assert_eq!(
        world.wait_for_ephemeral(seed::HANA).await,
        busy_text(Language::Ja)
    );
    world.wait_until_idle().await;
    assert_eq!(world.agent.created_tasks().len(), 1);
    let audited = world.wait_for_audit_lines(3).await;
    assert_eq!(audited.len(), 3, "{audited:?}");
    assert!(
        audited[1..]
            .iter()
            .all(|line| line["outcome"] == "slack_busy")
    );
}

#[tokio::test]
async fn deferral_survives_restart_within_budget() {
    let mut world =
        VerificationFixture::with_setup(setup_with_budget(2 * MAX_INLINE_WAIT_SECS - 1, 3)).await;
    world
        .playground
        .faults()
        .rate_limit("users.info", MAX_INLINE_WAIT_SECS, 2);
    let posted_at = tokio::time::Instant::now();
    world
        .playground
        .post(seed::ALEX, seed::DM_ALEX, "hello")
        .unwrap();
    // During an attempt the lease is longer than these values.
    let deferred = async {
        let channel = [interzone_verification::ASK_CHANNEL.to_owned()];
        let expected = Duration::from_secs(1)..=Duration::from_secs(MAX_INLINE_WAIT_SECS);
        let hub = &world.running_node().hub;
        let due = async || hub.next_due(&channel).await.unwrap();
        while !due().await.is_some_and(|wait| expected.contains(&wait)) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, deferred).await.unwrap();
    world.crash().await;
    world.start_node().await;
    assert_eq!(
        world.wait_for_ephemeral(seed::ALEX).await,
        busy_text(Language::En)
    );
    assert!(
        posted_at.elapsed() >= Duration::from_secs(MAX_INLINE_WAIT_SECS),
        "the deferral was respected"
    );
    world.wait_until_idle().await;
    let calls = world
        .playground
        .inspect(|workspace| workspace.calls_of("users.info").len());
    assert_eq!(calls, 2);
    assert!(world.agent.created_tasks().is_empty());
    assert_eq!(
        world.wait_for_audit_lines(1).await[0]["outcome"],
        "slack_busy"
    );
}

#[tokio::test]
async fn deferral_by_slack_uses_no_attempt() {
    let world = VerificationFixture::with_setup(setup_with_budget(60, 2)).await;
    let slack = &world.playground;
    slack
        .faults()
        .rate_limit("users.info", MAX_INLINE_WAIT_SECS, 1);
    // More calls than a client makes in one attempt, and no more than in two.
    world.agent.fail_next_calls(5);
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &ts).await,
        "white_check_mark"
    );
    assert_eq!(world.agent.created_tasks().len(), 1);
}

#[tokio::test]
async fn long_unavailable_execution_zone_fails_question_at_once() {
    let world = VerificationFixture::with_setup(setup_with_budget(60, 3)).await;
    let slack = &world.playground;
    world.agent.fail_with_retry_after(3_600);
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(world.wait_for_reaction(seed::DM_ALEX, &ts).await, "x");
    world.wait_until_idle().await;
    assert!(world.agent.created_tasks().is_empty());
}

#[tokio::test]
async fn unexpected_slack_error_is_retried() {
    let world = VerificationFixture::new().await;
    let slack = &world.playground;
    slack.faults().reject("users.info", "an_unknown_error", 1);
    slack.faults().status("conversations.info", 404, 1);
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &ts).await,
        "white_check_mark"
    );
    assert_eq!(
        world.wait_for_audit_lines(1).await[0]["outcome"],
        "answered"
    );
}

#[tokio::test]
async fn persistent_slack_error_is_reported_to_asker_only() {
    let mut setup = VerificationSetup::default();
    setup.workers.asks.retry.max_attempts = 3;
    let world = VerificationFixture::with_setup(setup).await;
    let slack = &world.playground;
    slack.faults().status("users.info", 404, 3);
    let ts = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone hello")
        .unwrap();
    let expected = texts::error_text(Language::En, UserMessageKey::Generic);
    assert_eq!(world.wait_for_ephemeral(seed::ALEX).await, expected);
    world.wait_until_idle().await;
    assert!(world.answers(seed::GENERAL, &ts).is_empty());
    assert_eq!(
        world.wait_for_audit_lines(1).await[0]["outcome"],
        "internal_error"
    );
    // The failed lookup was not cached as an unknown user.
    let retried = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &retried).await,
        "white_check_mark"
    );
}

#[tokio::test]
async fn rate_limited_question_stays_rejected_on_retry() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("verification.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).await;
    let store = CountingStore::new(store.unwrap());
    let setup = VerificationSetup {
        per_minute: 2,
        ..VerificationSetup::default()
    };
    let world = VerificationFixture::with_store(store.clone(), setup, folder).await;
    let slack = &world.playground;
    for text in ["one", "two"] {
        let ts = slack.post(seed::ALEX, seed::DM_ALEX, text).unwrap();
        assert_eq!(
            world.wait_for_reaction(seed::DM_ALEX, &ts).await,
            "white_check_mark"
        );
        world.wait_until_idle().await;
    }
    // The rejection is decided, and first the notice and then the end cannot be written.
    for (text, audited, claim) in [
        ("three", 3, "inbox/slack/told/"),
        ("four", 4, "inbox/slack/ended/"),
    ] {
        store.fail_claims(claim, 2);
        slack.post(seed::ALEX, seed::DM_ALEX, text).unwrap();
        let lines = world.wait_for_audit_lines(audited).await;
        assert_eq!(lines[audited - 1]["outcome"], "rate_limited", "{text}");
        world.wait_until_idle().await;
        assert_eq!(
            store.remaining_failures(),
            0,
            "the injected failures happened"
        );
    }
    assert_eq!(world.agent.created_tasks().len(), 2);
}

#[tokio::test]
async fn retried_question_is_charged_once() {
    let world = VerificationFixture::with_setup(VerificationSetup {
        per_minute: 2,
        ..VerificationSetup::default()
    })
    .await;
    let slack = &world.playground;
    slack.faults().status("download", 503, 2);
    let first = slack
        .upload(&FileShare {
            user: seed::ALEX,
            channel: seed::DM_ALEX,
            text: "read this",
            files: vec![("a.txt".to_owned(), "hello".into())],
            ..FileShare::default()
        })
        .unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &first).await,
        "white_check_mark"
    );
    let second = slack.post(seed::ALEX, seed::DM_ALEX, "two").unwrap();
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &second).await,
        "white_check_mark"
    );
    slack.post(seed::ALEX, seed::DM_ALEX, "three").unwrap();
    world.wait_for_ephemeral(seed::ALEX).await;
    assert_eq!(world.agent.created_tasks().len(), 2);
}
