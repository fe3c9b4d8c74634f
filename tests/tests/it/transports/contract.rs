//! What must hold however a zone is reached.

use interzone_client::{Client, ExecuteEvent, Execution, Waiting};
use interzone_protocol::acp::{TasksCreateParams, TasksGetParams};
use interzone_protocol::vocab::Message;
use interzone_protocol::zone::{
    ArtifactPart, ErrorWord, ExecuteResult, ExecuteStatus, ExecuteTaskParams, TaskIdParams,
    ZoneArtifact,
};
use std::time::Duration;

fn asked(text: &str) -> ExecuteTaskParams {
    ExecuteTaskParams {
        correlation_id: Some("corr-1".to_owned()),
        thread_ts: Some("1.1".to_owned()),
        ..ExecuteTaskParams::new("C1", text, "capability-1")
    }
}

/// The same thread for calls that name none by themselves.
fn of_thread(client: &Client) -> Client {
    client.with_conversation("/C1/1.1")
}

pub(super) async fn holds(client: &Client) {
    answers(client).await;
    streams(client).await;
    makes_files(client).await;
    asks_back(client).await;
    begins_once(client).await;
    takes_longer(client).await;
    is_called_off(client).await;
    says_what_is_wrong(client).await;
    speaks_acp_too(client).await;
}

async fn answers(client: &Client) {
    let result = client.execute_task(&asked("echo héllo ☃")).await.unwrap();
    assert_eq!(result.status, ExecuteStatus::Success);
    assert_eq!(result.response_text.as_deref(), Some("héllo ☃"));
    assert_eq!(result.correlation_id.as_deref(), Some("corr-1"));
    assert_eq!(result.channel.as_deref(), Some("C1"));
    let card = of_thread(client).get_agent_card().await.unwrap();
    assert!(!card.name.is_empty());
}

fn watched(client: &Client, text: &str) -> Execution {
    let call = client.execute_task(&asked(text)).waiting(Waiting::Events);
    call.start().unwrap()
}

async fn streams(client: &Client) {
    let mut run = watched(client, "stream 5");
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

fn file(result: &ExecuteResult) -> (&str, &str) {
    let artifacts = result.artifacts.as_deref().unwrap();
    let made = artifacts
        .iter()
        .find(|made| made.name == ZoneArtifact::FILE)
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

async fn makes_files(client: &Client) {
    let plain = client
        .execute_task(&asked("file csv name,amount"))
        .await
        .unwrap();
    let run = watched(client, "file csv name,amount");
    let live = run.outcome().await.unwrap();
    assert_eq!(file(&plain), file(&live));
    assert!(file(&plain).0.ends_with(".csv"));
}

async fn asks_back(client: &Client) {
    let question = client.execute_task(&asked("ask Which one?")).await.unwrap();
    assert_eq!(question.state.as_deref(), Some("input_required"));
    assert_eq!(question.response_text.as_deref(), Some("Which one?"));
    let answer = ExecuteTaskParams {
        task_id: question.task_id.clone(),
        ..asked("the blue one")
    };
    let done = client.execute_task(&answer).await.unwrap();
    assert_eq!(
        done.response_text.as_deref(),
        Some("You answered: the blue one")
    );
    assert_eq!(done.task_id, question.task_id);
}

async fn begins_once(client: &Client) {
    let id = "6f1c5a0e-6d52-4c58-9a55-0c9d4a3f7b21";
    let first = client
        .execute_task(&asked("echo once"))
        .id(id)
        .await
        .unwrap();
    let second = client.execute_task(&asked("echo once")).id(id);
    let second = second.waiting(Waiting::Events).await.unwrap();
    assert_eq!(first.task_id, second.task_id);
    let other = client.execute_task(&asked("echo once")).await.unwrap();
    assert_ne!(first.task_id, other.task_id);
}

async fn takes_longer(client: &Client) {
    let call = client.execute_task(&asked("wait 2")).waiting(Waiting::Not);
    let accepted = call.await.unwrap();
    assert_eq!(accepted.status, ExecuteStatus::Accepted);
    let done = client.execute_task(&asked("wait 2")).await.unwrap();
    assert_eq!(done.response_text.as_deref(), Some("I waited 2 s."));
}

async fn is_called_off(client: &Client) {
    let mut run = watched(client, "wait 500");
    let begun = run.next().await;
    assert!(
        matches!(begun, Some(ExecuteEvent::Begun { .. })),
        "{begun:?}"
    );
    assert!(run.cancel().await.unwrap());
    let error = run.outcome().await.unwrap_err();
    assert_eq!(error.error_word(), ErrorWord::Canceled);

    let mut run = watched(client, "wait 500");
    let Some(ExecuteEvent::Begun { task_id }) = run.next().await else {
        panic!("it did not begin");
    };
    drop(run);
    of_thread(client)
        .cancel_task(&TaskIdParams { task_id })
        .await
        .unwrap();
    let done = client.execute_task(&asked("echo hi")).await.unwrap();
    let task = TaskIdParams {
        task_id: done.task_id.unwrap(),
    };
    let error = of_thread(client).cancel_task(&task).await.unwrap_err();
    assert_eq!(error.error_word(), ErrorWord::TaskFinished);
}

async fn says_what_is_wrong(client: &Client) {
    for (text, word) in [
        ("fail on purpose", ErrorWord::AgentFailed),
        ("  ", ErrorWord::MissingText),
    ] {
        for waiting in [Waiting::Polls, Waiting::Events] {
            let call = client.execute_task(&asked(text)).waiting(waiting);
            let error = call.await.unwrap_err();
            assert_eq!(error.error_word(), word, "{text:?}: {error}");
        }
    }
    let nobody = TaskIdParams {
        task_id: "nobody".to_owned(),
    };
    let error = of_thread(client)
        .get_task_result(&nobody)
        .await
        .unwrap_err();
    assert_eq!(error.error_word(), ErrorWord::TaskNotFound);
    let error = of_thread(client)
        .call_raw("no_such_method", &serde_json::json!({}))
        .await;
    assert_eq!(error.unwrap_err().error_word(), ErrorWord::MethodNotFound);
}

async fn speaks_acp_too(client: &Client) {
    let client = of_thread(client).with_timeout(Duration::from_secs(20));
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
