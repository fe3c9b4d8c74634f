//! The request log: `interzone requests` finds a request by its id, its correlation id and its task.

use super::cli::{UpProcess, interzone_command, run_ok, wait_for_output};
use super::zone_process::{ZoneBuilder, ZoneProcess, free_port};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

const OPERATOR: &str = "acp:agent:identify interzone:operate";
const BOT_TOKEN: &str = "xoxb-never-stored";

/// Writes an operator token to a file and returns its path.
fn operator_token_file(zone: &ZoneProcess) -> PathBuf {
    let file = zone.env.path("operator.token");
    let token = zone.env.issuer.token_with_scope("operator", OPERATOR);
    fs::write(&file, token).unwrap();
    file
}

/// Runs `interzone requests` as the operator until it finds something: log entries are written asynchronously.
async fn find_requests(zone: &ZoneProcess, arguments: &[&str]) -> Value {
    let file = operator_token_file(zone);
    let ca = zone.env.ca();
    let mut all = vec!["--output", "json", "requests", "--url", &zone.url];
    all.extend(["--ca", ca.to_str().unwrap(), "--token-file"]);
    all.push(file.to_str().unwrap());
    all.extend(arguments);
    let search = async {
        loop {
            let child = interzone_command(zone.env.folder.path(), &all)
                .spawn()
                .unwrap();
            let output = wait_for_output(child).await;
            match output.status.code() {
                Some(0) => return serde_json::from_slice::<Value>(&output.stdout).unwrap(),
                Some(1) => tokio::task::yield_now().await,
                _ => panic!("{}", String::from_utf8_lossy(&output.stderr)),
            }
        }
    };
    let mut found = super::within_timeout("the request log entry", search).await;
    found["requests"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn request_is_found_by_id_correlation_id_and_task() {
    let zone = ZoneBuilder::new().start().await;
    let anna = zone.token("anna");
    let id = "7d8ff2c0-3f0e-4c55-8d0c-3b1a5b0f2a11";
    let call = |id: Value, text: &str, correlation: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "execute_task", "params": {
            "channel": "C1", "text": text, "bot_token": BOT_TOKEN,
            "correlation_id": correlation}})
    };
    let body = call(json!(id), "echo a secret of mine", "run-7");
    let reply = zone.post(&anna, body.to_string()).await;
    assert_eq!(reply.json()["result"]["status"], "success", "{reply:?}");
    let body = call(json!(7), "fail on purpose", "run-8");
    let reply = zone.post(&anna, body.to_string()).await;
    assert_eq!(reply.json()["error"]["data"]["error_code"], "agent_failed");

    let by_id = find_requests(&zone, &[id]).await;
    let request = &by_id[0];
    assert_eq!(by_id.as_array().unwrap().len(), 1, "{by_id}");
    assert_eq!(request["id"], id);
    assert_eq!(request["method"], "execute_task");
    assert_eq!(request["who"], "anna");
    assert_eq!(request["correlationId"], "run-7");
    assert_eq!(request["outcome"], "ok");
    assert_eq!(request["address"], "127.0.0.1");
    assert!(request["tookMs"].as_f64().unwrap() > 0.0, "{request}");
    assert_eq!(request["task"]["state"], "completed", "{request}");
    assert_eq!(request["task"]["agent"], "demo");
    let events = request["task"]["events"].as_array().unwrap();
    assert_eq!(events[0]["event"], "created", "{request}");
    assert_eq!(events.last().unwrap()["to"], "completed", "{request}");
    let shown = by_id.to_string();
    assert!(
        !shown.contains("secret of mine") && !shown.contains(BOT_TOKEN),
        "{shown}"
    );

    assert_eq!(
        find_requests(&zone, &["--correlation", "run-7"]).await,
        by_id
    );
    assert_eq!(
        find_requests(&zone, &["run-7"]).await,
        by_id,
        "any id matches"
    );
    let task = request["taskId"].as_str().unwrap();
    assert_eq!(find_requests(&zone, &["--task", task]).await, by_id);

    // A numeric id and a string id are both found by their text.
    let failed = find_requests(&zone, &["7"]).await;
    assert_eq!(failed[0]["id"], 7);
    assert_eq!(failed[0]["outcome"], "agent_failed", "{failed}");
    assert_eq!(failed[0]["code"], -32000);
    assert_eq!(failed[0]["task"]["state"], "failed");
    let all = find_requests(&zone, &["--since", "1h"]).await;
    let ids: Vec<&Value> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|request| &request["id"])
        .collect();
    assert_eq!(ids, [&json!(7), &json!(id)], "the newest first");

    // Operators only.
    let (code, data) = zone
        .call_error(&anna, "interzone.requests.find", json!({}))
        .await;
    assert_eq!(code, -40008, "{data}");
    assert_eq!(data["requiredScopes"][1], "interzone:operate");
    let log = zone.wait_for_log("run-7").await;
    assert!(log.contains(id), "{log}");
    assert!(!log.contains(BOT_TOKEN), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn request_log_survives_restart() {
    let mut zone = ZoneBuilder::new()
        .set("request_log.record", "all")
        .start()
        .await;
    let anna = zone.token("anna");
    let (code, _) = zone
        .call_error(&anna, "tasks.get", json!({"taskId": "unknown"}))
        .await;
    zone.terminate();
    assert!(zone.wait_for_exit().await.success());
    zone.start().await;
    let found = find_requests(&zone, &["1"]).await;
    assert_eq!(found[0]["method"], "tasks.get", "{found}");
    assert_eq!(found[0]["code"], code);
}

#[tokio::test(flavor = "multi_thread")]
async fn up_keeps_a_request_log() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let _up = UpProcess::start(folder, &format!("127.0.0.1:{}", free_port()), &[]).await;
    let params = json!({"channel": "C1", "text": "file csv a,b", "bot_token": BOT_TOKEN,
        "correlation_id": "from-the-shell"});
    let answer = run_ok(folder, &["call", "execute_task", &params.to_string()]).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["status"], "success", "{answer}");
    let search = async {
        loop {
            let child = interzone_command(folder, &["requests", "from-the-shell"])
                .spawn()
                .unwrap();
            let output = wait_for_output(child).await;
            match output.status.code() {
                Some(0) => return String::from_utf8(output.stdout).unwrap(),
                Some(1) => tokio::task::yield_now().await,
                _ => panic!("{}", String::from_utf8_lossy(&output.stderr)),
            }
        }
    };
    let report = super::within_timeout("the request log entry", search).await;
    for expected in [
        "execute_task  ok",
        "of demo: completed",
        "→ completed",
        "1 artifact",
    ] {
        assert!(report.contains(expected), "{expected}\n{report}");
    }
}
