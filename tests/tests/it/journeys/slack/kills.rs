//! Ended without a warning between any two steps: no answer is lost, none comes twice.

use super::super::peers::postgres;
use super::place::{DONE, Place, Plan, answers, has};
use interzone_playground::{When, seed};
use std::time::Duration;

/// More calls than an answer with a file takes.
const MOST: u32 = 60;

/// Where several nodes may share a store, what a dead one held is due when its hold is over.
const HELD: Duration = Duration::from_secs(30);

/// Kills the zone at its `step`-th call for a question, of all or of one method, and looks at what comes of
/// it. Gives whether there was such a call.
async fn killed_at(place: &mut Place, method: Option<&str>, step: u32, when: When) -> bool {
    let faults = place.slack.faults();
    let mut gate = faults.gate(method, step, when);
    let question = place
        .slack
        .post(seed::ALEX, seed::GENERAL, "@interzone file csv a,b")
        .unwrap();
    let finished = place.slack.wait(Duration::from_secs(60), |workspace| {
        has(workspace.message(seed::GENERAL, &question)?, DONE).then_some(())
    });
    let call = tokio::select! {
        biased;
        call = gate.reached(Duration::from_secs(60)) => call,
        done = finished => {
            assert!(done.is_some(), "step {step} {when:?}: neither the call nor the end came");
            // What a call did is seen before the call stands at the gate. A gate that no call has met goes at once.
            faults.clear();
            gate.reached(Duration::from_secs(60)).await
        }
    };
    let Some(call) = call else {
        faults.clear();
        return false;
    };
    place.nodes[0].kill();
    faults.clear();
    drop(gate);
    place.nodes[0].begin().await;
    let at = format!("killed {when:?} call {step}, {}", call.method);
    let done = place.slack.wait(3 * HELD, |workspace| {
        has(workspace.message(seed::GENERAL, &question)?, DONE).then_some(())
    });
    assert!(done.await.is_some(), "{at}: it never ended");
    let thread = place.slack.thread(seed::GENERAL, &question);
    let said = answers(&thread);
    let texts = said.iter().filter(|text| text.contains("Here is")).count();
    let files: usize = thread.iter().map(|message| message.files.len()).sum();
    assert_eq!(texts, 1, "{at}: one answer: {thread:#?}");
    assert_eq!(files, 1, "{at}: one file: {thread:#?}");
    assert!(
        said.len() <= 2,
        "{at}: nothing beside the text and the file: {said:#?}"
    );
    true
}

async fn killed_everywhere(when: When) {
    let mut place = Plan::new().start().await;
    let mut step = 0;
    while killed_at(&mut place, None, step, when).await {
        step += 1;
        assert!(step < MOST, "an answer has an end");
    }
    assert!(
        step >= 6,
        "an answer with a file has more calls than {step}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_any_call_it_answers_exactly_once() {
    killed_everywhere(When::Before).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_after_any_call_had_its_effect_it_answers_exactly_once() {
    killed_everywhere(When::After).await;
}

/// On PostgreSQL, where a restart does not know that nobody else holds what it held.
async fn killed_on_postgres(method: &str, name: &str) {
    let schema = format!("slack_kill_{name}_{}", std::process::id());
    let plan = Plan::new().nodes(1, &postgres());
    let mut place = plan.set("store.schema", schema).start().await;
    let reached = killed_at(&mut place, Some(method), 0, When::After).await;
    assert!(reached, "{method} is called for every answer with a file");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_killed_when_its_words_stand_there_it_answers_exactly_once() {
    killed_on_postgres("chat.postMessage", "words").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_killed_when_its_file_hangs_there_it_answers_exactly_once() {
    killed_on_postgres("files.completeUploadExternal", "file").await;
}

/// Killed while an answer grows, and nobody has heard that the last addition arrived.
#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_killed_while_an_answer_grows_it_is_finished_as_one() {
    let schema = format!("slack_kill_grows_{}", std::process::id());
    let plan = Plan::new().nodes(1, &postgres());
    let mut place = plan.set("store.schema", schema).start().await;
    let faults = place.slack.faults();
    let mut gate = faults.gate(Some("chat.appendStream"), 0, When::After);
    let question = place
        .slack
        .post(seed::ALEX, seed::GENERAL, "@interzone stream 100")
        .unwrap();
    assert!(gate.reached(HELD).await.is_some(), "it grows");
    place.nodes[0].kill();
    drop(gate);
    place.nodes[0].begin().await;
    let done = place.slack.wait(3 * HELD, |workspace| {
        has(workspace.message(seed::GENERAL, &question)?, DONE).then_some(())
    });
    assert!(done.await.is_some(), "it never ended");
    let said = answers(&place.slack.thread(seed::GENERAL, &question));
    assert_eq!(said.len(), 1, "{said:#?}");
    assert_eq!(said[0].split_whitespace().count(), 100, "{said:#?}");
}

/// Asked to stop in the middle of an answer, it leaves nothing half-posted behind for good.
#[tokio::test(flavor = "multi_thread")]
async fn stopped_in_order_it_ends_well_and_goes_on_afterwards() {
    let mut place = Plan::new().set("verification.grace", "2s").start().await;
    let question = place
        .slack
        .post(seed::ALEX, seed::GENERAL, "@interzone stream 400")
        .unwrap();
    place
        .wait("the first words", |workspace| {
            let thread = workspace.thread(seed::GENERAL, &question);
            (thread.len() > 1).then_some(())
        })
        .await;
    assert!(place.nodes[0].stop().await, "it ended well");
    place.nodes[0].begin().await;
    let thread = place.marked(seed::GENERAL, &question, DONE).await;
    let said = answers(&thread);
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].split_whitespace().count() == 400, "{said:#?}");
}

/// Asked to stop with time enough, it ends what it has begun to say before it goes.
#[tokio::test(flavor = "multi_thread")]
async fn what_ends_within_the_grace_is_posted_whole_before_the_end() {
    let mut place = Plan::new().set("verification.grace", "30s").start().await;
    let question = place
        .slack
        .post(seed::ALEX, seed::GENERAL, "@interzone stream 100")
        .unwrap();
    place
        .wait("the first words", |workspace| {
            (workspace.thread(seed::GENERAL, &question).len() > 1).then_some(())
        })
        .await;
    assert!(place.nodes[0].stop().await, "it ended well");
    let thread = place.slack.thread(seed::GENERAL, &question);
    let said = answers(&thread);
    assert_eq!(said.len(), 1, "{said:#?}");
    assert_eq!(said[0].split_whitespace().count(), 100, "{said:#?}");
    assert!(has(&thread[0], DONE), "and signed: {thread:#?}");
}

/// Asked while the zone is down, as Slack's retry finds it later.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_asked_while_it_was_down_is_answered_when_slack_comes_again() {
    let mut place = Plan::new()
        .slack(|slack| {
            slack.retry_delays = vec![Duration::from_millis(100); 600];
        })
        .start()
        .await;
    place.nodes[0].kill();
    let question = place
        .slack
        .post(seed::ALEX, seed::DM_ALEX, "echo still here")
        .unwrap();
    place
        .wait("a delivery that failed", |workspace| {
            let mut all = workspace.deliveries();
            all.any(|one| one.outcome == "connection_failed")
                .then_some(())
        })
        .await;
    place.nodes[0].begin().await;
    let thread = place.marked(seed::DM_ALEX, &question, DONE).await;
    assert_eq!(answers(&thread), ["still here"]);
}
