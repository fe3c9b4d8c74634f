//! Reading, listing and canceling tasks.

use super::{A2aZone, error_of, refused};
use serde_json::{Value, json};

#[tokio::test]
async fn callers_do_not_see_each_others_tasks() {
    let zone = A2aZone::new().await;
    let (anna, bert) = (zone.zone.token("anna").await, zone.zone.token("bert").await);
    let id = zone.start(&anna, "gate", "one").await["id"].take();
    let unknown = refused(-32001, "TASK_NOT_FOUND");
    for method in ["GetTask", "tasks/get", "CancelTask", "tasks/cancel"] {
        let error = zone.call_error(&bert, method, json!({"id": id})).await;
        assert_eq!(error, unknown, "{method}");
    }
    let message =
        json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "taskId": id});
    let error = zone
        .call_error(&bert, "SendMessage", json!({"message": message}))
        .await;
    assert_eq!(error, unknown);
    let theirs = zone.call(&bert, "ListTasks", json!({})).await;
    assert_eq!(
        theirs,
        json!({"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0})
    );
    // Nor are they seen at the endpoint of another agent.
    let body = zone.call_at(&anna, "/agents/demo/a2a", "GetTask", json!({"id": id}));
    assert_eq!(error_of(&body.await), unknown);
    let task = zone.call(&anna, "GetTask", json!({"id": id})).await;
    assert_eq!(task["id"], id);
}

#[tokio::test]
async fn canceled_task_is_returned_and_cannot_be_canceled_again() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    for (method, state) in [
        ("CancelTask", "TASK_STATE_CANCELED"),
        ("tasks/cancel", "canceled"),
    ] {
        let id = zone.start(&token, "gate", "one").await["id"].take();
        let task = zone.call(&token, method, json!({"id": id})).await;
        assert_eq!(task["status"]["state"], state);
        let again = zone.call_error(&token, method, json!({"id": id})).await;
        assert_eq!(again, refused(-32002, "TASK_NOT_CANCELABLE"));
    }
}

#[tokio::test]
async fn history_length_limits_the_history() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let id = zone.start(&token, "gate", "one").await["id"].take();
    let get = async |length: Value| {
        let params = json!({"id": id, "historyLength": length});
        zone.call_at(&token, "/a2a", "GetTask", params).await
    };
    assert_eq!(
        get(json!(1)).await["result"]["history"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    assert!(get(json!(0)).await["result"].get("history").is_none());
    assert_eq!(
        error_of(&get(json!(-1)).await),
        refused(-32602, "INVALID_PARAMS")
    );
    let old = json!({"id": id, "historyLength": 0});
    let old = zone.call(&token, "tasks/get", old).await;
    assert_eq!(old["history"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn list_pages_through_filtered_tasks() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    for _ in 0..3 {
        zone.start(&token, "gate", "one").await;
    }
    let question = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "ask Why?"}]}});
    let question = zone.call(&token, "SendMessage", question).await["task"].take();

    let first = zone.call(&token, "ListTasks", json!({"pageSize": 3})).await;
    assert_eq!(
        (first["totalSize"].as_u64(), first["pageSize"].as_u64()),
        (Some(4), Some(3))
    );
    assert_eq!(
        first["tasks"][0]["id"], question["id"],
        "the newest status first"
    );
    assert_eq!(first["tasks"][0]["status"], question["status"]);
    assert!(
        first["tasks"][0].get("history").is_none() && first["tasks"][0].get("artifacts").is_none()
    );
    let next = json!({"pageSize": 3, "pageToken": first["nextPageToken"]});
    let second = zone.call(&token, "ListTasks", next).await;
    assert_eq!(
        (
            second["tasks"].as_array().unwrap().len(),
            &second["nextPageToken"]
        ),
        (1, &json!(""))
    );

    let filter = json!({"status": "TASK_STATE_INPUT_REQUIRED", "includeArtifacts": true, "historyLength": 5});
    let listed = zone.call(&token, "ListTasks", filter).await;
    assert_eq!(listed["totalSize"], 1);
    assert_eq!(listed["tasks"][0]["artifacts"], json!([]));
    assert_eq!(listed["tasks"][0]["history"], question["history"]);
    let of_agent = zone
        .call(&token, "ListTasks", json!({"tenant": "gate"}))
        .await;
    assert_eq!(of_agent["totalSize"], 3);
    let context = json!({"contextId": question["contextId"]});
    assert_eq!(
        zone.call(&token, "ListTasks", context).await["totalSize"],
        1
    );
    let since = json!({"statusTimestampAfter": question["status"]["timestamp"]});
    let since = zone.call(&token, "ListTasks", since).await;
    assert!(
        since["totalSize"].as_u64().unwrap() >= 1,
        "the time itself is included"
    );

    for invalid in [
        json!({"pageSize": 0}),
        json!({"pageSize": 101}),
        json!({"pageToken": "x"}),
        json!({"status": "x"}),
    ] {
        let error = zone.call_error(&token, "ListTasks", invalid.clone()).await;
        assert_eq!(error, refused(-32602, "INVALID_PARAMS"), "{invalid}");
    }
}
