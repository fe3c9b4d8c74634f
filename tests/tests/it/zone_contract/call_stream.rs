//! Calls answered as server-sent events, each event a JSON-RPC message.

use super::{
    HttpRequest, WAIT_TIMEOUT, ZoneFixture, ZoneSetup, call_object, check_response, completed_with,
    params, scripted_agent,
};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::{HeaderMap, StatusCode};
use interzone_hub::{Agent, TurnOutput};
use interzone_protocol::vocab::{Artifact, ArtifactId, Part};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// JSON-RPC messages read from an event stream.
struct SseMessages {
    data: BoxStream<'static, Bytes>,
    text: String,
    headers: HeaderMap,
}

impl SseMessages {
    /// Returns the next message, or `None` at the end of the stream.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, remaining)) = self.text.split_once("\n\n") {
                let (event, remaining) = (event.to_owned(), remaining.to_owned());
                self.text = remaining;
                let Some(data) = event.strip_prefix("event: message\ndata: ") else {
                    assert!(event.starts_with(':'), "{event}");
                    continue;
                };
                assert!(!data.contains('\n'), "{data}");
                return Some(serde_json::from_str(data).unwrap());
            }
            let piece = tokio::time::timeout(WAIT_TIMEOUT, self.data.next()).await;
            self.text += std::str::from_utf8(&piece.expect("data before the timeout")?).unwrap();
        }
    }

    async fn collect_remaining(mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(message) = self.next().await {
            all.push(message);
        }
        all
    }
}

fn sse_request(token: &str, id: &Value, params: &Value) -> HttpRequest {
    let mut request = ZoneFixture::request(token, call_object(id, params).to_string());
    let events = "application/json;q=0.5, Text/Event-Stream".parse().unwrap();
    request.headers_mut().insert("accept", events);
    request
}

async fn open_stream(world: &ZoneFixture, request: HttpRequest) -> SseMessages {
    let reply = (world.router)(request).await;
    assert_eq!(reply.status(), StatusCode::OK);
    let (parts, data) = reply.into_parts();
    assert_eq!(parts.headers["content-type"], "text/event-stream");
    SseMessages {
        data,
        text: String::new(),
        headers: parts.headers,
    }
}

/// Concatenated text deltas of the notifications.
fn joined_deltas(notifications: &[Value]) -> String {
    let deltas = notifications
        .iter()
        .filter_map(|note| note["params"]["text_delta"].as_str());
    deltas.collect()
}

/// Agent that streams the pieces it receives.
fn streaming_agent(pieces: mpsc::Receiver<String>) -> Arc<dyn Agent> {
    let pieces = Arc::new(tokio::sync::Mutex::new(pieces));
    scripted_agent("speaking", move |_, output: Arc<dyn TurnOutput>| {
        let pieces = pieces.clone();
        async move {
            let mut text = String::new();
            while let Some(piece) = pieces.lock().await.recv().await {
                output.text(&piece).await.unwrap();
                text += &piece;
            }
            Ok(completed_with(&text))
        }
    })
}

#[tokio::test]
async fn sse_sends_progress_then_response() {
    let file_agent = scripted_agent("making", |_, output| async move {
        output.status("thinking").await.unwrap();
        output.text("Here ").await.unwrap();
        output.text("it is.").await.unwrap();
        let part = Part::file("aGk=")
            .with_filename("a.txt")
            .with_media_type("text/plain");
        let made = Artifact::new(ArtifactId::new("a").unwrap(), "a").with_part(part);
        output.artifact(made, false, true).await.unwrap();
        Ok(completed_with("Here it is."))
    });
    let world = ZoneFixture::with_setup(ZoneSetup {
        agents: vec![file_agent],
        // Not applied to event streams.
        sync_budget: Duration::ZERO,
        ..ZoneSetup::default()
    })
    .await;
    let token = world.token("vz").await;
    let params = super::params_with("x", &json!({"correlation_id": "c-7"}));
    let messages = open_stream(&world, sse_request(&token, &json!("id-1"), &params)).await;
    assert_eq!(messages.headers["x-correlation-id"], "c-7");
    let mut all = messages.collect_remaining().await;
    let last = check_response(all.pop().unwrap());
    assert_eq!(last["id"], "id-1");
    let result = &last["result"];
    assert_eq!(
        (&result["status"], &result["response_text"]),
        (&json!("success"), &json!("Here it is."))
    );
    for (number, note) in (1..).zip(&all) {
        assert_eq!(
            (&note["method"], &note["params"]["sequence"]),
            (&json!("task.progress"), &json!(number))
        );
        assert_eq!(note["params"]["task_id"], result["task_id"]);
        let kinds = ["status", "text_delta", "artifact"];
        let present = kinds
            .iter()
            .filter(|name| note["params"].get(**name).is_some());
        assert_eq!(present.count(), 1, "{note}");
        assert!(note.get("id").is_none());
    }
    assert_eq!(joined_deltas(&all), "Here it is.");
    assert_eq!(all[0]["params"]["status"], "accepted");
    assert_eq!(all[1]["params"]["status"], "thinking");
    assert_eq!(
        all.last().unwrap()["params"]["artifact"],
        result["artifacts"][1]
    );
    // `get_task_result` of the finished task is the same.
    let later = json!({"task_id": result["task_id"]});
    let later = world.call(&token, "get_task_result", later).await;
    assert_eq!(later["result"]["result"], *result);
}

#[tokio::test]
async fn text_deltas_are_sent_live_and_in_order() {
    let (pieces, waiting) = mpsc::channel(1);
    let world = ZoneFixture::with_setup(ZoneSetup {
        agents: vec![streaming_agent(waiting)],
        ..ZoneSetup::default()
    })
    .await;
    let token = world.token("vz").await;
    let mut messages = open_stream(&world, sse_request(&token, &json!(1), &params("x"))).await;
    // The task is named before the agent's first output.
    let first = messages.next().await.unwrap();
    assert_eq!(first["params"]["status"], "accepted");
    assert!(first["params"]["task_id"].is_string());
    let mut expected = String::new();
    let mut received = String::new();
    for number in 0..300 {
        let piece = format!("é{number} ");
        expected += &piece;
        pieces.send(piece).await.unwrap();
        // Each piece is received before the next is written: it does not wait for the log.
        while received.len() < expected.len() {
            let note = messages.next().await.unwrap();
            received += note["params"]["text_delta"].as_str().unwrap();
        }
        assert_eq!(received, expected);
    }
    drop(pieces);
    let remaining = messages.collect_remaining().await;
    assert_eq!(joined_deltas(&remaining), "");
    assert_eq!(
        remaining.last().unwrap()["result"]["response_text"],
        expected
    );
}

#[tokio::test]
async fn slow_reader_blocks_no_agent_and_misses_nothing() {
    let (pieces, waiting) = mpsc::channel(1);
    let world = ZoneFixture::with_setup(ZoneSetup {
        agents: vec![streaming_agent(waiting)],
        ..ZoneSetup::default()
    })
    .await;
    let token = world.token("vz").await;
    let id = json!("5f0f0a5c-8f0a-4c1e-9d59-00000000000d");
    let messages = open_stream(&world, sse_request(&token, &id, &params("x"))).await;
    let mut expected = String::new();
    for number in 0..500 {
        let piece = format!("{number} ");
        expected += &piece;
        pieces.send(piece).await.unwrap();
    }
    drop(pieces);
    // The agent is done although no message has been read.
    let again = world
        .call_with_id(&token, id, "execute_task", params("x"))
        .await;
    assert_eq!(again["result"]["response_text"], expected);
    let all = messages.collect_remaining().await;
    assert_eq!(joined_deltas(&all), expected);
    assert_eq!(all.last().unwrap()["result"]["response_text"], expected);
}

#[tokio::test]
async fn failures_end_the_stream_and_rejected_calls_get_json() {
    let world = ZoneFixture::new().await;
    let token = world.token("vz").await;
    let all = open_stream(
        &world,
        sse_request(&token, &json!(9), &params("fail badly")),
    )
    .await
    .collect_remaining()
    .await;
    let last = check_response(all.last().unwrap().clone());
    assert_eq!(
        (&last["id"], &last["error"]["data"]["error_code"]),
        (&json!(9), &json!("agent_failed"))
    );
    assert_eq!(last["error"]["data"]["detail"], "badly");
    // A reason too long to be stored with the task is truncated.
    let long = params(&format!("fail {}", "why ".repeat(5_000)));
    let all = open_stream(&world, sse_request(&token, &json!(10), &long)).await;
    let last = all.collect_remaining().await.pop().unwrap();
    let detail = last["error"]["data"]["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("why why ") && detail.len() < 5_000,
        "{detail}"
    );
    for (token, params, status, error_code) in [
        (&*token, json!({}), 200, "invalid_params"),
        ("rubbish", params("x"), 401, "token_invalid"),
    ] {
        let (response_status, headers, body) =
            world.send(sse_request(token, &json!(1), &params)).await;
        assert_eq!(
            (response_status.as_u16(), headers["content-type"].as_bytes()),
            (status, &b"application/json"[..])
        );
        let answer = check_response(serde_json::from_str(&body).unwrap());
        assert_eq!(answer["error"]["data"]["error_code"], error_code);
    }
    // A client that does not accept event streams gets JSON.
    let mut request = ZoneFixture::request(
        &token,
        call_object(&json!(1), &params("echo hi")).to_string(),
    );
    let never = "text/event-stream;q=0".parse().unwrap();
    request.headers_mut().insert("accept", never);
    let (_, headers, _) = world.send(request).await;
    assert_eq!(headers["content-type"], "application/json");
}

#[tokio::test]
async fn repeated_call_replays_all_messages() {
    let may_end = Arc::new(Semaphore::new(0));
    let half_done = Arc::new(Semaphore::new(0));
    let (may, has) = (may_end.clone(), half_done.clone());
    let agent = scripted_agent("telling", move |_, output| {
        let (may, has) = (may.clone(), has.clone());
        async move {
            output.text("first ").await.unwrap();
            output.status("half-way").await.unwrap();
            has.add_permits(1);
            may.acquire().await.unwrap().forget();
            output.text("second").await.unwrap();
            Ok(completed_with("first second"))
        }
    });
    let world = ZoneFixture::with_setup(ZoneSetup {
        agents: vec![agent],
        ..ZoneSetup::default()
    })
    .await;
    let token = world.token("vz").await;
    let id = json!("5f0f0a5c-8f0a-4c1e-9d59-00000000000e");
    drop(open_stream(&world, sse_request(&token, &id, &params("x"))).await);
    half_done.acquire().await.unwrap().forget();
    let messages = open_stream(&world, sse_request(&token, &id, &params("x"))).await;
    may_end.add_permits(1);
    let all = messages.collect_remaining().await;
    assert_eq!(joined_deltas(&all), "first second");
    assert!(
        all.iter()
            .any(|note| note["params"]["status"] == "half-way")
    );
    let last = all.last().unwrap();
    assert_eq!(last["result"]["response_text"], "first second");
    // A repetition after the end gets the first notification and the response.
    let late = open_stream(&world, sse_request(&token, &id, &params("x"))).await;
    let late = late.collect_remaining().await;
    assert_eq!(late.len(), 2, "{late:?}");
    assert_eq!(late[0], all[0]);
    assert_eq!(late[0]["params"]["status"], "accepted");
    assert_eq!(late[1], *last);
}

#[tokio::test]
async fn shutdown_ends_stream_with_accepted() {
    let agent = scripted_agent("patient", |turn, output| async move {
        output.status("at it").await.unwrap();
        turn.cancel_token.cancelled().await;
        Ok(completed_with("too late"))
    });
    let world = ZoneFixture::with_setup(ZoneSetup {
        agents: vec![agent],
        ..ZoneSetup::default()
    })
    .await;
    let token = world.token("vz").await;
    let mut messages = open_stream(&world, sse_request(&token, &json!(1), &params("x"))).await;
    assert_eq!(
        messages.next().await.unwrap()["params"]["status"],
        "accepted"
    );
    assert_eq!(messages.next().await.unwrap()["params"]["status"], "at it");
    world.stop.cancel();
    let all = messages.collect_remaining().await;
    let last = check_response(all.last().unwrap().clone());
    assert_eq!(last["result"]["status"], "accepted");
    assert!(last["result"]["task_id"].is_string());
}

#[tokio::test]
async fn expired_token_ends_stream_but_not_task() {
    let may_end = Arc::new(Semaphore::new(0));
    let may = may_end.clone();
    let agent = scripted_agent("patient", move |_, output| {
        let may = may.clone();
        async move {
            output.status("at it").await.unwrap();
            may.acquire().await.unwrap().forget();
            output.status("still at it").await.unwrap();
            may.acquire().await.unwrap().forget();
            Ok(completed_with("done"))
        }
    });
    let world = ZoneFixture::with_setup(ZoneSetup {
        agents: vec![agent],
        ..ZoneSetup::default()
    })
    .await;
    let token = world.token("vz").await;
    let mut messages = open_stream(&world, sse_request(&token, &json!(1), &params("x"))).await;
    assert_eq!(
        messages.next().await.unwrap()["params"]["status"],
        "accepted"
    );
    assert_eq!(messages.next().await.unwrap()["params"]["status"], "at it");
    world.clock.advance(Duration::from_secs(24 * 3_600));
    may_end.add_permits(1);
    let all = messages.collect_remaining().await;
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0]["result"]["status"], "accepted");
}
