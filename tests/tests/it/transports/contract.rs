//! The contract that holds over every transport to a zone.

use interzone_client::{Client, ExecuteEvent, Execution, WaitMode};
use interzone_protocol::acp::{TasksCreateParams, TasksGetParams};
use interzone_protocol::vocab::Message;
use interzone_protocol::zone::{
    ArtifactPart, ErrorReason, ExecuteResult, ExecuteStatus, ExecuteTaskParams, TaskIdParams,
    ZoneArtifact,
};
use std::time::Duration;

fn execute_params(text: &str) -> ExecuteTaskParams {
    ExecuteTaskParams {
        correlation_id: Some("corr-1".to_owned()),
        thread_ts: Some("1.1".to_owned()),
        ..ExecuteTaskParams::new("C1", text, "capability-1")
    }
}

/// Client with the same thread, for calls that name none.
fn in_thread(client: &Client) -> Client {
    client.with_conversation("/C1/1.1")
}

pub(super) async fn check(client: &Client) {
    check_answer(client).await;
    check_streaming(client).await;
    check_files(client).await;
    check_input_required(client).await;
    check_idempotency(client).await;
    check_accepted_and_polled(client).await;
    check_cancel(client).await;
    check_errors(client).await;
    check_acp(client).await;
}

async fn check_answer(client: &Client) {
    let result = client
        .execute_task(&execute_params("echo héllo ☃"))
        .await
        .unwrap();
    assert_eq!(result.status, ExecuteStatus::Success);
    assert_eq!(result.response_text.as_deref(), Some("héllo ☃"));
    assert_eq!(result.correlation_id.as_deref(), Some("corr-1"));
    assert_eq!(result.channel.as_deref(), Some("C1"));
    let card = in_thread(client).get_agent_card().await.unwrap();
    assert!(!card.name.is_empty());
}

fn start_streaming(client: &Client, text: &str) -> Execution {
    let call = client
        .execute_task(&execute_params(text))
        .wait_mode(WaitMode::Stream);
    call.start().unwrap()
}

async fn check_streaming(client: &Client) {
    let mut run = start_streaming(client, "stream 5");
    let mut text = String::new();
    let mut pieces = 0;
    while let Some(event) = run.next().await {
        if let ExecuteEvent::Text(delta) = event {
            text += &delta;
            pieces += 1;
        }
    }
    let result = run.outcome().await.unwrap();
    assert_eq!(result.response_text.as_ref(), Some(&text));
    assert!(pieces > 1, "it came in pieces: {pieces}");
}

fn file_content(result: &ExecuteResult) -> (&str, &str) {
    let artifacts = result.artifacts.as_deref().unwrap();
    let made = artifacts
        .iter()
        .find(|made| made.name == ZoneArtifact::FILE_NAME)
        .unwrap();
    assert_eq!(result.file_artifact.as_ref(), Some(made));
    match &made.parts[..] {
        [
            ArtifactPart::File {
                file_name,
                content_base64,
                ..
            },
        ] => (file_name, content_base64),
        other => panic!("{other:?}"),
    }
}

async fn check_files(client: &Client) {
    let plain = client
        .execute_task(&execute_params("file csv name,amount"))
        .await
        .unwrap();
    let run = start_streaming(client, "file csv name,amount");
    let live = run.outcome().await.unwrap();
    assert_eq!(file_content(&plain), file_content(&live));
    assert!(file_content(&plain).0.ends_with(".csv"));
}

async fn check_input_required(client: &Client) {
    let question = client
        .execute_task(&execute_params("ask Which one?"))
        .await
        .unwrap();
    assert_eq!(question.state.as_deref(), Some("input_required"));
    assert_eq!(question.response_text.as_deref(), Some("Which one?"));
    let answer = ExecuteTaskParams {
        task_id: question.task_id.clone(),
        ..execute_params("the blue one")
    };
    let done = client.execute_task(&answer).await.unwrap();
    assert_eq!(
        done.response_text.as_deref(),
        Some("You answered: the blue one")
    );
    assert_eq!(done.task_id, question.task_id);
}

async fn check_idempotency(client: &Client) {
    let id = "6f1c5a0e-6d52-4c58-9a55-0c9d4a3f7b21";
    let first = client
        .execute_task(&execute_params("echo once"))
        .id(id)
        .await
        .unwrap();
    let second = client.execute_task(&execute_params("echo once")).id(id);
    let second = second.wait_mode(WaitMode::Stream).await.unwrap();
    assert_eq!(first.task_id, second.task_id);
    let other = client
        .execute_task(&execute_params("echo once"))
        .await
        .unwrap();
    assert_ne!(first.task_id, other.task_id);
}

async fn check_accepted_and_polled(client: &Client) {
    let call = client
        .execute_task(&execute_params("wait 2"))
        .wait_mode(WaitMode::NoWait);
    let accepted = call.await.unwrap();
    assert_eq!(accepted.status, ExecuteStatus::Accepted);
    let done = client
        .execute_task(&execute_params("wait 2"))
        .await
        .unwrap();
    assert_eq!(done.response_text.as_deref(), Some("I waited 2 s."));
}

async fn check_cancel(client: &Client) {
    let mut run = start_streaming(client, "wait 500");
    let started = run.next().await;
    assert!(
        matches!(started, Some(ExecuteEvent::Started { .. })),
        "{started:?}"
    );
    assert!(run.cancel().await.unwrap());
    let error = run.outcome().await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::Canceled);

    let mut run = start_streaming(client, "wait 500");
    let Some(ExecuteEvent::Started { task_id }) = run.next().await else {
        panic!("the first event is not `Started`");
    };
    drop(run);
    in_thread(client)
        .cancel_task(&TaskIdParams { task_id })
        .await
        .unwrap();
    let done = client
        .execute_task(&execute_params("echo hi"))
        .await
        .unwrap();
    let task = TaskIdParams {
        task_id: done.task_id.unwrap(),
    };
    let error = in_thread(client).cancel_task(&task).await.unwrap_err();
    assert_eq!(error.reason(), ErrorReason::TaskFinished);
}

async fn check_errors(client: &Client) {
    for (text, reason) in [
        ("fail on purpose", ErrorReason::AgentFailed),
        ("  ", ErrorReason::MissingText),
    ] {
        for waiting in [WaitMode::Poll, WaitMode::Stream] {
            let call = client
                .execute_task(&execute_params(text))
                .wait_mode(waiting);
            let error = call.await.unwrap_err();
            assert_eq!(error.reason(), reason, "{text:?}: {error}");
        }
    }
    let unknown = TaskIdParams {
        task_id: "unknown".to_owned(),
    };
    let error = in_thread(client)
        .get_task_result(&unknown)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), ErrorReason::TaskNotFound);
    let error = in_thread(client)
        .call_raw("no_such_method", &serde_json::json!({}))
        .await;
    assert_eq!(error.unwrap_err().reason(), ErrorReason::MethodNotFound);
}

async fn check_acp(client: &Client) {
    let client = in_thread(client).with_timeout(Duration::from_secs(20));
    let params = TasksCreateParams {
        initial_message: Message::user_text("echo hi"),
        assign_to: None,
        priority: None,
        metadata: None,
    };
    let task = client.tasks_create(&params).await.unwrap();
    let params = TasksGetParams {
        task_id: task.task_id.clone(),
        include_messages: None,
        include_artifacts: None,
    };
    assert_eq!(
        client.tasks_get(&params).await.unwrap().task_id,
        task.task_id
    );
}
