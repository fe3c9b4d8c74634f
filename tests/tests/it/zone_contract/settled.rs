//! What was settled where the founding documents are silent.

use super::{Setup, World, actor, call, checked, demo, params, params_with, said};
use http::StatusCode;
use interzone_hub::{Caller, EventBody, Outcome, Seen, Subject};
use interzone_protocol::vocab::{Message, Role};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Says what it is doing, and goes on when it may.
fn patient(may_end: &Arc<Semaphore>) -> Arc<dyn interzone_hub::Agent> {
    let may_end = may_end.clone();
    actor("patient", move |turn, output| {
        let may_end = may_end.clone();
        async move {
            output.status("at it").await.unwrap();
            tokio::select! {
                () = turn.stop.cancelled() => {}
                permit = may_end.acquire() => permit.unwrap().forget(),
            }
            Ok(said("done at last"))
        }
    })
}

async fn hasty(may_end: &Arc<Semaphore>) -> World {
    World::with(Setup {
        agents: vec![patient(may_end)],
        budget: Duration::from_millis(300),
        ..Setup::default()
    })
    .await
}

/// Waits until the agent has said what it is doing.
async fn until_status(world: &World, task: &Value) {
    let caller = Caller::operator("tests".parse().unwrap());
    let subject = Subject::Task(task.as_str().unwrap().parse().unwrap());
    let mut watch = world.hub.watch(&caller, subject, 0).await.unwrap();
    while let Some(seen) = watch.next().await.unwrap() {
        if let Seen::Event(event) = seen
            && let EventBody::Status { .. } = event.body
        {
            return;
        }
    }
}

#[tokio::test]
async fn what_takes_longer_than_the_budget_is_accepted_and_asked_for_later() {
    let may_end = Arc::new(Semaphore::new(0));
    let world = hasty(&may_end).await;
    let token = world.token("vz").await;
    let asked = params_with("x", &json!({"thread_ts": "1.5", "correlation_id": "c-9"}));
    let accepted = world.call(&token, "execute_task", asked).await["result"].clone();
    let task = accepted["task_id"].clone();
    assert_eq!(
        accepted,
        json!({"status": "accepted", "task_id": task, "correlation_id": "c-9", "channel": "C1", "thread_ts": "1.5"})
    );
    until_status(&world, &task).await;
    let running = world
        .call(&token, "get_task_result", json!({"task_id": task}))
        .await;
    assert_eq!(
        running["result"],
        json!({"status": "running", "task_id": task, "progress": "at it"})
    );
    may_end.add_permits(1);
    let done = world.outcome(&token, &task).await;
    assert_eq!(
        done,
        json!({"status": "completed", "task_id": task, "result": {
            "status": "success", "task_id": task, "response_text": "done at last",
            "correlation_id": "c-9", "channel": "C1", "thread_ts": "1.5",
        }})
    );
}

#[tokio::test]
async fn a_task_can_be_called_off_and_says_so() {
    let may_end = Arc::new(Semaphore::new(0));
    let world = hasty(&may_end).await;
    let token = world.token("vz").await;
    let task = json!({"task_id": world.ask(&token, "x").await["task_id"]});
    let canceled = world.call(&token, "cancel_task", task.clone()).await;
    let expected = json!({"status": "canceled", "task_id": task["task_id"]});
    assert_eq!(canceled["result"], expected);
    // Whoever calls it off again is told the same.
    let again = world.call(&token, "cancel_task", task.clone()).await;
    assert_eq!(again["result"], expected);
    let came = world.call(&token, "get_task_result", task.clone()).await["result"].clone();
    assert_eq!(came["status"], "failed");
    assert_eq!(
        (&came["error"]["code"], &came["error"]["data"]["error_code"]),
        (&json!(-32000), &json!("canceled"))
    );
    let reply = params_with("more", &task);
    let (code, data) = world.fault(&token, "execute_task", reply).await;
    assert_eq!(
        (code, &data["error_code"]),
        (-32000, &json!("task_finished"))
    );
}

#[tokio::test]
async fn however_many_call_a_task_off_at_once_all_are_told_the_same() {
    let may_end = Arc::new(Semaphore::new(0));
    let world = hasty(&may_end).await;
    let token = world.token("vz").await;
    let task = json!({"task_id": world.ask(&token, "x").await["task_id"]});
    let calls = (0..16).map(|_| world.call(&token, "cancel_task", task.clone()));
    let expected = json!({"status": "canceled", "task_id": task["task_id"]});
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer["result"], expected, "{answer}");
    }
    // One that has ended in another way is not called off. The first may not have heard yet that it
    // was, so there is leave for both.
    may_end.add_permits(2);
    let done = world.ask(&token, "y").await;
    let done = json!({"task_id": done["task_id"]});
    until_done(&world, &token, &done).await;
    let (code, data) = world.fault(&token, "cancel_task", done).await;
    assert_eq!(
        (code, &data["error_code"], &data["state"]),
        (-32000, &json!("task_finished"), &json!("completed"))
    );
}

/// Waits until a task has its result.
async fn until_done(world: &World, token: &str, task: &Value) {
    loop {
        let came = world.call(token, "get_task_result", task.clone()).await;
        if came["result"]["status"] == "completed" {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn whoever_waits_for_a_task_that_is_called_off_is_told() {
    let may_end = Arc::new(Semaphore::new(0));
    let world = World::with(Setup {
        agents: vec![patient(&may_end)],
        ..Setup::default()
    })
    .await;
    let token = world.token("vz").await;
    let id = json!("5f0f0a5c-8f0a-4c1e-9d59-0000000000aa");
    let waiting = world.call_as(&token, id, "execute_task", params("x"));
    let cancel = async {
        let task = loop {
            let listed = world.call(&token, "interzone.tasks.list", json!({})).await;
            match &listed["result"]["tasks"][0]["taskId"] {
                Value::Null => tokio::task::yield_now().await,
                task => break task.clone(),
            }
        };
        world
            .call(&token, "cancel_task", json!({"task_id": task}))
            .await
    };
    let (answer, _) = tokio::join!(waiting, cancel);
    assert_eq!(answer["error"]["data"]["error_code"], "canceled");
}

#[tokio::test]
async fn an_unknown_or_foreign_task_is_not_found() {
    let world = World::new().await;
    let (token, other) = (world.token("vz").await, world.token("other").await);
    let theirs = world.ask(&other, "ask what?").await["task_id"].clone();
    for task in [
        theirs,
        json!("nobodys"),
        json!("no/task"),
        json!("x".repeat(900)),
    ] {
        let params = params_with("x", &json!({"task_id": task}));
        for (method, params) in [
            ("get_task_result", json!({"task_id": task})),
            ("cancel_task", json!({"task_id": task})),
            ("execute_task", params),
        ] {
            let (code, data) = world.fault(&token, method, params).await;
            assert_eq!(
                (code, &data["error_code"]),
                (-32000, &json!("task_not_found"))
            );
        }
    }
}

#[tokio::test]
async fn a_task_that_is_not_named_is_missing() {
    let world = World::new().await;
    let token = world.token("vz").await;
    for method in ["get_task_result", "cancel_task"] {
        for params in [json!({}), json!({"task_id": null}), json!({"task_id": ""})] {
            let (code, data) = world.fault(&token, method, params).await;
            assert_eq!((code, &data["missing"]), (-32602, &json!(["task_id"])));
            assert_eq!(data["error_code"], "invalid_params");
        }
    }
}

#[tokio::test]
async fn an_agent_that_asks_is_answered_under_the_same_task() {
    let world = World::new().await;
    let token = world.token("vz").await;
    let asked = world.ask(&token, "ask which colour?").await;
    let task = &asked["task_id"];
    assert_eq!(
        asked,
        json!({"status": "success", "state": "input_required", "task_id": task,
            "response_text": "which colour?", "channel": "C1"})
    );
    let waiting = world
        .call(&token, "get_task_result", json!({"task_id": task}))
        .await;
    assert_eq!(waiting["result"]["status"], "completed");
    assert_eq!(waiting["result"]["result"], asked);
    let reply = params_with("blue", &json!({"task_id": task}));
    let answer = world.call(&token, "execute_task", reply).await["result"].clone();
    assert_eq!(answer["response_text"], "You answered: blue");
    assert_eq!((&answer["task_id"], &answer["state"]), (task, &Value::Null));
}

#[tokio::test]
async fn what_was_said_before_is_history_and_not_glued_to_the_text() {
    let seen = actor("seen", |turn, _| async move {
        let told = |message: &Message| {
            let user: Option<String> = message.metadata().and_then(|more| more.get("user"));
            let who = match message.role() {
                Role::Agent => "agent".to_owned(),
                _ => user.unwrap_or_else(|| "somebody".to_owned()),
            };
            format!("{who}: {}", message.text())
        };
        let history: Vec<String> = turn.history.iter().map(told).collect();
        Ok(said(&format!(
            "{} | {}",
            history.join(" | "),
            turn.message.text()
        )))
    });
    let world = World::with(Setup {
        agents: vec![seen],
        ..Setup::default()
    })
    .await;
    let token = world.token("vz").await;
    let context = json!({"context": [
        {"role": "user", "user": "U1", "text": "first"},
        {"role": "assistant", "text": "second"},
        {"role": "user", "text": "third"},
    ]});
    let answer = world
        .call(&token, "execute_task", params_with("now", &context))
        .await;
    assert_eq!(
        answer["result"]["response_text"],
        "U1: first | agent: second | somebody: third | now"
    );
}

#[tokio::test]
async fn a_channel_leads_to_its_agent() {
    let named = |name: &'static str| actor(name, move |_, _| async move { Ok(said(name)) });
    let world = World::with(Setup {
        agents: vec![named("one"), named("two")],
        channels: vec![("C2", "two")],
        ..Setup::default()
    })
    .await;
    let token = world.token("vz").await;
    for (channel, agent) in [("C1", "one"), ("C2", "two")] {
        let asked = params_with("x", &json!({"channel": channel}));
        let answer = world.call(&token, "execute_task", asked).await;
        assert_eq!(answer["result"]["response_text"], agent);
    }
}

#[tokio::test]
async fn an_agent_that_says_nothing_gets_words_put_in_its_place() {
    let silent = actor("silent", |_, _| async {
        Ok(Outcome::Completed {
            message: None,
            direct: false,
        })
    });
    let world = World::with(Setup {
        agents: vec![silent],
        ..Setup::default()
    })
    .await;
    let token = world.token("vz").await;
    let answer = world.ask(&token, "hello").await;
    assert_eq!(answer["response_text"], "The agent gave no answer.");
    let answer = world.ask(&token, "こんにちは").await;
    assert_eq!(
        answer["response_text"],
        "エージェントからの応答はありませんでした。"
    );
}

#[tokio::test]
async fn a_batch_is_served_item_by_item_and_waits_together() {
    let may_end = Arc::new(Semaphore::new(0));
    let world = World::with(Setup {
        agents: vec![patient(&may_end), demo()],
        channels: vec![("C-demo", "demo")],
        budget: Duration::from_millis(500),
        ..Setup::default()
    })
    .await;
    let token = world.token("vz").await;
    let quick = params_with("echo hi", &json!({"channel": "C-demo"}));
    let mut batch: Vec<Value> = (0..40).map(|n| call(&json!(n), &params("x"))).collect();
    batch.push(call(&json!("quick"), &quick));
    batch.push(call(&json!("bad"), &json!({})));
    batch.push(json!({"jsonrpc": "2.0", "method": "execute_task", "params": quick}));
    let began = Instant::now();
    let mut request = World::request(&token, json!(batch).to_string());
    let events = "application/json, text/event-stream".parse().unwrap();
    request.headers_mut().insert("accept", events);
    let (status, headers, body) = world.send(request).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers["content-type"], "application/json");
    let answers: Vec<Value> = serde_json::from_str(&body).unwrap();
    assert_eq!(answers.len(), 43);
    assert!(
        began.elapsed() < Duration::from_secs(10),
        "the budget is for all of them"
    );
    for answer in &answers[..40] {
        assert_eq!(checked(answer.clone())["result"]["status"], "accepted");
    }
    assert_eq!(
        (&answers[40]["id"], &answers[41]["id"]),
        (&json!("quick"), &json!("bad"))
    );
    assert_eq!(answers[41]["error"]["data"]["error_code"], "invalid_params");
    // A call that wants no answer is a mistake.
    assert_eq!(
        answers[42]["error"]["data"]["error_code"],
        "invalid_request"
    );
}

#[tokio::test]
async fn a_frame_of_a_web_socket_is_a_call_like_any_other() {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::tungstenite::Message as Frame;
    use tokio_tungstenite::tungstenite::client::IntoClientRequest;
    let world = World::new().await;
    let token = world.token("vz").await;
    let stream = world.call(&token, "stream.start", json!({})).await;
    let id = stream["result"]["stream"]["streamId"].as_str().unwrap();
    let url = format!("ws://zone.test/streams/{id}");
    let mut request = url.into_client_request().unwrap();
    let bearer = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    let connection = (world.connect)();
    let (mut socket, _) = tokio_tungstenite::client_async(request, connection)
        .await
        .unwrap();
    let call = call(&json!("over-ws"), &params("echo hi")).to_string();
    socket.send(Frame::text(call)).await.unwrap();
    let answer = loop {
        let frame = tokio::time::timeout(super::PATIENCE, socket.next())
            .await
            .unwrap();
        let frame: Value =
            serde_json::from_str(frame.unwrap().unwrap().to_text().unwrap()).unwrap();
        if frame["id"] == "over-ws" {
            break checked(frame);
        }
    };
    assert_eq!(answer["result"]["response_text"], "hi");
}

#[tokio::test]
async fn a_zone_that_closes_lets_nobody_wait() {
    let may_end = Arc::new(Semaphore::new(0));
    let world = World::with(Setup {
        agents: vec![patient(&may_end)],
        ..Setup::default()
    })
    .await;
    let token = world.token("vz").await;
    let stop = world.stop.clone();
    let (answer, ()) = tokio::join!(world.ask(&token, "x"), async { stop.cancel() });
    assert_eq!(answer["status"], "accepted");
}
