//! A call that is repeated is the same call: never a second run, whatever happens in between.

use super::{Setup, World, actor, call, params, params_with, said};
use futures_util::future::join_all;
use interzone_hub::{Agent, Outcome};
use interzone_protocol::vocab::{Message, Role};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

const ID: &str = "5f0f0a5c-8f0a-4c1e-9d59-000000000001";

/// Counts its runs, and ends them when it may.
fn counting(runs: &Arc<AtomicUsize>, may_end: &Arc<Semaphore>) -> Arc<dyn Agent> {
    let (runs, may_end) = (runs.clone(), may_end.clone());
    actor("counting", move |turn, _| {
        let (runs, may_end) = (runs.clone(), may_end.clone());
        async move {
            let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
            let answered = turn.history.iter().any(|said| said.role() == Role::Agent);
            if turn.message.text() == "ask" {
                return Ok(Outcome::InputRequired(Message::agent_text("And then?")));
            }
            may_end.acquire().await.unwrap().forget();
            Ok(said(&format!("run {run}, {answered}")))
        }
    })
}

fn setup(runs: &Arc<AtomicUsize>, may_end: &Arc<Semaphore>) -> Setup {
    Setup {
        agents: vec![counting(runs, may_end)],
        ..Setup::default()
    }
}

fn some() -> (Arc<AtomicUsize>, Arc<Semaphore>) {
    (Arc::default(), Arc::new(Semaphore::new(100)))
}

#[tokio::test]
async fn the_same_uuid_and_params_are_one_task_even_at_the_same_moment() {
    let (runs, _) = some();
    let may_end = Arc::new(Semaphore::new(0));
    let world = World::with(setup(&runs, &may_end)).await;
    let token = world.token("vz").await;
    let calls = (0..8).map(|_| world.call_as(&token, json!(ID), "execute_task", params("x")));
    let (answers, ()) = tokio::join!(join_all(calls), async { may_end.add_permits(100) });
    let tasks: Vec<&Value> = answers.iter().map(|a| &a["result"]["task_id"]).collect();
    assert!(
        tasks
            .iter()
            .all(|task| *task == tasks[0] && task.is_string())
    );
    // However it is spelt, and whatever the token is by then.
    let other = params_with("x", &json!({"bot_token": "another"}));
    let upper = json!(ID.to_uppercase());
    let again = world.call_as(&token, upper, "execute_task", other).await;
    assert_eq!(again["result"], answers[0]["result"]);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn other_params_another_caller_or_no_uuid_are_other_tasks() {
    let (runs, may_end) = some();
    let world = World::with(setup(&runs, &may_end)).await;
    let (token, other) = (world.token("vz").await, world.token("other").await);
    world
        .call_as(&token, json!(ID), "execute_task", params("x"))
        .await;
    world
        .call_as(&token, json!(ID), "execute_task", params("y"))
        .await;
    world
        .call_as(&other, json!(ID), "execute_task", params("x"))
        .await;
    for id in [json!(1), json!("req-1"), json!(ID.replace('-', ""))] {
        for _ in 0..2 {
            world
                .call_as(&token, id.clone(), "execute_task", params("x"))
                .await;
        }
    }
    assert_eq!(runs.load(Ordering::SeqCst), 9);
}

#[tokio::test]
async fn a_repetition_is_known_after_a_restart_and_on_another_node() {
    let (runs, may_end) = some();
    let world = World::with(setup(&runs, &may_end)).await;
    let token = world.token("vz").await;
    let first = world
        .call_as(&token, json!(ID), "execute_task", params("x"))
        .await;
    let other = World::with(Setup {
        store: Some(world.store.clone()),
        node: "other",
        ..setup(&runs, &may_end)
    })
    .await;
    let token = other.token("vz").await;
    let there = other
        .call_as(&token, json!(ID), "execute_task", params("x"))
        .await;
    assert_eq!(there["result"], first["result"]);
    other.end().await;
    let folder = Some(world.end().await);
    let world = World::with(Setup {
        folder,
        ..setup(&runs, &may_end)
    })
    .await;
    let token = world.token("vz").await;
    let again = world
        .call_as(&token, json!(ID), "execute_task", params("x"))
        .await;
    assert_eq!(again["result"], first["result"]);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn whoever_hangs_up_loses_nothing() {
    let (runs, _) = some();
    let may_end = Arc::new(Semaphore::new(0));
    let world = World::with(setup(&runs, &may_end)).await;
    let token = world.token("vz").await;
    let request = World::request(&token, call(&json!(ID), &params("x")).to_string());
    let mut waiting = (world.router)(request);
    // It waits, and goes away while the agent is at it.
    while runs.load(Ordering::SeqCst) == 0 {
        let wait = tokio::time::timeout(Duration::from_millis(5), &mut waiting);
        assert!(wait.await.is_err(), "it must not be answered yet");
    }
    drop(waiting);
    may_end.add_permits(1);
    let answer = world
        .call_as(&token, json!(ID), "execute_task", params("x"))
        .await;
    assert_eq!(answer["result"]["response_text"], "run 1, false");
}

#[tokio::test]
async fn an_answer_to_a_question_counts_once() {
    let (runs, may_end) = some();
    let world = World::with(setup(&runs, &may_end)).await;
    let token = world.token("vz").await;
    let asked = world.ask(&token, "ask").await;
    assert_eq!(asked["state"], "input_required");
    let reply = params_with("this", &json!({"task_id": asked["task_id"]}));
    let first = world
        .call_as(&token, json!(ID), "execute_task", reply.clone())
        .await;
    assert_eq!(first["result"]["response_text"], "run 2, true");
    let again = world
        .call_as(&token, json!(ID), "execute_task", reply.clone())
        .await;
    assert_eq!(again["result"], first["result"]);
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    // Under another id it is another answer, which comes too late.
    let (code, data) = world.fault(&token, "execute_task", reply).await;
    assert_eq!(
        (code, &data["error_code"]),
        (-32000, &json!("task_finished"))
    );
}
