//! "What happened to request X?" — one command tells, by the id, by the correlation id and by the task.

use super::newcomer::{Up, command, ends, prints};
use super::zone::{Setup, Zone, free_port};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

const OPERATOR: &str = "acp:agent:identify interzone:operate";
const BOT_TOKEN: &str = "xoxb-never-kept";

/// A file with a token that may look after the zone.
fn operator(zone: &Zone) -> PathBuf {
    let file = zone.world.path("operator.token");
    let token = zone.world.issuer.scoped("operator", OPERATOR);
    fs::write(&file, token).unwrap();
    file
}

/// Runs `interzone pairs` as the operator until it finds something: notes are written a moment later.
async fn pairs(zone: &Zone, arguments: &[&str]) -> Value {
    let file = operator(zone);
    let ca = zone.world.ca();
    let mut all = vec!["--output", "json", "pairs", "--url", &zone.url];
    all.extend(["--ca", ca.to_str().unwrap(), "--token-file"]);
    all.push(file.to_str().unwrap());
    all.extend(arguments);
    let looking = async {
        loop {
            let child = command(zone.world.folder.path(), &all).spawn().unwrap();
            let output = ends(child).await;
            match output.status.code() {
                Some(0) => return serde_json::from_slice::<Value>(&output.stdout).unwrap(),
                Some(1) => tokio::task::yield_now().await,
                _ => panic!("{}", String::from_utf8_lossy(&output.stderr)),
            }
        }
    };
    let mut found = super::soon("the note of the request", looking).await;
    found["pairs"].take()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_found_by_its_id_its_correlation_id_and_its_task() {
    let zone = Setup::new().start().await;
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

    let by_id = pairs(&zone, &[id]).await;
    let pair = &by_id[0];
    assert_eq!(by_id.as_array().unwrap().len(), 1, "{by_id}");
    assert_eq!(pair["id"], id);
    assert_eq!(pair["method"], "execute_task");
    assert_eq!(pair["who"], "anna");
    assert_eq!(pair["correlationId"], "run-7");
    assert_eq!(pair["outcome"], "ok");
    assert_eq!(pair["address"], "127.0.0.1");
    assert!(pair["tookMs"].as_f64().unwrap() > 0.0, "{pair}");
    assert_eq!(pair["task"]["state"], "completed", "{pair}");
    assert_eq!(pair["task"]["agent"], "demo");
    let events = pair["task"]["events"].as_array().unwrap();
    assert_eq!(events[0]["event"], "created", "{pair}");
    assert_eq!(events.last().unwrap()["to"], "completed", "{pair}");
    let shown = by_id.to_string();
    assert!(
        !shown.contains("secret of mine") && !shown.contains(BOT_TOKEN),
        "{shown}"
    );

    assert_eq!(pairs(&zone, &["--correlation", "run-7"]).await, by_id);
    assert_eq!(pairs(&zone, &["run-7"]).await, by_id, "any name will do");
    let task = pair["taskId"].as_str().unwrap();
    assert_eq!(pairs(&zone, &["--task", task]).await, by_id);

    // A number is not a string, and both are found by what is typed.
    let failed = pairs(&zone, &["7"]).await;
    assert_eq!(failed[0]["id"], 7);
    assert_eq!(failed[0]["outcome"], "agent_failed", "{failed}");
    assert_eq!(failed[0]["code"], -32000);
    assert_eq!(failed[0]["task"]["state"], "failed");
    let all = pairs(&zone, &["--since", "1h"]).await;
    let ids: Vec<&Value> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| &pair["id"])
        .collect();
    assert_eq!(ids, [&json!(7), &json!(id)], "the newest first");

    // It is the operator's business alone.
    let (code, data) = zone.refused(&anna, "interzone.pairs.find", json!({})).await;
    assert_eq!(code, -40008, "{data}");
    assert_eq!(data["requiredScopes"][1], "interzone:operate");
    let log = zone.log_with("run-7").await;
    assert!(log.contains(id), "{log}");
    assert!(!log.contains(BOT_TOKEN), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_noted_survives_a_stop_and_a_start() {
    let mut zone = Setup::new().set("pairs.record", "all").start().await;
    let anna = zone.token("anna");
    let (code, _) = zone
        .refused(&anna, "tasks.get", json!({"taskId": "nobody's"}))
        .await;
    zone.ask_to_stop();
    assert!(zone.ended().await.success());
    zone.begin().await;
    let found = pairs(&zone, &["1"]).await;
    assert_eq!(found[0]["method"], "tasks.get", "{found}");
    assert_eq!(found[0]["code"], code);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_up_it_just_works() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path();
    let _up = Up::start(folder, &format!("127.0.0.1:{}", free_port()), &[]).await;
    let params = json!({"channel": "C1", "text": "file csv a,b", "bot_token": BOT_TOKEN,
        "correlation_id": "from-the-shell"});
    let answer = prints(folder, &["call", "execute_task", &params.to_string()]).await;
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["status"], "success", "{answer}");
    let looking = async {
        loop {
            let child = command(folder, &["pairs", "from-the-shell"])
                .spawn()
                .unwrap();
            let output = ends(child).await;
            match output.status.code() {
                Some(0) => return String::from_utf8(output.stdout).unwrap(),
                Some(1) => tokio::task::yield_now().await,
                _ => panic!("{}", String::from_utf8_lossy(&output.stderr)),
            }
        }
    };
    let told = super::soon("the note of the request", looking).await;
    for words in [
        "execute_task  ok",
        "of demo: completed",
        "→ completed",
        "1 artifact",
    ] {
        assert!(told.contains(words), "{words}\n{told}");
    }
}
