//! A2A over TLS, through the real binary.

use super::rpc::HttpReply;
use super::zone_process::{ZoneBuilder, ZoneProcess};
use serde_json::{Value, json};

/// Calls a method of A2A and returns the response.
async fn call(zone: &ZoneProcess, token: &str, path: &str, method: &str, params: Value) -> Value {
    let body = json!({"jsonrpc": "2.0", "id": "1", "method": method, "params": params});
    let request = zone.http.post(format!("{}{path}", zone.url));
    let request = request
        .header("content-type", "application/json")
        .header("a2a-version", "1.0")
        .bearer_auth(token)
        .body(body.to_string());
    let reply = HttpReply::read(request.send().await.unwrap()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("content-type"), "application/json");
    reply.json()
}

fn message(text: &str) -> Value {
    json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a2a_client_sends_continues_reads_and_lists_its_own_tasks() {
    let zone = ZoneBuilder::new().start().await;
    let (anna, bert) = (zone.token("anna"), zone.token("bert"));
    let path = "/agents/demo/a2a";
    let params = json!({"message": message("echo hello")});
    let answer = call(&zone, &anna, "/a2a", "SendMessage", params).await;
    assert_eq!(answer["result"]["message"]["parts"][0]["text"], "hello");

    let params = json!({"message": message("ask Which city?")});
    let mut asked = call(&zone, &anna, path, "SendMessage", params).await;
    let task = asked["result"]["task"].take();
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let mut reply = message("Kyoto");
    reply["taskId"] = task["id"].clone();
    let params = json!({"message": reply});
    let done = call(&zone, &anna, "/a2a", "SendMessage", params).await;
    let done = &done["result"]["task"];
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED");

    let id = json!({"id": task["id"]});
    let read = call(&zone, &anna, "/a2a", "GetTask", id.clone()).await;
    assert_eq!(read["result"], *done);
    let hidden = call(&zone, &bert, "/a2a", "GetTask", id).await;
    assert_eq!(hidden["error"]["code"], -32001);
    let mine = call(&zone, &anna, "/a2a", "ListTasks", json!({})).await;
    assert_eq!(mine["result"]["totalSize"], 2);
    let theirs = call(&zone, &bert, "/a2a", "ListTasks", json!({})).await;
    assert_eq!(theirs["result"]["totalSize"], 0);
}
