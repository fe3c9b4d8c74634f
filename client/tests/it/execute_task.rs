//! `execute_task` from the caller's side: created once, awaited by events or by polling, every failure with its
//! reason.

use crate::scripted_peer::{BodyPart, PeerAction, RecordedRequest, ScriptedPeer};
use interzone_client::{
    Client, Error, ExecuteEvent, ExecuteTask, InvalidResponse, RetryPolicy, Timeouts, WaitMode,
};
use interzone_protocol::zone::{
    ArtifactPart, ErrorReason, ExecuteStatus, ExecuteTaskParams, TaskIdParams, TaskOutcome,
    UserMessageKey,
};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

fn execute_params() -> ExecuteTaskParams {
    ExecuteTaskParams::new("C1", "hello", "capability-1")
}

fn success_result(text: &str) -> Value {
    json!({"status": "success", "task_id": "t-1", "response_text": text})
}

fn accepted_result() -> Value {
    json!({"status": "accepted", "task_id": "t-1"})
}

fn running_result(progress: Option<&str>) -> Value {
    json!({"status": "running", "task_id": "t-1", "progress": progress})
}

fn is_method(request: &RecordedRequest, method: &str) -> bool {
    request.json()["method"] == json!(method)
}

/// Peer that accepts the call and then answers polls with these, repeating the last.
fn accepting_peer(polls: Vec<Value>) -> ScriptedPeer {
    let poll_count = AtomicUsize::new(0);
    ScriptedPeer::new(move |request| {
        if is_method(request, "execute_task") {
            return request.result(accepted_result());
        }
        let turn = poll_count
            .fetch_add(1, Ordering::SeqCst)
            .min(polls.len() - 1);
        match &polls[turn]["fail"] {
            Value::Null => request.result(polls[turn].clone()),
            reason => request.error(200, -32000, json!({"error_code": reason})),
        }
    })
}

fn progress_event(sequence: u64, member: &str, value: Value) -> String {
    let params = json!({"task_id": "t-1", "sequence": sequence, member: value});
    let data = json!({"jsonrpc": "2.0", "method": "task.progress", "params": params});
    format!("data: {data}\n\n")
}

fn response_event(request: &RecordedRequest, result: Value) -> String {
    let data = json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": result});
    format!("data: {data}\n\n")
}

fn body_parts(parts: &[String]) -> Vec<BodyPart> {
    parts.iter().cloned().map(BodyPart::Text).collect()
}

fn execute_streaming(client: &Client) -> ExecuteTask {
    client
        .execute_task(&execute_params())
        .wait_mode(WaitMode::Stream)
}

async fn collect_events(run: &mut interzone_client::Execution) -> Vec<String> {
    let mut events = Vec::new();
    while let Some(event) = run.next().await {
        events.push(match event {
            ExecuteEvent::Started { task_id } => format!("started {task_id}"),
            ExecuteEvent::Status(line) => format!("status {line}"),
            ExecuteEvent::Text(delta) => format!("text {delta}"),
            ExecuteEvent::Artifact(artifact) => format!("artifact {}", artifact.name),
            other => format!("{other:?}"),
        });
    }
    events
}

#[tokio::test]
async fn execute_task_uses_uuid_id_and_returns_result() {
    let script = ScriptedPeer::new(|request| request.result(success_result("hi")));
    let client = script.client();
    let result = client.execute_task(&execute_params()).await.unwrap();
    assert_eq!(result.response_text.as_deref(), Some("hi"));
    client.execute_task(&execute_params()).await.unwrap();
    let requests = script.requests();
    let id = |request: &RecordedRequest| {
        uuid::Uuid::parse_str(request.json()["id"].as_str().unwrap()).unwrap()
    };
    assert_ne!(id(&requests[0]), id(&requests[1]), "each call has its own");
    assert_eq!(
        requests[0].json()["params"],
        json!({"channel": "C1", "text": "hello", "bot_token": "capability-1"})
    );
    assert_eq!(requests[0].header("accept"), Some("application/json"));
    client
        .execute_task(&execute_params())
        .id("mine")
        .await
        .unwrap();
    assert_eq!(script.requests()[2].json()["id"], json!("mine"));
}

#[tokio::test(start_paused = true)]
async fn retries_reuse_uuid_id_but_not_custom_id() {
    let calls = AtomicUsize::new(0);
    let script = ScriptedPeer::new(move |request| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => PeerAction::Broken,
        1 => PeerAction::status(503),
        _ => request.result(success_result("hi")),
    });
    script
        .client()
        .execute_task(&execute_params())
        .await
        .unwrap();
    let requests = script.requests();
    assert_eq!(requests.len(), 3);
    assert!(
        requests.iter().all(|each| each.body == requests[0].body),
        "one call"
    );

    let script = ScriptedPeer::steps(vec![PeerAction::Broken]);
    let call = script.client().execute_task(&execute_params()).id("req-1");
    let error = call.await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::ResponseReadError);
    assert_eq!(script.requests().len(), 1, "not idempotent, so not retried");
}

#[tokio::test]
async fn response_to_other_id_is_rejected() {
    let script = ScriptedPeer::new(|_| {
        PeerAction::json(
            200,
            &json!({"jsonrpc": "2.0", "id": "other", "result": success_result("hi")}),
        )
    });
    let error = script
        .client()
        .execute_task(&execute_params())
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::InvalidResponse(InvalidResponse::IdMismatch { .. })
        ),
        "{error:?}"
    );
    assert_eq!(error.reason(), ErrorReason::InvalidResponse);

    let script = ScriptedPeer::new(|_| {
        let data = json!({"jsonrpc": "2.0", "id": "other", "result": success_result("hi")});
        PeerAction::events(vec![BodyPart::Text(format!("data: {data}\n\n"))])
    });
    let error = execute_streaming(&script.client()).await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::InvalidResponse);
}

#[tokio::test(start_paused = true)]
async fn accepted_task_is_polled_at_contract_intervals() {
    let script = accepting_peer(vec![
        running_result(None),
        running_result(Some("reading")),
        running_result(Some("reading")),
        running_result(None),
        running_result(None),
        running_result(None),
        json!({"status": "completed", "task_id": "t-1", "result": success_result("done")}),
    ]);
    let started_at = Instant::now();
    let mut run = script
        .client()
        .execute_task(&execute_params())
        .start()
        .unwrap();
    assert_eq!(
        collect_events(&mut run).await,
        ["started t-1", "status reading"]
    );
    assert_eq!(run.task_id(), Some("t-1"));
    let result = run.outcome().await.unwrap();
    assert_eq!(result.response_text.as_deref(), Some("done"));
    let millis_since_start =
        |request: &RecordedRequest| (request.received_at - started_at).as_millis();
    let requests = script.requests();
    let waits: Vec<u128> = requests
        .windows(2)
        .map(|two| millis_since_start(&two[1]) - millis_since_start(&two[0]))
        .collect();
    let due = [2000, 2000, 3000, 4500, 6750, 10_000, 10_000];
    assert_eq!(waits.len(), due.len());
    for (wait, due) in waits.iter().zip(due) {
        assert!(wait.abs_diff(due) <= 5, "{waits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn poll_timeout_ends_wait() {
    for (budget, due) in [(None, 120), (Some(5), 5), (Some(0), 0)] {
        let script = accepting_peer(vec![running_result(None)]);
        let started_at = Instant::now();
        let mut call = script.client().execute_task(&execute_params());
        if let Some(budget) = budget {
            call = call.poll_timeout(Duration::from_secs(budget));
        }
        let error = call.await.unwrap_err();
        assert!(matches!(&error, Error::TaskTimeout { task_id, .. } if task_id == "t-1"));
        assert_eq!(error.reason(), ErrorReason::AsyncTimeout);
        assert_eq!(error.message_key(), UserMessageKey::OutOfTime);
        let took = started_at.elapsed();
        assert!(
            took.abs_diff(Duration::from_secs(due)) < Duration::from_millis(50),
            "{took:?}"
        );
    }
    // A call that took long itself leaves at least half a minute for polling.
    let script = ScriptedPeer::new(|request| {
        if is_method(request, "execute_task") {
            return PeerAction::Delayed(
                Duration::from_secs(100),
                Box::new(request.result(accepted_result())),
            );
        }
        request.result(running_result(None))
    });
    let timeouts = Timeouts::default().set("execute_task", Duration::from_secs(200));
    let client = script.builder().timeouts(timeouts).build().unwrap();
    let started_at = Instant::now();
    client.execute_task(&execute_params()).await.unwrap_err();
    let took = started_at.elapsed();
    assert!(
        took.abs_diff(Duration::from_secs(130)) < Duration::from_millis(50),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn poll_error_fails_wait_unless_transient() {
    let done = json!({"status": "completed", "task_id": "t-1", "result": success_result("done")});
    let passing = vec![json!({"fail": "task_not_found"}), done];
    let result = accepting_peer(passing)
        .client()
        .execute_task(&execute_params())
        .await;
    assert_eq!(result.unwrap().response_text.as_deref(), Some("done"));

    let script = accepting_peer(vec![json!({"fail": "access_denied"})]);
    let error = script
        .client()
        .execute_task(&execute_params())
        .await
        .unwrap_err();
    assert!(matches!(&error, Error::Poll(inner) if inner.reason() == ErrorReason::AccessDenied));
    assert_eq!(error.reason(), ErrorReason::PollError);

    let plays = AtomicUsize::new(0);
    let script = ScriptedPeer::new(move |request| {
        if is_method(request, "execute_task") {
            return request.result(accepted_result());
        }
        match plays.fetch_add(1, Ordering::SeqCst) {
            // As many attempts as one call makes by itself.
            0..4 => PeerAction::status(503),
            _ => request.result(
                json!({"status": "completed", "task_id": "t-1", "result": success_result("done")}),
            ),
        }
    });
    let result = script
        .client()
        .execute_task(&execute_params())
        .await
        .unwrap();
    assert_eq!(result.status, ExecuteStatus::Success);
}

#[tokio::test(start_paused = true)]
async fn failed_task_returns_its_reason() {
    let failed = |data: Value| {
        json!({"status": "failed", "task_id": "t-1",
            "error": {"code": -32000, "message": "no", "data": data}})
    };
    for (data, reason, key) in [
        (
            json!({"error_code": "file_too_large"}),
            ErrorReason::FileTooLarge,
            UserMessageKey::FileTooLarge,
        ),
        (
            Value::Null,
            ErrorReason::AsyncTaskFailed,
            UserMessageKey::BackgroundFailed,
        ),
    ] {
        let script = accepting_peer(vec![failed(data)]);
        let error = script
            .client()
            .execute_task(&execute_params())
            .await
            .unwrap_err();
        assert_eq!((error.reason(), error.message_key()), (reason, key));
        assert_eq!(error.rpc_error().unwrap().message, "no");
    }
}

#[tokio::test]
async fn no_wait_mode_returns_accepted() {
    let script = accepting_peer(vec![running_result(None)]);
    let call = script
        .client()
        .execute_task(&execute_params())
        .wait_mode(WaitMode::NoWait);
    let result = call.await.unwrap();
    assert_eq!(result.status, ExecuteStatus::Accepted);
    assert_eq!(result.task_id.as_deref(), Some("t-1"));
    assert_eq!(script.requests().len(), 1);
}

#[tokio::test]
async fn streamed_events_are_yielded_once_in_order() {
    let file = json!({"artifactId": "a-1", "name": "generated_file", "parts":
        [{"kind": "file", "contentBase64": "aGk=", "fileName": "a.txt", "mimeType": "text/plain"}]});
    let script = ScriptedPeer::new(move |request| {
        let parts = [
            ": hello\n\n".to_owned(),
            progress_event(1, "status", json!("reading")),
            progress_event(2, "text_delta", json!("Hel")),
            progress_event(2, "text_delta", json!("Hel")),
            progress_event(3, "text_delta", json!("lo")),
            "data: {\"jsonrpc\":\"2.0\",\"method\":\"something.else\"}\n\n".to_owned(),
            progress_event(4, "artifact", file.clone()),
            response_event(request, success_result("Hello")),
        ];
        PeerAction::events(body_parts(&parts))
    });
    let mut run = execute_streaming(&script.client()).start().unwrap();
    let received = collect_events(&mut run).await;
    let due = [
        "started t-1",
        "status reading",
        "text Hel",
        "text lo",
        "artifact generated_file",
    ];
    assert_eq!(received, due);
    let result = run.outcome().await.unwrap();
    assert_eq!(result.response_text.as_deref(), Some("Hello"));
    let accept = script.requests()[0].header("accept").unwrap().to_owned();
    assert!(accept.starts_with("text/event-stream"), "{accept}");
}

#[tokio::test]
async fn stream_mode_accepts_json_response() {
    let script = ScriptedPeer::new(|request| request.result(success_result("hi")));
    let result = execute_streaming(&script.client()).await.unwrap();
    assert_eq!(result.response_text.as_deref(), Some("hi"));
    let script = ScriptedPeer::new(|request| {
        request.error(200, -32602, json!({"error_code": "missing_text"}))
    });
    let error = execute_streaming(&script.client()).await.unwrap_err();
    assert_eq!(error.message_key(), UserMessageKey::AskSomething);
}

#[tokio::test(start_paused = true)]
async fn broken_stream_falls_back_to_polling() {
    for end in [BodyPart::Break, BodyPart::Stall] {
        let script = ScriptedPeer::new(move |request| {
            if is_method(request, "get_task_result") {
                let done = json!({"status": "completed", "task_id": "t-1", "result": success_result("Hello")});
                return request.result(done);
            }
            let mut parts = body_parts(&[progress_event(1, "text_delta", json!("Hel"))]);
            parts.push(end.clone());
            PeerAction::events(parts)
        });
        let mut run = execute_streaming(&script.client()).start().unwrap();
        assert_eq!(collect_events(&mut run).await, ["started t-1", "text Hel"]);
        let result = run.outcome().await.unwrap();
        assert_eq!(result.response_text.as_deref(), Some("Hello"));
        assert_eq!(script.requests().len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn stream_broken_at_start_is_retried_with_same_id() {
    let plays = AtomicUsize::new(0);
    let script = ScriptedPeer::new(move |request| match plays.fetch_add(1, Ordering::SeqCst) {
        0 => PeerAction::events(vec![
            BodyPart::Text(": hello\n\n".to_owned()),
            BodyPart::Break,
        ]),
        1 => PeerAction::events(Vec::new()),
        _ => PeerAction::events(body_parts(&[response_event(request, success_result("hi"))])),
    });
    let result = execute_streaming(&script.client()).await.unwrap();
    assert_eq!(result.response_text.as_deref(), Some("hi"));
    let requests = script.requests();
    assert_eq!(requests.len(), 3);
    assert!(requests.iter().all(|each| each.body == requests[0].body));

    let script = ScriptedPeer::new(|_| PeerAction::events(vec![BodyPart::Break]));
    let client = script
        .builder()
        .retry(RetryPolicy::never())
        .build()
        .unwrap();
    let error = execute_streaming(&client).await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::ResponseReadError);
}

#[tokio::test(start_paused = true)]
async fn dropped_execution_can_cancel_task() {
    for (cancel, is_started) in [(true, true), (true, false), (false, true)] {
        let canceled = Arc::new(Notify::new());
        let cancel_signal = canceled.clone();
        let script = ScriptedPeer::new(move |request| {
            if is_method(request, "cancel_task") {
                canceled.notify_one();
                return request.result(json!({"status": "canceled", "task_id": "t-1"}));
            }
            let by_events = request
                .header("accept")
                .unwrap()
                .starts_with("text/event-stream");
            if !is_started && !by_events {
                return PeerAction::Hang;
            }
            let mut parts = body_parts(&[progress_event(1, "status", json!("at it"))]);
            parts.push(BodyPart::Stall);
            PeerAction::events(parts)
        });
        let call = script
            .client()
            .execute_task(&execute_params())
            .cancel_on_drop(cancel);
        let waiting = if is_started {
            WaitMode::Stream
        } else {
            WaitMode::Poll
        };
        let mut run = call.wait_mode(waiting).start().unwrap();
        let first_event = tokio::time::timeout(Duration::from_secs(1), run.next()).await;
        assert_eq!(first_event.is_ok(), is_started);
        drop(run);
        let cancel_seen =
            tokio::time::timeout(Duration::from_secs(20), cancel_signal.notified()).await;
        assert_eq!(
            cancel_seen.is_ok(),
            cancel,
            "cancel {cancel}, known {is_started}"
        );
        let requests = script.requests();
        let tries = requests
            .iter()
            .filter(|request| is_method(request, "execute_task"));
        let ids: std::collections::HashSet<String> = tries
            .map(|request| request.json()["id"].to_string())
            .collect();
        assert_eq!(ids.len(), 1, "no other task was created");
    }
}

#[tokio::test]
async fn execution_can_be_canceled() {
    let script = ScriptedPeer::new(|request| {
        if is_method(request, "cancel_task") {
            assert_eq!(request.json()["params"], json!({"task_id": "t-1"}));
            return request.result(json!({"status": "canceled", "task_id": "t-1"}));
        }
        let error = json!({"code": -32000, "message": "no", "data": {"error_code": "canceled"}});
        let end = json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": error});
        PeerAction::events(body_parts(&[
            progress_event(1, "status", json!("at it")),
            format!("data: {end}\n\n"),
        ]))
    });
    let client = script.client();
    let mut fresh = execute_streaming(&client).start().unwrap();
    assert!(!fresh.cancel().await.unwrap(), "no task was created");
    assert!(script.requests().is_empty());
    let mut run = execute_streaming(&client).start().unwrap();
    run.next().await.unwrap();
    assert!(run.cancel().await.unwrap());
    let error = run.outcome().await.unwrap_err();
    assert_eq!(error.message_key(), UserMessageKey::Stopped);
}

#[tokio::test]
async fn legacy_result_forms_are_accepted() {
    let older = json!({"status": "error", "error_code": "bedrock_throttling",
        "error_message": "busy"});
    let script = ScriptedPeer::new(move |request| request.result(older.clone()));
    let error = script
        .client()
        .execute_task(&execute_params())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), ErrorReason::ModelThrottling);
    assert_eq!(error.message_key(), UserMessageKey::Busy);
    assert_eq!(error.rpc_error().unwrap().message, "busy");

    let file = json!({"artifactId": "a-1", "name": "generated_file", "parts":
        [{"kind": "file", "contentBase64": "aGk=", "fileName": "a.txt", "mimeType": "text/plain"}]});
    let text_artifact = json!({"artifactId": "a-0", "name": "execution_response", "parts":
        [{"kind": "text", "text": "Here."}]});
    for result in [
        json!({"status": "success", "response_text": "Here.", "file_artifact": file}),
        json!({"status": "success", "artifacts": [text_artifact, file]}),
    ] {
        let script = ScriptedPeer::new(move |request| request.result(result.clone()));
        let result = script
            .client()
            .execute_task(&execute_params())
            .await
            .unwrap();
        assert_eq!(result.response_text.as_deref(), Some("Here."));
        let file = result.file_artifact.unwrap();
        assert!(result.artifacts.unwrap().contains(&file), "in both members");
        assert!(
            matches!(&file.parts[..], [ArtifactPart::File { file_name, .. }] if file_name == "a.txt")
        );
    }
}

#[tokio::test]
async fn other_zone_methods_return_typed_results() {
    let script = ScriptedPeer::new(|request| match request.json()["method"].as_str().unwrap() {
        "get_task_result" => request.result(running_result(Some("at it"))),
        "cancel_task" => request.error(200, -32000, json!({"error_code": "task_finished"})),
        _ => request.result(
            json!({"name": "Zone", "description": "d", "version": "1.0.0", "url": "https://z",
                "provider": {"organization": "o"}}),
        ),
    });
    let client = script.client();
    let task = TaskIdParams {
        task_id: "t-1".to_owned(),
    };
    let outcome = client.get_task_result(&task).await.unwrap();
    assert_eq!(outcome, TaskOutcome::Running(Some("at it".to_owned())));
    let error = client.cancel_task(&task).await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::TaskFinished);
    assert_eq!(client.get_agent_card().await.unwrap().name, "Zone");
    assert_eq!(script.requests()[2].json()["params"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn every_failure_has_a_reason() {
    let json_body = |body: &str| PeerAction::text(200, "application/json", body);
    let named = |code: i64, name: &str| {
        let name = name.to_owned();
        ScriptedPeer::new(move |request| request.error(200, code, json!({"error_code": name})))
    };
    for reason in ErrorReason::ALL {
        let script = named(reason.code().get().into(), reason.name());
        let error = script
            .client()
            .execute_task(&execute_params())
            .await
            .unwrap_err();
        assert_eq!(error.reason(), *reason);
        assert_eq!(error.message_key(), reason.message_key());
    }
    for (step, reason) in [
        (json_body(""), ErrorReason::InvalidResponse),
        (PeerAction::status(200), ErrorReason::InvalidResponse),
        (json_body("no json"), ErrorReason::InvalidResponse),
        (
            json_body("{\"jsonrpc\":\"2.0\",\"id\":1}"),
            ErrorReason::InvalidResponse,
        ),
        (
            PeerAction::text(200, "text/html", "<p>"),
            ErrorReason::InvalidResponse,
        ),
        (PeerAction::status(429), ErrorReason::Throttling),
        (PeerAction::status(403), ErrorReason::AccessDenied),
        (PeerAction::status(500), ErrorReason::InternalError),
        (PeerAction::NotConnected, ErrorReason::Unavailable),
        (PeerAction::Broken, ErrorReason::ResponseReadError),
        (PeerAction::Hang, ErrorReason::AsyncTimeout),
    ] {
        let script = ScriptedPeer::steps(vec![step.clone()]);
        let error = script
            .client()
            .execute_task(&execute_params())
            .await
            .unwrap_err();
        assert_eq!(error.reason(), reason, "{step:?} gave {error}");
    }
    for (code, status, reason) in [
        (-32053, 200, ErrorReason::Throttling),
        (-40007, 401, ErrorReason::AccessDenied),
        (-40008, 403, ErrorReason::AccessDenied),
        (-32003, 429, ErrorReason::RateLimited),
        (-32001, 200, ErrorReason::AsyncTimeout),
        (-32099, 200, ErrorReason::InternalError),
    ] {
        let script = ScriptedPeer::new(move |request| request.error(status, code, Value::Null));
        let error = script
            .client()
            .execute_task(&execute_params())
            .await
            .unwrap_err();
        assert_eq!(error.reason(), reason, "{code}");
    }
}
