//! Calls: their form on the wire, and their results.

use crate::scripted_peer::{PeerAction, RecordedRequest, ScriptedPeer, task, task_result};
use interzone_client::{Client, Credentials, Error, Secret, Timeouts};
use interzone_protocol::acp::{
    RequestsFindParams, StreamChunk, StreamEndParams, StreamMessageParams, StreamStartParams,
    TaskEvent, TaskNotification, TasksCancelParams, TasksCreateParams, TasksGetParams,
    TasksListParams, TasksSendParams, TasksSubscribeParams, TasksUnsubscribeParams,
};
use interzone_protocol::vocab::{Message, Timestamp};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

pub(crate) fn get_params(id: &str) -> TasksGetParams {
    TasksGetParams {
        task_id: id.to_owned(),
        include_messages: None,
        include_artifacts: None,
    }
}

pub(crate) fn create_params() -> TasksCreateParams {
    TasksCreateParams {
        initial_message: Message::user_text("hi"),
        assign_to: None,
        priority: None,
        metadata: None,
    }
}

#[tokio::test]
async fn call_has_required_headers_and_body() {
    let script = ScriptedPeer::new(|request| request.result(task_result("t-1")));
    let client = script
        .builder()
        .credentials(Credentials::Bearer(Secret::new("t0ken")));
    let client = client.build().unwrap();
    client.tasks_get(&get_params("t-1")).await.unwrap();
    let traced = client
        .with_correlation("mine")
        .with_trace_parent("00-ab-cd-01");
    traced.tasks_get(&get_params("t-1")).await.unwrap();
    let requests = script.requests();
    assert_eq!(
        (requests[0].verb.as_str(), requests[0].path.as_str()),
        ("POST", "/jsonrpc")
    );
    assert_eq!(requests[0].header("content-type"), Some("application/json"));
    assert_eq!(requests[0].header("authorization"), Some("Bearer t0ken"));
    assert_eq!(requests[0].header("traceparent"), None);
    let correlation = requests[0].header("x-correlation-id").unwrap();
    assert!(uuid::Uuid::parse_str(correlation).is_ok());
    assert_eq!(
        requests[0].json(),
        json!({"jsonrpc": "2.0", "id": 1, "method": "tasks.get", "params": {"taskId": "t-1"}})
    );
    assert_eq!(requests[1].header("x-correlation-id"), Some("mine"));
    assert_eq!(requests[1].header("traceparent"), Some("00-ab-cd-01"));
    assert_eq!(requests[1].json()["id"], json!(2));
}

#[tokio::test]
async fn base_path_is_kept() {
    let script = ScriptedPeer::new(|request| request.result(json!(null)));
    let client = Client::builder("https://agent.test/zone/");
    let client = client
        .transport(std::sync::Arc::new(script.clone()))
        .build()
        .unwrap();
    client.call_raw("any", &()).await.unwrap();
    assert_eq!(script.requests()[0].path, "/zone/jsonrpc");
    assert_eq!(
        script.requests()[0].json().get("params"),
        None,
        "absent params are omitted"
    );
}

/// Answers as a valid peer would.
fn valid_response(request: &RecordedRequest) -> PeerAction {
    let call = request.json();
    let method = call["method"].as_str().unwrap();
    let now = "2026-01-02T03:04:05Z";
    request.result(match method {
        "tasks.create" | "tasks.get" => task_result("t-1"),
        "tasks.subscribe" => json!({"type": "subscription", "subscription": {
            "subscriptionId": "s-1", "taskId": "t-1", "callbackUrl": "https://me.test/hook",
            "events": ["COMPLETED"], "createdAt": now, "active": true}}),
        "stream.start" => json!({"type": "stream", "stream": {
            "streamId": "st-1", "status": "ACTIVE", "participants": [], "createdAt": now}}),
        "task.notification" | "stream.chunk" => json!({"type": "notification", "message": "taken"}),
        "interzone.requests.find" => json!({"requests": []}),
        "interzone.tasks.list" => json!({"tasks": [task("t-1", "COMPLETED")], "next": "n"}),
        _ => json!({"type": "success", "message": "done"}),
    })
}

#[tokio::test]
async fn every_acp_method_is_implemented() {
    let script = ScriptedPeer::new(valid_response);
    let client = script.client();
    let (task_id, stream_id) = ("t-1".to_owned(), "st-1".to_owned());
    let message = Message::user_text("hi");
    assert_eq!(
        client.tasks_create(&create_params()).await.unwrap().task_id,
        "t-1"
    );
    let send = TasksSendParams {
        task_id: task_id.clone(),
        message: message.clone(),
    };
    assert_eq!(client.tasks_send(&send).await.unwrap(), "done");
    assert_eq!(
        client.tasks_get(&get_params("t-1")).await.unwrap().task_id,
        "t-1"
    );
    let cancel = TasksCancelParams {
        task_id: task_id.clone(),
        reason: None,
    };
    assert_eq!(client.tasks_cancel(&cancel).await.unwrap(), "done");
    let subscribe = TasksSubscribeParams {
        task_id: task_id.clone(),
        callback_url: "https://me.test/hook".to_owned(),
        events: Some(vec![TaskEvent::Completed]),
    };
    assert_eq!(
        client
            .tasks_subscribe(&subscribe)
            .await
            .unwrap()
            .subscription_id,
        "s-1"
    );
    let start = StreamStartParams::default();
    assert_eq!(client.stream_start(&start).await.unwrap().stream_id, "st-1");
    let message_params = StreamMessageParams {
        stream_id: stream_id.clone(),
        message: message.clone(),
    };
    assert_eq!(
        client.stream_message(&message_params).await.unwrap(),
        "done"
    );
    let end = StreamEndParams {
        stream_id: stream_id.clone(),
        reason: None,
    };
    assert_eq!(client.stream_end(&end).await.unwrap(), "done");
    let note = TaskNotification {
        task_id: task_id.clone(),
        event: TaskEvent::Completed,
        timestamp: Timestamp::from_millis(0),
        data: None,
    };
    assert_eq!(client.task_notification(&note).await.unwrap(), "taken");
    let chunk = StreamChunk {
        stream_id,
        chunk: message,
        sequence: 1,
        is_last: Some(true),
    };
    assert_eq!(client.stream_chunk(&chunk).await.unwrap(), "taken");
    let list = client
        .tasks_list(&TasksListParams::default())
        .await
        .unwrap();
    assert_eq!((list.tasks.len(), list.next.as_deref()), (1, Some("n")));
    let unsubscribe = TasksUnsubscribeParams {
        task_id,
        subscription_id: "s-1".to_owned(),
    };
    assert_eq!(
        client.tasks_unsubscribe(&unsubscribe).await.unwrap(),
        "done"
    );
    let found = client.requests_find(&RequestsFindParams::default()).await;
    assert!(found.unwrap().requests.is_empty());
    let called: Vec<Value> = script
        .requests()
        .iter()
        .map(|request| request.json()["method"].clone())
        .collect();
    let expected = interzone_protocol::acp::Method::ALL.map(|method| json!(method.name()));
    assert_eq!(called, expected);
}

#[tokio::test]
async fn content_is_returned_byte_for_byte() {
    let content = r#"{"z":1.00,"a":12345678901234567890123}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"type":"task","task":{{"taskId":"t","status":"WORKING","createdAt":"2026-01-02T03:04:05Z","messages":[{{"role":"agent","parts":[{{"type":"DataPart","content":{content}}}]}}]}}}}}}"#
    );
    let script = ScriptedPeer::steps(vec![PeerAction::text(
        200,
        "application/json; charset=utf-8",
        &body,
    )]);
    let task = script.client().tasks_get(&get_params("t")).await.unwrap();
    let messages = task.messages.unwrap();
    assert_eq!(
        serde_json::to_value(&messages[0]).unwrap()["parts"][0]["type"],
        "DataPart"
    );
    let written = serde_json::to_string(&messages[0]).unwrap();
    assert!(written.contains(content), "{written}");
}

#[tokio::test(start_paused = true)]
async fn each_method_has_its_own_timeout() {
    let script = ScriptedPeer::steps(vec![PeerAction::Hang]);
    let builder = script
        .builder()
        .breaker(interzone_client::BreakerPolicy::never());
    let client = builder.build().unwrap();
    let elapsed_secs = async |client: &Client, method: &str| {
        let started_at = Instant::now();
        let error = client.call_raw(method, &json!({})).await.unwrap_err();
        assert!(
            matches!(error, Error::TimedOut { after } if after == started_at.elapsed()),
            "{error:?}"
        );
        started_at.elapsed().as_secs()
    };
    assert_eq!(elapsed_secs(&client, "tasks.get").await, 5);
    assert_eq!(elapsed_secs(&client, "tasks.create").await, 30);
    assert_eq!(elapsed_secs(&client, "stream.start").await, 15);
    assert_eq!(elapsed_secs(&client, "unknown").await, 30);
    assert_eq!(
        elapsed_secs(&client.with_timeout(Duration::from_secs(2)), "tasks.create").await,
        2
    );
    let timeouts = Timeouts::default().set("tasks.get", Duration::from_secs(1));
    let client = script.builder().timeouts(timeouts).build().unwrap();
    assert_eq!(elapsed_secs(&client, "tasks.get").await, 1);
    let client = client.with_timeout(Duration::MAX);
    let forever = tokio::time::timeout(Duration::from_secs(9999), client.call_raw("m", &()));
    assert!(
        forever.await.is_err(),
        "`MAX` means no limit, without overflow"
    );
}

#[tokio::test]
async fn notifications_expect_no_response() {
    let refused =
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": -40007, "message": "who"}});
    let script = ScriptedPeer::steps(vec![
        PeerAction::status(204),
        PeerAction::status(200),
        PeerAction::json(401, &refused),
        PeerAction::status(500),
    ]);
    let client = script.client();
    client
        .notify("task.notification", &json!({"taskId": "t"}))
        .await
        .unwrap();
    client.notify("note", &()).await.unwrap();
    let error = client.notify("note", &()).await.unwrap_err();
    assert_eq!(error.code().unwrap().get(), -40007);
    let error = client.notify("note", &()).await.unwrap_err();
    assert!(matches!(error, Error::Http { .. }));
    let requests = script.requests();
    assert_eq!(requests.len(), 4, "no notification is sent twice");
    assert!(requests.iter().all(|note| note.json().get("id").is_none()));
}

#[tokio::test]
async fn invalid_method_names_are_not_sent() {
    let script = ScriptedPeer::steps(vec![PeerAction::status(204)]);
    let client = script.client();
    for name in ["", "rpc.discover"] {
        assert!(matches!(
            client.call_raw(name, &()).await,
            Err(Error::Method)
        ));
        assert!(matches!(client.notify(name, &()).await, Err(Error::Method)));
    }
    assert!(script.requests().is_empty());
}

#[tokio::test(start_paused = true)]
async fn call_futures_are_send() {
    let script = ScriptedPeer::new(|request| request.result(task_result("t-1")));
    let client = script.client();
    let call = tokio::spawn(async move { client.tasks_get(&get_params("t-1")).await });
    assert_eq!(call.await.unwrap().unwrap().task_id, "t-1");
    let client = script.client();
    let batch = tokio::spawn(async move { client.batch().send().await.is_ok() });
    assert!(batch.await.unwrap());
}
