//! Graceful shutdown: accepted requests are finished, and no response is cut off.

use super::within_timeout;
use super::zone_process::{ZoneBuilder, user_message};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_under_load_completes_accepted_requests() {
    let mut zone = ZoneBuilder::new()
        .set("execution.shutdown_grace", "6s")
        .start()
        .await;
    let token = zone.token("anna");
    // Requests that are accepted before the shutdown: their heads and half of their bodies are sent.
    let body = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tasks.create",
        "params": {"initialMessage": user_message("echo late"), "assignTo": "demo"},
    })
    .to_string();
    let (early, late) = body.split_at(body.len() / 2);
    let mut in_flight = Vec::new();
    for _ in 0..16 {
        let mut raw = zone.raw_connection().await;
        let head = format!(
            "POST /jsonrpc HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{early}",
            body.len()
        );
        raw.send(head.as_bytes()).await;
        in_flight.push(raw);
    }
    // An open watch must not delay the shutdown.
    let watched = zone.create_task(&token, "demo", "wait 60").await;
    let mut watch = zone.watch(&token, &format!("tasks/{watched}"), None).await;
    watch
        .until(|event| event.name == "interzone.task.status")
        .await;

    // Callers that do not stop by themselves.
    let over = Arc::new(AtomicBool::new(false));
    let (ids_tx, mut ids_rx) = mpsc::unbounded_channel::<String>();
    let mut callers = Vec::new();
    for _ in 0..4 {
        let http = super::rpc::client(&zone.env.authority, None);
        let (url, token, body) = (format!("{}/jsonrpc", zone.url), token.clone(), body.clone());
        let (over, ids_tx) = (over.clone(), ids_tx.clone());
        callers.push(tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                let request = http
                    .post(&url)
                    .header("content-type", "application/json")
                    .bearer_auth(&token)
                    .body(body.clone());
                // No response at all is acceptable: the request was not accepted.
                let Ok(response) = request.send().await else {
                    return;
                };
                let status = response.status();
                let text = response
                    .text()
                    .await
                    .expect("a response that began is complete");
                let answer: Value = serde_json::from_str(&text).expect("an answer is JSON");
                match answer["result"]["task"]["taskId"].as_str() {
                    Some(id) if status == 200 => ids_tx.send(id.to_owned()).unwrap(),
                    _ => {
                        // It may answer 503 during the shutdown.
                        assert_eq!(status, 503, "{text}");
                        return;
                    }
                }
            }
        }));
    }
    drop(ids_tx);
    let mut accepted = Vec::new();
    while accepted.len() < 40 {
        accepted.push(
            within_timeout("load", ids_rx.recv())
                .await
                .expect("callers are running"),
        );
    }
    zone.terminate();
    for mut raw in in_flight {
        raw.send(late.as_bytes()).await;
        let reply = raw.reply().await.expect("an accepted request is answered");
        assert_eq!(
            (reply.status, &reply.json()["id"]),
            (200, &json!(7)),
            "{reply:?}"
        );
        let answer = reply.json();
        accepted.push(
            answer["result"]["task"]["taskId"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    while within_timeout("the watch to end", watch.next())
        .await
        .is_some()
    {}
    let status = zone.wait_for_exit().await;
    over.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.await.unwrap();
    }
    while let Ok(id) = ids_rx.try_recv() {
        accepted.push(id);
    }
    assert_eq!(status.code(), Some(0), "{status}");

    // Every acknowledged task is stored and completes.
    zone.start().await;
    for id in &accepted {
        assert_eq!(zone.wait_for_task(&token, id).await["status"], "COMPLETED");
    }
    let task = zone.task(&token, &watched).await;
    assert!(
        ["SUBMITTED", "WORKING"].contains(&task["status"].as_str().unwrap()),
        "the task continues: {task}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_shutdown_exits_cleanly() {
    let mut zone = ZoneBuilder::new().with_worker().start().await;
    zone.assert_serving().await;
    zone.terminate();
    let status = zone.wait_for_exit().await;
    assert_eq!(status.code(), Some(0), "{status}");
}
