//! Batches and notifications.

use super::{ZoneFixture, ZoneFixtureOptions, error_code, user_message};
use http::StatusCode;
use interzone_edge::limits::HttpLimits;
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::acp::codes;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn call(id: Value, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[tokio::test]
async fn batch_responses_follow_the_order_of_items() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let batch = json!([
        call(json!("1"), "tasks.create", &json!({"initialMessage": user_message("x")})),
        7,
        call(json!(1), "tasks.get", &json!({"taskId": "no"})),
        {"jsonrpc": "2.0", "method": "tasks.create", "params": {"initialMessage": user_message("y")}},
        call(json!(null), "stream.start", &json!({})),
        call(json!(2), "nope", &json!({})),
    ]);
    let (status, _, body) = world.post(&token, batch.to_string()).await;
    assert_eq!(status, StatusCode::OK);
    let answers: Vec<Value> = serde_json::from_str(&body).unwrap();
    let ids: Vec<&Value> = answers.iter().map(|answer| &answer["id"]).collect();
    assert_eq!(
        ids,
        [
            &json!("1"),
            &Value::Null,
            &json!(1),
            &Value::Null,
            &json!(2)
        ]
    );
    assert_eq!(answers[0]["result"]["type"], "task");
    assert_eq!(error_code(&answers[1]), ErrorCode::INVALID_REQUEST);
    assert_eq!(error_code(&answers[2]), codes::TASK_NOT_FOUND);
    assert_eq!(answers[3]["result"]["type"], "stream");
    assert_eq!(error_code(&answers[4]), ErrorCode::METHOD_NOT_FOUND);
    let listed = world
        .result(&token, "interzone.tasks.list", json!({}))
        .await;
    assert_eq!(
        listed["tasks"].as_array().unwrap().len(),
        2,
        "the notification was executed"
    );
}

#[tokio::test]
async fn batch_of_1000_is_accepted_and_1001_rejected() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let create = call(
        json!(1),
        "tasks.create",
        &json!({"initialMessage": user_message("x")}),
    );
    let (_, _, body) = world
        .post(&token, json!(vec![create.clone(); 1000]).to_string())
        .await;
    let answers: Vec<Value> = serde_json::from_str(&body).unwrap();
    let ids: BTreeSet<&str> = answers
        .iter()
        .map(|answer| answer["result"]["task"]["taskId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 1000);
    let (status, _, body) = world
        .post(&token, json!(vec![create; 1001]).to_string())
        .await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(error_code(&answer), ErrorCode::INVALID_REQUEST);
}

#[tokio::test]
async fn dependent_calls_in_a_batch_run_in_order() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let mut batch: Vec<Value> = (0..20)
        .map(|n| {
            let params = json!({"taskId": id, "message": user_message(&n.to_string())});
            call(json!(n), "tasks.send", &params)
        })
        .collect();
    batch.push(call(json!(20), "tasks.cancel", &json!({"taskId": id})));
    batch.push(call(json!(21), "tasks.get", &json!({"taskId": id})));
    let (_, _, body) = world.post(&token, json!(batch).to_string()).await;
    let answers: Vec<Value> = serde_json::from_str(&body).unwrap();
    let task = &answers[21]["result"]["task"];
    assert_eq!(task["status"], "CANCELED");
    let texts: Vec<&str> = task["messages"]
        .as_array()
        .unwrap()
        .iter()
        .skip(1)
        .map(|message| message["parts"][0]["content"].as_str().unwrap())
        .collect();
    let expected: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    assert_eq!(texts, expected);
}

#[tokio::test]
async fn notifications_are_executed_and_return_204() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let note = json!({"jsonrpc": "2.0", "method": "tasks.cancel", "params": {"taskId": id}});
    for body in [
        note.to_string(),
        json!([note, note]).to_string(),
        r#"{"jsonrpc":"2.0","method":"nope"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","method":"tasks.get","params":{"taskId":7}}"#.to_owned(),
    ] {
        let (status, headers, answer) = world.post(&token, body.clone()).await;
        assert_eq!((status, &*answer), (StatusCode::NO_CONTENT, ""), "{body}");
        assert!(!headers.contains_key("content-type"));
    }
    let task = world
        .result(&token, "tasks.get", json!({"taskId": id}))
        .await;
    assert_eq!(task["task"]["status"], "CANCELED");
}

#[tokio::test]
async fn batch_over_the_response_limit_is_cut_short() {
    let world = ZoneFixture::with_options(ZoneFixtureOptions {
        limits: HttpLimits {
            body_bytes: 300_000,
            ..HttpLimits::default()
        },
        ..ZoneFixtureOptions::default()
    })
    .await;
    let token = world.token("alice").await;
    let params = json!({"initialMessage": user_message(&"x".repeat(100_000))});
    let large = world.result(&token, "tasks.create", params).await;
    let get = json!({"taskId": large["task"]["taskId"]});
    let mut batch = vec![call(json!(1), "tasks.get", &get); 100];
    batch.push(json!(7));
    let create = json!({"initialMessage": user_message("too late")});
    batch.push(json!({"jsonrpc": "2.0", "method": "tasks.create", "params": create}));
    let (status, _, body) = world.post(&token, json!(batch).to_string()).await;
    assert_eq!(status, StatusCode::OK);
    assert!(body.len() < 600_000, "{}", body.len());
    let answers: Vec<Value> = serde_json::from_str(&body).unwrap();
    assert_eq!(answers.len(), 101);
    let succeeded = answers
        .iter()
        .take_while(|answer| answer["error"].is_null())
        .count();
    assert!((3..=4).contains(&succeeded), "{succeeded}");
    for answer in &answers[succeeded..] {
        assert_eq!(error_code(answer), ErrorCode::INVALID_REQUEST);
    }
    let message = answers[succeeded]["error"]["message"].as_str().unwrap();
    assert!(message.contains("send fewer"), "{message}");
    let listed = world
        .result(&token, "interzone.tasks.list", json!({}))
        .await;
    assert_eq!(listed["tasks"].as_array().unwrap().len(), 1);
}
