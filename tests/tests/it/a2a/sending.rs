//! Sending messages: answers, waiting, continuing, idempotency.

use super::{A2aZone, error_of, refused, send_params, send_params_v03};
use serde_json::{Value, json};

#[tokio::test]
async fn direct_answer_is_a_message_in_both_versions() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let mut result = zone
        .call(&token, "SendMessage", send_params("echo hi"))
        .await;
    let message = result["message"].take();
    assert_eq!(message["role"], "ROLE_AGENT");
    assert_eq!(message["parts"], json!([{"text": "hi"}]));
    assert!(message["contextId"].is_string() && message.get("taskId").is_none());

    let message = zone
        .call(&token, "message/send", send_params_v03("echo hi"))
        .await;
    assert_eq!(message["kind"], "message");
    assert_eq!(message["role"], "agent");
    assert_eq!(message["parts"], json!([{"kind": "text", "text": "hi"}]));
}

#[tokio::test]
async fn waiting_send_answers_with_the_finished_task() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let result = zone.call_at(
        &token,
        "/agents/maker/a2a",
        "SendMessage",
        send_params("go"),
    );
    let result = result.await["result"].take();
    let task = &result["task"];
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
    assert!(task["status"].get("message").is_none());
    assert_eq!(
        task["artifacts"],
        json!([
            {"artifactId": "report", "name": "Report", "parts": [{"text": "rain"}]},
            {"artifactId": "answer-1", "parts": [{"text": "made"}]},
        ])
    );
    assert_eq!(task["history"].as_array().unwrap().len(), 1);
    assert_eq!(task["history"][0]["messageId"], "m");

    let mut params = send_params_v03("go");
    params["metadata"] = json!({"trace": 12_345_678_901_u64});
    params["configuration"] = json!({"historyLength": 0});
    let old = zone.call_at(&token, "/agents/maker/a2a", "message/send", params);
    let task = old.await["result"].take();
    assert_eq!(task["kind"], "task");
    assert_eq!(task["status"]["state"], "completed");
    assert_eq!(
        task["artifacts"][1]["parts"],
        json!([{"kind": "text", "text": "made"}])
    );
    assert_eq!(
        task["history"].as_array().unwrap().len(),
        1,
        "0 means all in 0.3"
    );
    assert_eq!(task["metadata"], json!({"trace": 12_345_678_901_u64}));
}

#[tokio::test]
async fn question_ends_the_wait_and_its_answer_continues_the_task() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let mut result = zone
        .call(&token, "SendMessage", send_params("ask Which city?"))
        .await;
    let task = result["task"].take();
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let question = task["status"]["message"]["messageId"].clone();
    assert_eq!(
        task["history"].as_array().unwrap().len(),
        1,
        "without the question"
    );

    let mut params = send_params("Kyoto");
    params["message"]["taskId"] = task["id"].clone();
    params["message"]["contextId"] = json!("another");
    let mismatch = zone.call_error(&token, "SendMessage", params.clone()).await;
    assert_eq!(mismatch, refused(-32602, "INVALID_PARAMS"));
    params["message"]["contextId"] = task["contextId"].clone();
    let mut result = zone.call(&token, "SendMessage", params.clone()).await;
    let done = result["task"].take();
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED");
    assert_eq!(done["artifacts"][0]["artifactId"], "answer-2");
    assert_eq!(
        done["history"][1]["messageId"], question,
        "the question is history now"
    );

    let finished = refused(-32004, "UNSUPPORTED_OPERATION");
    assert_eq!(
        zone.call_error(&token, "SendMessage", params).await,
        finished
    );
}

#[tokio::test]
async fn message_to_working_task_waits_for_its_own_turn() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let task = zone.start(&token, "gate", "one").await;
    let mut params = send_params("two");
    params["message"]["taskId"] = task["id"].clone();
    zone.gate.add_permits(2);
    let mut result = zone.call(&token, "SendMessage", params).await;
    let done = result["task"].take();
    let texts = done["artifacts"].as_array().unwrap().iter();
    let texts: Vec<_> = texts
        .map(|artifact| &artifact["parts"][0]["text"])
        .collect();
    assert_eq!(*texts.last().unwrap(), "did two", "{done}");
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED");
}

#[tokio::test]
async fn send_that_does_not_wait_returns_the_running_task() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let task = zone.start(&token, "gate", "one").await;
    let state = task["status"]["state"].as_str().unwrap();
    assert!(
        ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].contains(&state),
        "{task}"
    );
    let mut params = send_params_v03("two");
    params["configuration"] = json!({"blocking": false});
    let old = zone.call_at(&token, "/agents/gate/a2a", "message/send", params);
    let task = old.await["result"].take();
    assert!(["submitted", "working"].contains(&task["status"]["state"].as_str().unwrap()));
    // A direct answer that comes at once is returned nevertheless.
    let mut params = send_params("echo hi");
    params["configuration"] = json!({"returnImmediately": true});
    let result = zone.call(&token, "SendMessage", params).await;
    assert_eq!(result["message"]["parts"][0]["text"], "hi");
}

#[tokio::test]
async fn idempotency_key_makes_repetitions_return_the_first_task() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let send = async |key: &str, text: &str| {
        let params = send_params(text);
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params});
        let headers = [("Idempotency-Key", key)];
        let path = "/agents/maker/a2a";
        let (_, _, body) = zone.post(&token, path, &headers, call.to_string()).await;
        body
    };
    let first = send("k1", "go").await;
    assert!(first["result"]["task"]["id"].is_string(), "{first}");
    assert_eq!(send("k1", "go").await, first);
    let other = send("k2", "go").await;
    assert_ne!(other["result"]["task"]["id"], first["result"]["task"]["id"]);
    let reused = send("k1", "another text").await;
    assert_eq!(error_of(&reused), refused(-32602, "IDEMPOTENCY_KEY_REUSED"));
    let invalid = send("k 1", "go").await;
    assert_eq!(error_of(&invalid), refused(-32602, "INVALID_PARAMS"));
}

#[tokio::test]
async fn context_is_taken_as_given_or_refused() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let mut params = send_params("go");
    params["message"]["contextId"] = json!("my-context");
    params["tenant"] = json!("maker");
    let result = zone.call(&token, "SendMessage", params.clone()).await;
    assert_eq!(result["task"]["contextId"], "my-context");
    params["message"]["contextId"] = json!("x".repeat(129));
    let too_long = zone.call_error(&token, "SendMessage", params).await;
    assert_eq!(too_long, refused(-32602, "INVALID_PARAMS"));
}

#[tokio::test]
async fn unknown_agent_is_refused() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let mut params = send_params("go");
    params["tenant"] = json!("unknown");
    let unknown = zone.call_error(&token, "SendMessage", params.clone()).await;
    assert_eq!(unknown, refused(-32602, "INVALID_PARAMS"));
    params["tenant"] = json!("demo");
    let body = zone.call_at(&token, "/agents/maker/a2a", "SendMessage", params.clone());
    assert_eq!(error_of(&body.await).0, -32602);
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params});
    let (status, _, _) = zone
        .post(&token, "/agents/unknown/a2a", &[], call.to_string())
        .await;
    assert_eq!(status, 404);
}

#[tokio::test]
async fn references_to_tasks_of_others_are_dropped() {
    let zone = A2aZone::new().await;
    let (anna, bert) = (zone.zone.token("anna").await, zone.zone.token("bert").await);
    let mine = zone.start(&anna, "gate", "one").await["id"].take();
    let theirs = zone.start(&bert, "gate", "one").await["id"].take();
    let mut params = send_params("go");
    params["message"]["referenceTaskIds"] = json!([mine, theirs, "no-such"]);
    params["tenant"] = json!("maker");
    let result = zone.call(&anna, "SendMessage", params).await;
    let references: &Value = &result["task"]["history"][0]["referenceTaskIds"];
    assert_eq!(*references, json!([mine]));
}
