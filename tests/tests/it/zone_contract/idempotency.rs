//! Idempotent retries: a repeated call never starts a second run, whatever happens in between.

use super::{
    ZoneFixture, ZoneSetup, call_object, completed_with, params, params_with, scripted_agent,
};
use futures_util::future::join_all;
use interzone_hub::{Agent, TurnOutcome};
use interzone_protocol::vocab::{Message, Role};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

const ID: &str = "5f0f0a5c-8f0a-4c1e-9d59-000000000001";

/// Agent that counts its runs and completes each with a permit.
fn counting_agent(runs: &Arc<AtomicUsize>, may_end: &Arc<Semaphore>) -> Arc<dyn Agent> {
    let (runs, may_end) = (runs.clone(), may_end.clone());
    scripted_agent("counting", move |turn, _| {
        let (runs, may_end) = (runs.clone(), may_end.clone());
        async move {
            let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
            let answered = turn
                .history
                .iter()
                .any(|message| message.role() == Role::Agent);
            if turn.message.text() == "ask" {
                return Ok(TurnOutcome::InputRequired(Message::agent_text("And then?")));
            }
            may_end.acquire().await.unwrap().forget();
            Ok(completed_with(&format!("run {run}, {answered}")))
        }
    })
}

fn setup(runs: &Arc<AtomicUsize>, may_end: &Arc<Semaphore>) -> ZoneSetup {
    ZoneSetup {
        agents: vec![counting_agent(runs, may_end)],
        ..ZoneSetup::default()
    }
}

fn counter_and_permits() -> (Arc<AtomicUsize>, Arc<Semaphore>) {
    (Arc::default(), Arc::new(Semaphore::new(100)))
}

#[tokio::test]
async fn concurrent_calls_with_same_uuid_are_one_task() {
    let (runs, _) = counter_and_permits();
    let may_end = Arc::new(Semaphore::new(0));
    let world = ZoneFixture::with_setup(setup(&runs, &may_end)).await;
    let token = world.token("vz").await;
    let calls = (0..8).map(|_| world.call_with_id(&token, json!(ID), "execute_task", params("x")));
    let (answers, ()) = tokio::join!(join_all(calls), async { may_end.add_permits(100) });
    let tasks: Vec<&Value> = answers.iter().map(|a| &a["result"]["task_id"]).collect();
    assert!(
        tasks
            .iter()
            .all(|task| *task == tasks[0] && task.is_string())
    );
    // In any letter case, and with another bot token.
    let other = params_with("x", &json!({"bot_token": "another"}));
    let upper = json!(ID.to_uppercase());
    let again = world
        .call_with_id(&token, upper, "execute_task", other)
        .await;
    assert_eq!(again["result"], answers[0]["result"]);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn calls_with_other_params_or_caller_are_other_tasks() {
    let (runs, may_end) = counter_and_permits();
    let world = ZoneFixture::with_setup(setup(&runs, &may_end)).await;
    let (token, other) = (world.token("vz").await, world.token("other").await);
    world
        .call_with_id(&token, json!(ID), "execute_task", params("x"))
        .await;
    world
        .call_with_id(&token, json!(ID), "execute_task", params("y"))
        .await;
    world
        .call_with_id(&other, json!(ID), "execute_task", params("x"))
        .await;
    for id in [json!(1), json!("req-1"), json!(ID.replace('-', ""))] {
        for _ in 0..2 {
            world
                .call_with_id(&token, id.clone(), "execute_task", params("x"))
                .await;
        }
    }
    assert_eq!(runs.load(Ordering::SeqCst), 9);
}

#[tokio::test]
async fn repeated_call_is_deduplicated_across_nodes_and_restart() {
    let (runs, may_end) = counter_and_permits();
    let world = ZoneFixture::with_setup(setup(&runs, &may_end)).await;
    let token = world.token("vz").await;
    let first = world
        .call_with_id(&token, json!(ID), "execute_task", params("x"))
        .await;
    let other = ZoneFixture::with_setup(ZoneSetup {
        store: Some(world.store.clone()),
        node: "other",
        ..setup(&runs, &may_end)
    })
    .await;
    let token = other.token("vz").await;
    let there = other
        .call_with_id(&token, json!(ID), "execute_task", params("x"))
        .await;
    assert_eq!(there["result"], first["result"]);
    other.shut_down().await;
    let folder = Some(world.shut_down().await);
    let world = ZoneFixture::with_setup(ZoneSetup {
        folder,
        ..setup(&runs, &may_end)
    })
    .await;
    let token = world.token("vz").await;
    let again = world
        .call_with_id(&token, json!(ID), "execute_task", params("x"))
        .await;
    assert_eq!(again["result"], first["result"]);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn disconnected_caller_can_repeat_the_call() {
    let (runs, _) = counter_and_permits();
    let may_end = Arc::new(Semaphore::new(0));
    let world = ZoneFixture::with_setup(setup(&runs, &may_end)).await;
    let token = world.token("vz").await;
    let request = ZoneFixture::request(&token, call_object(&json!(ID), &params("x")).to_string());
    let mut waiting = (world.router)(request);
    // The caller waits, and disconnects while the agent runs.
    while runs.load(Ordering::SeqCst) == 0 {
        let wait = tokio::time::timeout(Duration::from_millis(5), &mut waiting);
        assert!(wait.await.is_err(), "the call must not be answered yet");
    }
    drop(waiting);
    may_end.add_permits(1);
    let answer = world
        .call_with_id(&token, json!(ID), "execute_task", params("x"))
        .await;
    assert_eq!(answer["result"]["response_text"], "run 1, false");
}

#[tokio::test]
async fn repeated_answer_to_question_is_added_once() {
    let (runs, may_end) = counter_and_permits();
    let world = ZoneFixture::with_setup(setup(&runs, &may_end)).await;
    let token = world.token("vz").await;
    let question = world.execute_task(&token, "ask").await;
    assert_eq!(question["state"], "input_required");
    let reply = params_with("this", &json!({"task_id": question["task_id"]}));
    let first = world
        .call_with_id(&token, json!(ID), "execute_task", reply.clone())
        .await;
    assert_eq!(first["result"]["response_text"], "run 2, true");
    let again = world
        .call_with_id(&token, json!(ID), "execute_task", reply.clone())
        .await;
    assert_eq!(again["result"], first["result"]);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    // Under another id it is another answer, after the task has ended.
    let (code, data) = world
        .call_expecting_error(&token, "execute_task", reply)
        .await;
    assert_eq!(
        (code, &data["error_code"]),
        (-32000, &json!("task_finished"))
    );
}
