//! Behaviour that the founding documents leave open and the project has defined.

use super::{
    ZoneFixture, ZoneSetup, call_object, check_response, completed_with, demo_agent, params,
    params_with, scripted_agent,
};
use http::StatusCode;
use interzone_hub::{Caller, EventBody, Subject, TurnOutcome, WatchItem};
use interzone_protocol::vocab::{Message, Role};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Agent that reports a status and waits for a permit.
fn waiting_agent(may_end: &Arc<Semaphore>) -> Arc<dyn interzone_hub::Agent> {
    let may_end = may_end.clone();
    scripted_agent("patient", move |turn, output| {
        let may_end = may_end.clone();
        async move {
            output.status("at it").await.unwrap();
            tokio::select! {
                () = turn.cancel_token.cancelled() => {}
                permit = may_end.acquire() => permit.unwrap().forget(),
            }
            Ok(completed_with("done at last"))
        }
    })
}

async fn zone_with_short_budget(may_end: &Arc<Semaphore>) -> ZoneFixture {
    ZoneFixture::with_setup(ZoneSetup {
        agents: vec![waiting_agent(may_end)],
        sync_budget: Duration::from_millis(300),
        ..ZoneSetup::default()
    })
    .await
}

/// Waits until the agent has reported its status.
async fn wait_for_status(world: &ZoneFixture, task: &Value) {
    let caller = Caller::operator("tests".parse().unwrap());
    let subject = Subject::Task(task.as_str().unwrap().parse().unwrap());
    let mut watch = world.hub.watch(&caller, subject, 0).await.unwrap();
    while let Some(item) = watch.next().await.unwrap() {
        if let WatchItem::Event(event) = item
            && let EventBody::Status { .. } = event.body
        {
            return;
        }
    }
}

#[tokio::test]
async fn task_over_sync_budget_is_accepted_and_polled() {
    let may_end = Arc::new(Semaphore::new(0));
    let world = zone_with_short_budget(&may_end).await;
    let token = world.token("vz").await;
    let params = params_with("x", &json!({"thread_ts": "1.5", "correlation_id": "c-9"}));
    let accepted = world.call(&token, "execute_task", params).await["result"].clone();
    let task = accepted["task_id"].clone();
    assert_eq!(
        accepted,
        json!({"status": "accepted", "task_id": task, "correlation_id": "c-9", "channel": "C1", "thread_ts": "1.5"})
    );
    wait_for_status(&world, &task).await;
    let running = world
        .call(&token, "get_task_result", json!({"task_id": task}))
        .await;
    assert_eq!(
        running["result"],
        json!({"status": "running", "task_id": task, "progress": "at it"})
    );
    may_end.add_permits(1);
    let done = world.wait_for_result(&token, &task).await;
    assert_eq!(
        done,
        json!({"status": "completed", "task_id": task, "result": {
            "status": "success", "task_id": task, "response_text": "done at last",
            "correlation_id": "c-9", "channel": "C1", "thread_ts": "1.5",
        }})
    );
}

#[tokio::test]
async fn cancel_task_is_idempotent_and_reported() {
    let may_end = Arc::new(Semaphore::new(0));
    let world = zone_with_short_budget(&may_end).await;
    let token = world.token("vz").await;
    let task = json!({"task_id": world.execute_task(&token, "x").await["task_id"]});
    let canceled = world.call(&token, "cancel_task", task.clone()).await;
    let expected = json!({"status": "canceled", "task_id": task["task_id"]});
    assert_eq!(canceled["result"], expected);
    // A second cancel returns the same.
    let again = world.call(&token, "cancel_task", task.clone()).await;
    assert_eq!(again["result"], expected);
    let outcome = world.call(&token, "get_task_result", task.clone()).await["result"].clone();
    assert_eq!(outcome["status"], "failed");
    assert_eq!(
        (
            &outcome["error"]["code"],
            &outcome["error"]["data"]["error_code"]
        ),
        (&json!(-32000), &json!("canceled"))
    );
    let reply = params_with("more", &task);
    let (code, data) = world
        .call_expecting_error(&token, "execute_task", reply)
        .await;
    assert_eq!(
        (code, &data["error_code"]),
        (-32000, &json!("task_finished"))
    );
}

#[tokio::test]
async fn concurrent_cancels_return_the_same() {
    let may_end = Arc::new(Semaphore::new(0));
    let world = zone_with_short_budget(&may_end).await;
    let token = world.token("vz").await;
    let task = json!({"task_id": world.execute_task(&token, "x").await["task_id"]});
    let calls = (0..16).map(|_| world.call(&token, "cancel_task", task.clone()));
    let expected = json!({"status": "canceled", "task_id": task["task_id"]});
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer["result"], expected, "{answer}");
    }
    // A task that has ended otherwise cannot be canceled. The first agent may not have seen its cancellation
    // yet, so there are permits for both.
    may_end.add_permits(2);
    let done = world.execute_task(&token, "y").await;
    let done = json!({"task_id": done["task_id"]});
    wait_until_completed(&world, &token, &done).await;
    let (code, data) = world
        .call_expecting_error(&token, "cancel_task", done)
        .await;
    assert_eq!(
        (code, &data["error_code"], &data["state"]),
        (-32000, &json!("task_finished"), &json!("completed"))
    );
}

/// Waits until a task has its result.
async fn wait_until_completed(world: &ZoneFixture, token: &str, task: &Value) {
    loop {
        let outcome = world.call(token, "get_task_result", task.clone()).await;
        if outcome["result"]["status"] == "completed" {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn cancel_answers_the_waiting_call() {
    let may_end = Arc::new(Semaphore::new(0));
    let world = ZoneFixture::with_setup(ZoneSetup {
        agents: vec![waiting_agent(&may_end)],
        ..ZoneSetup::default()
    })
    .await;
    let token = world.token("vz").await;
    let id = json!("5f0f0a5c-8f0a-4c1e-9d59-0000000000aa");
    let waiting = world.call_with_id(&token, id, "execute_task", params("x"));
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
async fn unknown_or_foreign_task_is_not_found() {
    let world = ZoneFixture::new().await;
    let (token, other) = (world.token("vz").await, world.token("other").await);
    let theirs = world.execute_task(&other, "ask what?").await["task_id"].clone();
    for task in [
        theirs,
        json!("unknown"),
        json!("no/task"),
        json!("x".repeat(900)),
    ] {
        let params = params_with("x", &json!({"task_id": task}));
        for (method, params) in [
            ("get_task_result", json!({"task_id": task})),
            ("cancel_task", json!({"task_id": task})),
            ("execute_task", params),
        ] {
            let (code, data) = world.call_expecting_error(&token, method, params).await;
            assert_eq!(
                (code, &data["error_code"]),
                (-32000, &json!("task_not_found"))
            );
        }
    }
}

#[tokio::test]
async fn missing_task_id_is_reported() {
    let world = ZoneFixture::new().await;
    let token = world.token("vz").await;
    for method in ["get_task_result", "cancel_task"] {
        for params in [json!({}), json!({"task_id": null}), json!({"task_id": ""})] {
            let (code, data) = world.call_expecting_error(&token, method, params).await;
            assert_eq!((code, &data["missing"]), (-32602, &json!(["task_id"])));
            assert_eq!(data["error_code"], "invalid_params");
        }
    }
}

#[tokio::test]
async fn answer_to_input_required_continues_same_task() {
    let world = ZoneFixture::new().await;
    let token = world.token("vz").await;
    let question = world.execute_task(&token, "ask which colour?").await;
    let task = &question["task_id"];
    assert_eq!(
        question,
        json!({"status": "success", "state": "input_required", "task_id": task,
            "response_text": "which colour?", "channel": "C1"})
    );
    let waiting = world
        .call(&token, "get_task_result", json!({"task_id": task}))
        .await;
    assert_eq!(waiting["result"]["status"], "completed");
    assert_eq!(waiting["result"]["result"], question);
    let reply = params_with("blue", &json!({"task_id": task}));
    let answer = world.call(&token, "execute_task", reply).await["result"].clone();
    assert_eq!(answer["response_text"], "You answered: blue");
    assert_eq!((&answer["task_id"], &answer["state"]), (task, &Value::Null));
}

#[tokio::test]
async fn context_messages_become_history() {
    let recorder = scripted_agent("recorder", |turn, _| async move {
        let describe = |message: &Message| {
            let user: Option<String> = message.metadata().and_then(|more| more.get("user"));
            let who = match message.role() {
                Role::Agent => "agent".to_owned(),
                _ => user.unwrap_or_else(|| "anonymous".to_owned()),
            };
            format!("{who}: {}", message.text())
        };
        let history: Vec<String> = turn.history.iter().map(describe).collect();
        Ok(completed_with(&format!(
            "{} | {}",
            history.join(" | "),
            turn.message.text()
        )))
    });
    let world = ZoneFixture::with_setup(ZoneSetup {
        agents: vec![recorder],
        ..ZoneSetup::default()
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
        "U1: first | agent: second | anonymous: third | now"
    );
}

#[tokio::test]
async fn channel_is_routed_to_its_agent() {
    let named = |name: &'static str| {
        scripted_agent(name, move |_, _| async move { Ok(completed_with(name)) })
    };
    let world = ZoneFixture::with_setup(ZoneSetup {
        agents: vec![named("one"), named("two")],
        channels: vec![("C2", "two")],
        ..ZoneSetup::default()
    })
    .await;
    let token = world.token("vz").await;
    for (channel, agent) in [("C1", "one"), ("C2", "two")] {
        let params = params_with("x", &json!({"channel": channel}));
        let answer = world.call(&token, "execute_task", params).await;
        assert_eq!(answer["result"]["response_text"], agent);
    }
}

#[tokio::test]
async fn empty_answer_is_replaced_by_a_default_text() {
    let silent = scripted_agent("silent", |_, _| async {
        Ok(TurnOutcome::Completed {
            message: None,
            direct: false,
        })
    });
    let world = ZoneFixture::with_setup(ZoneSetup {
        agents: vec![silent],
        ..ZoneSetup::default()
    })
    .await;
    let token = world.token("vz").await;
    let answer = world.execute_task(&token, "hello").await;
    assert_eq!(answer["response_text"], "The agent gave no answer.");
    let answer = world.execute_task(&token, "こんにちは").await;
    assert_eq!(
        answer["response_text"],
        "エージェントからの応答はありませんでした。"
    );
}

#[tokio::test]
async fn batch_items_share_one_sync_budget() {
    let may_end = Arc::new(Semaphore::new(0));
    let world = ZoneFixture::with_setup(ZoneSetup {
        agents: vec![waiting_agent(&may_end), demo_agent()],
        channels: vec![("C-demo", "demo")],
        sync_budget: Duration::from_millis(500),
        ..ZoneSetup::default()
    })
    .await;
    let token = world.token("vz").await;
    let quick = params_with("echo hi", &json!({"channel": "C-demo"}));
    let mut batch: Vec<Value> = (0..40)
        .map(|n| call_object(&json!(n), &params("x")))
        .collect();
    batch.push(call_object(&json!("quick"), &quick));
    batch.push(call_object(&json!("bad"), &json!({})));
    batch.push(json!({"jsonrpc": "2.0", "method": "execute_task", "params": quick}));
    let started_at = Instant::now();
    let mut request = ZoneFixture::request(&token, json!(batch).to_string());
    let events = "application/json, text/event-stream".parse().unwrap();
    request.headers_mut().insert("accept", events);
    let (status, headers, body) = world.send(request).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers["content-type"], "application/json");
    let answers: Vec<Value> = serde_json::from_str(&body).unwrap();
    assert_eq!(answers.len(), 43);
    assert!(
        started_at.elapsed() < Duration::from_secs(10),
        "the budget is for all of them"
    );
    for answer in &answers[..40] {
        assert_eq!(
            check_response(answer.clone())["result"]["status"],
            "accepted"
        );
    }
    assert_eq!(
        (&answers[40]["id"], &answers[41]["id"]),
        (&json!("quick"), &json!("bad"))
    );
    assert_eq!(answers[41]["error"]["data"]["error_code"], "invalid_params");
    // A notification of `execute_task` is an error.
    assert_eq!(
        answers[42]["error"]["data"]["error_code"],
        "invalid_request"
    );
}

#[tokio::test]
async fn web_socket_frame_is_served_as_a_call() {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::tungstenite::Message as Frame;
    use tokio_tungstenite::tungstenite::client::IntoClientRequest;
    let world = ZoneFixture::new().await;
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
    let call = call_object(&json!("over-ws"), &params("echo hi")).to_string();
    socket.send(Frame::text(call)).await.unwrap();
    let answer = loop {
        let frame = tokio::time::timeout(super::WAIT_TIMEOUT, socket.next())
            .await
            .unwrap();
        let frame: Value =
            serde_json::from_str(frame.unwrap().unwrap().to_text().unwrap()).unwrap();
        if frame["id"] == "over-ws" {
            break check_response(frame);
        }
    };
    assert_eq!(answer["result"]["response_text"], "hi");
}

#[tokio::test]
async fn shutdown_answers_waiting_calls_with_accepted() {
    let may_end = Arc::new(Semaphore::new(0));
    let world = ZoneFixture::with_setup(ZoneSetup {
        agents: vec![waiting_agent(&may_end)],
        ..ZoneSetup::default()
    })
    .await;
    let token = world.token("vz").await;
    let stop = world.stop.clone();
    let (answer, ()) = tokio::join!(world.execute_task(&token, "x"), async { stop.cancel() });
    assert_eq!(answer["status"], "accepted");
}
