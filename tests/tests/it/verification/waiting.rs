//! What happens while Slack or the store cannot say who asks: waits that end, faults that are told, and
//! decisions that stand.

use super::{PATIENCE, Setup, World};
use crate::workers::counting::Counting;
use interzone_playground::{Upload, seed};
use interzone_protocol::zone::MessageKey;
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use interzone_verification::{AskOptions, Language, texts};
use std::time::Duration;

/// Within a call, a wait is no longer than this many seconds; a longer one puts the question off.
const LONG: u64 = 4;

fn within(budget: u64, attempts: u32) -> Setup {
    Setup {
        ask: AskOptions {
            budget: Duration::from_secs(budget),
            attempts,
            ..AskOptions::default()
        },
        ..Setup::default()
    }
}

fn busy(language: Language) -> &'static str {
    texts::error(language, MessageKey::Busy)
}

#[tokio::test]
async fn whoever_would_wait_for_too_long_is_told_at_once_in_their_language() {
    let world = World::with(within(20, 3)).await;
    let slack = &world.playground;
    let ts = slack.post(seed::HANA, seed::DM_HANA, "hello").unwrap();
    assert_eq!(world.sign(seed::DM_HANA, &ts).await, "white_check_mark");
    world.quiet().await;
    // Nobody knows yet who Alex is, and of Hana it is known, but not where she is.
    slack.faults().rate_limit("users.info", 3_600, 1);
    slack.faults().rate_limit("conversations.info", 3_600, 2);
    slack
        .post(seed::ALEX, seed::GENERAL, "@interzone hello")
        .unwrap();
    assert_eq!(world.told(seed::ALEX).await, busy(Language::En));
    slack
        .post(seed::HANA, seed::GENERAL, "@interzone hello")
        .unwrap();
    assert_eq!(world.told(seed::HANA).await, busy(Language::Ja));
    world.quiet().await;
    assert_eq!(world.agent.asked().len(), 1);
    let audited = world.audited(3).await;
    assert_eq!(audited.len(), 3, "{audited:?}");
    assert!(
        audited[1..]
            .iter()
            .all(|line| line["outcome"] == "slack_busy")
    );
}

#[tokio::test]
async fn a_wait_is_kept_to_and_its_time_goes_on_over_a_restart() {
    let mut world = World::with(within(2 * LONG - 1, 3)).await;
    world.playground.faults().rate_limit("users.info", LONG, 2);
    let asked = tokio::time::Instant::now();
    world
        .playground
        .post(seed::ALEX, seed::DM_ALEX, "hello")
        .unwrap();
    // While it is tried it is held for longer, and due by then.
    let waits = async {
        let channel = [interzone_verification::ASK_CHANNEL.to_owned()];
        let waits = Duration::from_secs(1)..=Duration::from_secs(LONG);
        let hub = &world.running().hub;
        let due = async || hub.next_out(&channel).await.unwrap();
        while !due().await.is_some_and(|wait| waits.contains(&wait)) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, waits).await.unwrap();
    world.crash().await;
    world.start().await;
    assert_eq!(world.told(seed::ALEX).await, busy(Language::En));
    assert!(
        asked.elapsed() >= Duration::from_secs(LONG),
        "it was kept to"
    );
    world.quiet().await;
    let calls = world
        .playground
        .look(|workspace| workspace.calls_of("users.info").len());
    assert_eq!(calls, 2);
    assert!(world.agent.asked().is_empty());
    assert_eq!(world.audited(1).await[0]["outcome"], "slack_busy");
}

#[tokio::test]
async fn to_be_put_off_by_slack_takes_no_try() {
    let world = World::with(within(60, 2)).await;
    let slack = &world.playground;
    slack.faults().rate_limit("users.info", LONG, 1);
    // More calls than a client makes in one try, and no more than in two.
    world.agent.be_away(5);
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "white_check_mark");
    assert_eq!(world.agent.asked().len(), 1);
}

#[tokio::test]
async fn an_execution_zone_that_is_away_for_too_long_is_told_at_once() {
    let world = World::with(within(60, 3)).await;
    let slack = &world.playground;
    world.agent.be_back_in(3_600);
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "x");
    world.quiet().await;
    assert!(world.agent.asked().is_empty());
}

#[tokio::test]
async fn what_nobody_understands_of_slack_is_asked_again() {
    let world = World::new().await;
    let slack = &world.playground;
    slack.faults().refuse("users.info", "a_word_of_tomorrow", 1);
    slack.faults().status("conversations.info", 404, 1);
    let ts = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "white_check_mark");
    assert_eq!(world.audited(1).await[0]["outcome"], "answered");
}

#[tokio::test]
async fn what_nobody_ever_understands_is_told_as_a_fault_to_the_asker_alone() {
    let mut setup = Setup::default();
    setup.workers.asks.retry.attempts = 3;
    let world = World::with(setup).await;
    let slack = &world.playground;
    slack.faults().status("users.info", 404, 3);
    let ts = slack
        .post(seed::ALEX, seed::GENERAL, "@interzone hello")
        .unwrap();
    let fault = texts::error(Language::En, MessageKey::Generic);
    assert_eq!(world.told(seed::ALEX).await, fault);
    world.quiet().await;
    assert!(world.answers(seed::GENERAL, &ts).is_empty());
    assert_eq!(world.audited(1).await[0]["outcome"], "internal_error");
    // It was not kept that there is no such user.
    let again = slack.post(seed::ALEX, seed::DM_ALEX, "hello").unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &again).await, "white_check_mark");
}

#[tokio::test]
async fn a_question_that_was_too_much_is_so_however_often_it_is_tried() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("verification.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).await;
    let store = Counting::new(store.unwrap());
    let setup = Setup {
        per_minute: 2,
        ..Setup::default()
    };
    let world = World::on(store.clone(), setup, folder).await;
    let slack = &world.playground;
    for text in ["one", "two"] {
        let ts = slack.post(seed::ALEX, seed::DM_ALEX, text).unwrap();
        assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "white_check_mark");
        world.quiet().await;
    }
    // The refusal is decided, and at first it can be written neither that it is told nor that it ended.
    for (text, audited, claim) in [
        ("three", 3, "inbox/slack/told/"),
        ("four", 4, "inbox/slack/ended/"),
    ] {
        store.fail_claims(claim, 2);
        slack.post(seed::ALEX, seed::DM_ALEX, text).unwrap();
        let lines = world.audited(audited).await;
        assert_eq!(lines[audited - 1]["outcome"], "rate_limited", "{text}");
        world.quiet().await;
        assert_eq!(store.left_to_fail(), 0, "it has failed as told");
    }
    assert_eq!(world.agent.asked().len(), 2);
}

#[tokio::test]
async fn a_question_that_is_tried_again_is_charged_once() {
    let world = World::with(Setup {
        per_minute: 2,
        ..Setup::default()
    })
    .await;
    let slack = &world.playground;
    slack.faults().status("download", 503, 2);
    let first = slack
        .upload(&Upload {
            user: seed::ALEX,
            channel: seed::DM_ALEX,
            text: "read this",
            files: vec![("a.txt".to_owned(), "hello".into())],
            ..Upload::default()
        })
        .unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &first).await, "white_check_mark");
    let second = slack.post(seed::ALEX, seed::DM_ALEX, "two").unwrap();
    assert_eq!(world.sign(seed::DM_ALEX, &second).await, "white_check_mark");
    slack.post(seed::ALEX, seed::DM_ALEX, "three").unwrap();
    world.told(seed::ALEX).await;
    assert_eq!(world.agent.asked().len(), 2);
}
