//! Crashes between any two steps: no question is asked twice, and no message is posted twice or lost.

use super::{VerificationFixture, WAIT_TIMEOUT};
use interzone_playground::{FaultTiming, FileShare, seed};
use std::time::Duration;

/// Crashes the zone at its Slack call number `skip`, before or after Slack has executed it; returns true if
/// there was such a call.
async fn crash_at_call(skip: u32, when: FaultTiming, text: &str) -> bool {
    let mut world = VerificationFixture::new().await;
    let mut gate = world.playground.faults().break_point(None, skip, when);
    let ts = world
        .playground
        .upload(&FileShare {
            user: seed::ALEX,
            channel: seed::DM_ALEX,
            text,
            files: vec![("a.txt".to_owned(), "hello".into())],
            ..FileShare::default()
        })
        .unwrap();
    let finished = world.wait_for_reaction(seed::DM_ALEX, &ts);
    let call = tokio::select! {
        call = gate.wait_reached(WAIT_TIMEOUT) => call,
        _ = finished => None,
    };
    let reached = call.is_some();
    if reached {
        world.crash().await;
        gate.open();
        world.start_node().await;
    }
    let step = format!("{skip} {when:?} {call:?}");
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &ts).await,
        "white_check_mark",
        "{step}"
    );
    world.wait_until_idle().await;
    assert_eq!(world.agent.created_tasks().len(), 1, "asked twice: {step}");
    let answers = world.answers(seed::DM_ALEX, &ts);
    let texts: Vec<_> = answers
        .iter()
        .filter(|answer| answer.files.is_empty())
        .map(|answer| answer.displayed_text())
        .collect();
    assert_eq!(texts.len(), 1, "{step}: {texts:?}");
    let files = answers.iter().filter(|answer| !answer.files.is_empty());
    let expected = usize::from(text.starts_with("file"));
    assert_eq!(files.count(), expected, "{step}");
    assert_eq!(world.wait_for_audit_lines(1).await.len(), 1, "{step}");
    reached
}

async fn crash_at_every_call(when: FaultTiming, text: &str) {
    let mut steps = 0;
    while crash_at_call(steps, when, text).await {
        steps += 1;
        assert!(steps < 60, "too many Slack calls");
    }
    assert!(steps >= 8, "only {steps} steps were tried");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_before_any_slack_call_loses_nothing() {
    crash_at_every_call(FaultTiming::Before, "file csv").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn crash_after_any_slack_call_loses_nothing() {
    crash_at_every_call(FaultTiming::After, "file csv").await;
}

#[tokio::test]
async fn crash_while_agent_works_asks_once() {
    let mut world = VerificationFixture::new().await;
    let thread = world
        .playground
        .post(seed::HANA, seed::GENERAL, "the beginning")
        .unwrap();
    let ts = world
        .playground
        .reply(seed::ALEX, seed::GENERAL, &thread, "@interzone wait")
        .unwrap();
    world.agent.wait_for_tasks(1).await;
    world.crash().await;
    // New messages in the thread would change the context, and so the question to the agent.
    world
        .playground
        .reply(seed::HANA, seed::GENERAL, &thread, "one more thing")
        .unwrap();
    world.start_node().await;
    world.agent.finish("done");
    assert_eq!(
        world.wait_for_reaction(seed::GENERAL, &ts).await,
        "white_check_mark"
    );
    world.wait_until_idle().await;
    assert_eq!(world.agent.created_tasks().len(), 1);
    assert_eq!(world.answers(seed::GENERAL, &thread).len(), 1);
}

#[tokio::test]
async fn files_gone_at_second_attempt_keep_same_question() {
    let mut world = VerificationFixture::new().await;
    let ts = world
        .playground
        .upload(&FileShare {
            user: seed::ALEX,
            channel: seed::DM_ALEX,
            text: "wait and read",
            files: vec![("a.txt".to_owned(), "hello".into())],
            ..FileShare::default()
        })
        .unwrap();
    world.agent.wait_for_tasks(1).await;
    // The task id was stored when its first text was shown.
    let shown = world.playground.wait_for(WAIT_TIMEOUT, |workspace| {
        let mut thread = workspace.thread(seed::DM_ALEX, &ts).into_iter();
        thread.find(|message| message.user == seed::BOT_USER)?;
        Some(())
    });
    shown.await.unwrap();
    world.crash().await;
    world.playground.faults().status("download", 404, u32::MAX);
    world.start_node().await;
    world.agent.finish("done");
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &ts).await,
        "white_check_mark"
    );
    world.wait_until_idle().await;
    assert_eq!(world.agent.created_tasks().len(), 1);
}

#[tokio::test]
async fn orderly_shutdown_releases_open_question() {
    let mut world = VerificationFixture::new().await;
    let ts = world
        .playground
        .post(seed::ALEX, seed::DM_ALEX, "wait")
        .unwrap();
    world.agent.wait_for_tasks(1).await;
    world.shut_down(Duration::from_millis(50)).await;
    assert_eq!(world.store.outbox_depth().await.unwrap().0, 1);
    world.start_node().await;
    world.agent.finish("done");
    assert_eq!(
        world.wait_for_reaction(seed::DM_ALEX, &ts).await,
        "white_check_mark"
    );
    world.wait_until_idle().await;
    assert_eq!(world.agent.created_tasks().len(), 1);
    assert_eq!(world.answers(seed::DM_ALEX, &ts).len(), 1);
}
