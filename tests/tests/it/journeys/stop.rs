//! A stop that is asked for: what was taken is finished, nobody gets half an answer.

use super::soon;
use super::zone::{Setup, said};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::mpsc;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_load_breaks_no_answer() {
    let mut zone = Setup::new().set("execution.grace", "6s").start().await;
    let token = zone.token("anna");
    // Requests that are taken before the stop: their heads and half their bodies are there.
    let body = json!({
        "jsonrpc": "2.0", "id": 7, "method": "tasks.create",
        "params": {"initialMessage": said("echo late"), "assignTo": "demo"},
    })
    .to_string();
    let (early, late) = body.split_at(body.len() / 2);
    let mut begun = Vec::new();
    for _ in 0..16 {
        let mut raw = zone.raw().await;
        let head = format!(
            "POST /jsonrpc HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{early}",
            body.len()
        );
        raw.send(head.as_bytes()).await;
        begun.push(raw);
    }
    // Somebody who only watches must not hold it up.
    let watched = zone.create(&token, "demo", "wait 60").await;
    let mut watch = zone.watch(&token, &format!("tasks/{watched}"), None).await;
    watch
        .until(|event| event.name == "interzone.task.status")
        .await;

    // Callers that do not stop by themselves.
    let over = Arc::new(AtomicBool::new(false));
    let (tell, mut told) = mpsc::unbounded_channel::<String>();
    let mut callers = Vec::new();
    for _ in 0..4 {
        let http = super::wire::client(&zone.world.authority, None);
        let (url, token, body) = (format!("{}/jsonrpc", zone.url), token.clone(), body.clone());
        let (over, tell) = (over.clone(), tell.clone());
        callers.push(tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                let request = http
                    .post(&url)
                    .header("content-type", "application/json")
                    .bearer_auth(&token)
                    .body(body.clone());
                // No answer at all is no broken answer: the request was not taken.
                let Ok(response) = request.send().await else {
                    return;
                };
                let status = response.status();
                let text = response
                    .text()
                    .await
                    .expect("an answer that began is whole");
                let answer: Value = serde_json::from_str(&text).expect("an answer is JSON");
                match answer["result"]["task"]["taskId"].as_str() {
                    Some(id) if status == 200 => tell.send(id.to_owned()).unwrap(),
                    _ => {
                        // It may say that it is closing, in so many words.
                        assert_eq!(status, 503, "{text}");
                        return;
                    }
                }
            }
        }));
    }
    drop(tell);
    let mut taken = Vec::new();
    while taken.len() < 40 {
        taken.push(soon("load", told.recv()).await.expect("callers call"));
    }
    zone.ask_to_stop();
    for mut raw in begun {
        raw.send(late.as_bytes()).await;
        let reply = raw
            .reply()
            .await
            .expect("a request that was taken is answered");
        assert_eq!(
            (reply.status, &reply.json()["id"]),
            (200, &json!(7)),
            "{reply:?}"
        );
        let answer = reply.json();
        taken.push(
            answer["result"]["task"]["taskId"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
    }
    while soon("the watch to end", watch.next()).await.is_some() {}
    let status = zone.ended().await;
    over.store(true, Ordering::SeqCst);
    for caller in callers {
        caller.await.unwrap();
    }
    while let Ok(id) = told.try_recv() {
        taken.push(id);
    }
    assert_eq!(status.code(), Some(0), "{status}");

    // All that was acknowledged is there and gets done.
    zone.begin().await;
    for id in &taken {
        assert_eq!(zone.finished(&token, id).await["status"], "COMPLETED");
    }
    let task = zone.task(&token, &watched).await;
    assert!(
        ["SUBMITTED", "WORKING"].contains(&task["status"].as_str().unwrap()),
        "it goes on: {task}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_at_rest_is_quick_and_clean() {
    let mut zone = Setup::new().with_worker().start().await;
    zone.serves().await;
    zone.ask_to_stop();
    let status = zone.ended().await;
    assert_eq!(status.code(), Some(0), "{status}");
}
