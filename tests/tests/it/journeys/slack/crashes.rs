//! SIGKILL and SIGTERM between any two steps: every question is answered exactly once.

use super::super::peers::postgres_url;
use super::fixture::{DONE, SlackTest, SlackTestBuilder, answers, has_reaction};
use interzone_playground::{FaultTiming, seed};
use std::time::Duration;

/// More API calls than an answer with a file needs.
const MAX_API_CALLS: u32 = 60;

/// Lease duration: on a store that several nodes may share, work of a dead node is due again when its lease expires.
const LEASE_DURATION: Duration = Duration::from_secs(30);

/// Kills the zone at its `step`-th API call for a question, counted over all methods or one, restarts it and checks the
/// thread. Returns false if there was no such call.
async fn kill_at_call(
    test: &mut SlackTest,
    method: Option<&str>,
    step: u32,
    when: FaultTiming,
) -> bool {
    let faults = test.slack.faults();
    let mut gate = faults.break_point(method, step, when);
    let question = test
        .slack
        .post(seed::ALEX, seed::GENERAL, "@interzone file csv a,b")
        .unwrap();
    let finished = test.slack.wait_for(Duration::from_secs(60), |workspace| {
        has_reaction(workspace.message(seed::GENERAL, &question)?, DONE).then_some(())
    });
    let call = tokio::select! {
        biased;
        call = gate.wait_reached(Duration::from_secs(60)) => call,
        done = finished => {
            assert!(done.is_some(), "step {step} {when:?}: neither the call nor the end");
            // A call's effect is visible before the call reaches the gate. `clear` drops a gate no call has reached.
            faults.clear();
            gate.wait_reached(Duration::from_secs(60)).await
        }
    };
    let Some(call) = call else {
        faults.clear();
        return false;
    };
    test.nodes[0].kill();
    faults.clear();
    drop(gate);
    test.nodes[0].start().await;
    let context = format!("killed {when:?} call {step}, {}", call.method);
    let done = test.slack.wait_for(3 * LEASE_DURATION, |workspace| {
        has_reaction(workspace.message(seed::GENERAL, &question)?, DONE).then_some(())
    });
    assert!(
        done.await.is_some(),
        "{context}: the question was never done"
    );
    let thread = test.slack.thread(seed::GENERAL, &question);
    let replies = answers(&thread);
    let text_count = replies
        .iter()
        .filter(|text| text.contains("Here is"))
        .count();
    let file_count: usize = thread.iter().map(|message| message.files.len()).sum();
    assert_eq!(text_count, 1, "{context}: one answer: {thread:#?}");
    assert_eq!(file_count, 1, "{context}: one file: {thread:#?}");
    assert!(
        replies.len() <= 2,
        "{context}: only the text and the file: {replies:#?}"
    );
    true
}

async fn kill_at_every_call(when: FaultTiming) {
    let mut test = SlackTestBuilder::new().start().await;
    let mut step = 0;
    while kill_at_call(&mut test, None, step, when).await {
        step += 1;
        assert!(step < MAX_API_CALLS, "too many calls for one answer");
    }
    assert!(
        step >= 6,
        "an answer with a file has more calls than {step}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_before_any_api_call_still_answers_once() {
    kill_at_every_call(FaultTiming::Before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_after_any_api_call_still_answers_once() {
    kill_at_every_call(FaultTiming::After).await;
}

/// Kills the zone after its first call of `method`. On PostgreSQL a restarted node cannot assume that its former leases
/// are free.
async fn kill_on_postgres(method: &str, name: &str) {
    let schema = format!("slack_kill_{name}_{}", std::process::id());
    let builder = SlackTestBuilder::new().nodes(1, &postgres_url());
    let mut test = builder.set("store.schema", schema).start().await;
    let reached = kill_at_call(&mut test, Some(method), 0, FaultTiming::After).await;
    assert!(reached, "{method} is called for every answer with a file");
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_after_text_post_on_postgres_answers_once() {
    kill_on_postgres("chat.postMessage", "text").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kill_after_file_upload_on_postgres_answers_once() {
    kill_on_postgres("files.completeUploadExternal", "file").await;
}

/// The zone is killed while an answer is streamed, before the response to the last append arrived.
#[tokio::test(flavor = "multi_thread")]
async fn kill_during_stream_on_postgres_finishes_the_answer() {
    let schema = format!("slack_kill_stream_{}", std::process::id());
    let builder = SlackTestBuilder::new().nodes(1, &postgres_url());
    let mut test = builder.set("store.schema", schema).start().await;
    let faults = test.slack.faults();
    let mut gate = faults.break_point(Some("chat.appendStream"), 0, FaultTiming::After);
    let question = test
        .slack
        .post(seed::ALEX, seed::GENERAL, "@interzone stream 100")
        .unwrap();
    assert!(
        gate.wait_reached(LEASE_DURATION).await.is_some(),
        "text is appended"
    );
    test.nodes[0].kill();
    drop(gate);
    test.nodes[0].start().await;
    let done = test.slack.wait_for(3 * LEASE_DURATION, |workspace| {
        has_reaction(workspace.message(seed::GENERAL, &question)?, DONE).then_some(())
    });
    assert!(done.await.is_some(), "the question was never done");
    let replies = answers(&test.slack.thread(seed::GENERAL, &question));
    assert_eq!(replies.len(), 1, "{replies:#?}");
    assert_eq!(replies[0].split_whitespace().count(), 100, "{replies:#?}");
}

/// A zone stopped in the middle of an answer completes it after the restart.
#[tokio::test(flavor = "multi_thread")]
async fn stop_during_answer_completes_it_after_restart() {
    let mut test = SlackTestBuilder::new()
        .set("verification.shutdown_grace", "2s")
        .start()
        .await;
    let question = test
        .slack
        .post(seed::ALEX, seed::GENERAL, "@interzone stream 400")
        .unwrap();
    test.wait("the first text", |workspace| {
        let thread = workspace.thread(seed::GENERAL, &question);
        (thread.len() > 1).then_some(())
    })
    .await;
    assert!(test.nodes[0].stop().await, "exit status");
    test.nodes[0].start().await;
    let thread = test.wait_for_reaction(seed::GENERAL, &question, DONE).await;
    let replies = answers(&thread);
    assert_eq!(replies.len(), 1, "{replies:#?}");
    assert!(replies[0].split_whitespace().count() == 400, "{replies:#?}");
}

/// With enough shutdown grace, the zone finishes the answer before it exits.
#[tokio::test(flavor = "multi_thread")]
async fn answer_within_shutdown_grace_is_posted_before_exit() {
    let mut test = SlackTestBuilder::new()
        .set("verification.shutdown_grace", "30s")
        .start()
        .await;
    let question = test
        .slack
        .post(seed::ALEX, seed::GENERAL, "@interzone stream 100")
        .unwrap();
    test.wait("the first text", |workspace| {
        (workspace.thread(seed::GENERAL, &question).len() > 1).then_some(())
    })
    .await;
    assert!(test.nodes[0].stop().await, "exit status");
    let thread = test.slack.thread(seed::GENERAL, &question);
    let replies = answers(&thread);
    assert_eq!(replies.len(), 1, "{replies:#?}");
    assert_eq!(replies[0].split_whitespace().count(), 100, "{replies:#?}");
    assert!(has_reaction(&thread[0], DONE), "no done emoji: {thread:#?}");
}

/// The question is posted while the zone is down; Slack's retry delivers the event after the restart.
#[tokio::test(flavor = "multi_thread")]
async fn question_during_downtime_is_answered_on_slack_retry() {
    let mut test = SlackTestBuilder::new()
        .slack(|slack| {
            slack.retry_delays = vec![Duration::from_millis(100); 600];
        })
        .start()
        .await;
    test.nodes[0].kill();
    let question = test
        .slack
        .post(seed::ALEX, seed::DM_ALEX, "echo still here")
        .unwrap();
    test.wait("a delivery that failed", |workspace| {
        let mut all = workspace.deliveries();
        all.any(|one| one.outcome == "connection_failed")
            .then_some(())
    })
    .await;
    test.nodes[0].start().await;
    let thread = test.wait_for_reaction(seed::DM_ALEX, &question, DONE).await;
    assert_eq!(answers(&thread), ["still here"]);
}
