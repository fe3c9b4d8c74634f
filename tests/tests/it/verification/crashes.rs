//! The zone dies between any two steps: nobody is asked twice, and nothing is posted twice or lost.

use super::{PATIENCE, World};
use interzone_playground::{Upload, When, seed};
use std::time::Duration;

/// Lets the zone die at its call number `skip` of Slack, before or after Slack has done it, and gives
/// whether there was such a call.
async fn dies_at(skip: u32, when: When, text: &str) -> bool {
    let mut world = World::new().await;
    let mut gate = world.playground.faults().gate(None, skip, when);
    let ts = world
        .playground
        .upload(&Upload {
            user: seed::ALEX,
            channel: seed::DM_ALEX,
            text,
            files: vec![("a.txt".to_owned(), "hello".into())],
            ..Upload::default()
        })
        .unwrap();
    let signed = world.sign(seed::DM_ALEX, &ts);
    let call = tokio::select! {
        call = gate.reached(PATIENCE) => call,
        _ = signed => None,
    };
    let reached = call.is_some();
    if reached {
        world.crash().await;
        gate.open();
        world.start().await;
    }
    let step = format!("{skip} {when:?} {call:?}");
    assert_eq!(
        world.sign(seed::DM_ALEX, &ts).await,
        "white_check_mark",
        "{step}"
    );
    world.quiet().await;
    assert_eq!(world.agent.asked().len(), 1, "asked twice: {step}");
    let answers = world.answers(seed::DM_ALEX, &ts);
    let texts: Vec<_> = answers
        .iter()
        .filter(|answer| answer.files.is_empty())
        .map(|answer| answer.shown())
        .collect();
    assert_eq!(texts.len(), 1, "{step}: {texts:?}");
    let files = answers.iter().filter(|answer| !answer.files.is_empty());
    let expected = usize::from(text.starts_with("file"));
    assert_eq!(files.count(), expected, "{step}");
    assert_eq!(world.audited(1).await.len(), 1, "{step}");
    reached
}

async fn dies_at_every_call(when: When, text: &str) {
    let mut steps = 0;
    while dies_at(steps, when, text).await {
        steps += 1;
        assert!(steps < 60, "it never ends");
    }
    assert!(steps >= 8, "only {steps} steps were tried");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn before_any_call_of_slack() {
    dies_at_every_call(When::Before, "file csv").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_any_call_of_slack() {
    dies_at_every_call(When::After, "file csv").await;
}

#[tokio::test]
async fn while_the_agent_works_and_the_thread_goes_on() {
    let mut world = World::new().await;
    let thread = world
        .playground
        .post(seed::HANA, seed::GENERAL, "the beginning")
        .unwrap();
    let ts = world
        .playground
        .reply(seed::ALEX, seed::GENERAL, &thread, "@interzone wait")
        .unwrap();
    world.agent.has_begun(1).await;
    world.crash().await;
    // What is said meanwhile would be new context, and another question to the agent.
    world
        .playground
        .reply(seed::HANA, seed::GENERAL, &thread, "one more thing")
        .unwrap();
    world.start().await;
    world.agent.finish("done");
    assert_eq!(world.sign(seed::GENERAL, &ts).await, "white_check_mark");
    world.quiet().await;
    assert_eq!(world.agent.asked().len(), 1);
    assert_eq!(world.answers(seed::GENERAL, &thread).len(), 1);
}

#[tokio::test]
async fn files_that_are_gone_by_the_second_attempt_do_not_make_it_another_question() {
    let mut world = World::new().await;
    let ts = world
        .playground
        .upload(&Upload {
            user: seed::ALEX,
            channel: seed::DM_ALEX,
            text: "wait and read",
            files: vec![("a.txt".to_owned(), "hello".into())],
            ..Upload::default()
        })
        .unwrap();
    world.agent.has_begun(1).await;
    // Which task it is was noted when its first words were shown.
    let shown = world.playground.wait(PATIENCE, |workspace| {
        let mut thread = workspace.thread(seed::DM_ALEX, &ts).into_iter();
        thread.find(|message| message.user == seed::BOT_USER)?;
        Some(())
    });
    shown.await.unwrap();
    world.crash().await;
    world.playground.faults().status("download", 404, u32::MAX);
    world.start().await;
    world.agent.finish("done");
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "white_check_mark");
    world.quiet().await;
    assert_eq!(world.agent.asked().len(), 1);
}

#[tokio::test]
async fn a_stop_in_good_order_hands_back_what_is_not_done() {
    let mut world = World::new().await;
    let ts = world
        .playground
        .post(seed::ALEX, seed::DM_ALEX, "wait")
        .unwrap();
    world.agent.has_begun(1).await;
    world.close(Duration::from_millis(50)).await;
    assert_eq!(world.store.outbox_depth().await.unwrap().0, 1);
    world.start().await;
    world.agent.finish("done");
    assert_eq!(world.sign(seed::DM_ALEX, &ts).await, "white_check_mark");
    world.quiet().await;
    assert_eq!(world.agent.asked().len(), 1);
    assert_eq!(world.answers(seed::DM_ALEX, &ts).len(), 1);
}
