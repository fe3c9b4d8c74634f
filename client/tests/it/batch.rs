//! Batches: in any order of responses each call gets its own.

use crate::calls::{create_params, get_params};
use crate::scripted_peer::{PeerAction, RecordedRequest, ScriptedPeer, task_result};
use interzone_client::{Error, InvalidResponse};
use serde_json::{Value, json};

/// Answers each call with the task it asks for.
fn responses_for(request: &RecordedRequest) -> Vec<Value> {
    let calls = request.json();
    let calls_with_id = calls
        .as_array()
        .unwrap()
        .iter()
        .filter(|call| call.get("id").is_some());
    calls_with_id
        .map(|call| {
            let id = call["params"]["taskId"].as_str().unwrap_or("new");
            json!({"jsonrpc": "2.0", "id": call["id"], "result": task_result(id)})
        })
        .collect()
}

#[tokio::test]
async fn batch_responses_match_calls_in_any_order() {
    let script = ScriptedPeer::new(|request| {
        let mut all = responses_for(request);
        all.reverse();
        PeerAction::json(200, &Value::Array(all))
    });
    let mut batch = script.client().batch();
    let tasks: Vec<_> = (0..50)
        .map(|n| batch.tasks_get(&get_params(&format!("t-{n}"))))
        .collect();
    batch
        .notify("task.notification", &json!({"taskId": "t"}))
        .unwrap();
    let created = batch.tasks_create(&create_params());
    let raw = batch.call_raw("other", &json!({"taskId": "raw"}));
    let mut answers = batch.send().await.unwrap();
    assert_eq!(answers.take(created).unwrap().task_id, "new");
    for (n, task) in tasks.into_iter().enumerate() {
        assert_eq!(answers.take(task).unwrap().task_id, format!("t-{n}"));
    }
    let raw: Value = answers.take(raw).unwrap().decode().unwrap();
    assert_eq!(raw["task"]["taskId"], "raw");
    assert!(answers.unmatched_ids().is_empty());
    assert_eq!(script.requests().len(), 1);
}

#[tokio::test]
async fn missing_duplicate_and_stray_responses_are_reported() {
    let script = ScriptedPeer::new(|request| {
        let all = responses_for(request);
        let mut second = all[1].clone();
        second["error"] = json!({"code": -40001, "message": "no", "data": {"taskId": "t-1"}});
        second.as_object_mut().unwrap().remove("result");
        let stray = json!({"jsonrpc": "2.0", "id": "1", "result": 1});
        let twice = all[3].clone();
        let answers = vec![stray, all[3].clone(), second, all[0].clone(), twice];
        PeerAction::json(200, &Value::Array(answers))
    });
    let mut batch = script.client().batch();
    let [good, refused, missing, doubled] =
        ["t-0", "t-1", "t-2", "t-3"].map(|id| batch.tasks_get(&get_params(id)));
    let broken = batch.call_raw("rpc.reserved", &());
    let mut answers = batch.send().await.unwrap();
    assert_eq!(
        answers.unmatched_ids(),
        ["\"1\""],
        "the type of an id counts"
    );
    assert_eq!(answers.take(good).unwrap().task_id, "t-0");
    assert_eq!(
        answers.take(refused).unwrap_err().code().unwrap().get(),
        -40001
    );
    let error = answers.take(missing).unwrap_err();
    assert!(
        matches!(error, Error::InvalidResponse(InvalidResponse::Missing(_))),
        "{error:?}"
    );
    let error = answers.take(doubled).unwrap_err();
    assert!(
        matches!(error, Error::InvalidResponse(InvalidResponse::Duplicate(_))),
        "{error:?}"
    );
    assert!(matches!(answers.take(broken), Err(Error::Method)));
}

#[tokio::test]
async fn batch_can_be_rejected_as_one() {
    let refused = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "no"}});
    let script = ScriptedPeer::steps(vec![PeerAction::json(400, &refused)]);
    let mut batch = script.client().batch();
    let _ = batch.tasks_get(&get_params("t"));
    assert_eq!(
        batch.send().await.unwrap_err().code().unwrap().get(),
        -32600
    );
}

#[tokio::test]
async fn batch_handles_belong_to_one_batch() {
    let script =
        ScriptedPeer::new(|request| PeerAction::json(200, &Value::Array(responses_for(request))));
    let client = script.client();
    let (mut one, mut two) = (client.batch(), client.batch());
    let first = one.tasks_get(&get_params("one"));
    let second = two.tasks_get(&get_params("two"));
    let mut answers = one.send().await.unwrap();
    assert!(answers.take(second).is_err());
    assert_eq!(answers.take(first).unwrap().task_id, "one");
}

#[tokio::test]
async fn notifications_in_batch_get_no_response() {
    let script = ScriptedPeer::steps(vec![PeerAction::status(204)]);
    let client = script.client();
    client.batch().send().await.unwrap();
    assert!(script.requests().is_empty(), "an empty batch is not sent");
    let mut batch = client.batch();
    batch.notify("note", &json!({"n": 1})).unwrap();
    batch.notify("note", &json!({"n": 2})).unwrap();
    batch.send().await.unwrap();
    assert_eq!(script.requests()[0].json().as_array().unwrap().len(), 2);
}
