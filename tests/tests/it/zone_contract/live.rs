//! A call that is answered while it goes on: server-sent events, each a JSON-RPC message.

use super::{Call, PATIENCE, Setup, World, actor, call, checked, params, said};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::{HeaderMap, StatusCode};
use interzone_hub::{Agent, Output};
use interzone_protocol::vocab::{Artifact, ArtifactId, Part};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};

/// Messages as they come.
struct Messages {
    data: BoxStream<'static, Bytes>,
    text: String,
    headers: HeaderMap,
}

impl Messages {
    /// The next; nothing when the stream has ended.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let Some(data) = event.strip_prefix("event: message\ndata: ") else {
                    assert!(event.starts_with(':'), "{event}");
                    continue;
                };
                assert!(!data.contains('\n'), "{data}");
                return Some(serde_json::from_str(data).unwrap());
            }
            let piece = tokio::time::timeout(PATIENCE, self.data.next()).await;
            self.text += std::str::from_utf8(&piece.expect("news")?).unwrap();
        }
    }

    async fn rest(mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(message) = self.next().await {
            all.push(message);
        }
        all
    }
}

fn asking(token: &str, id: &Value, params: &Value) -> Call {
    let mut request = World::request(token, call(id, params).to_string());
    let events = "application/json;q=0.5, Text/Event-Stream".parse().unwrap();
    request.headers_mut().insert("accept", events);
    request
}

async fn follow(world: &World, request: Call) -> Messages {
    let reply = (world.router)(request).await;
    assert_eq!(reply.status(), StatusCode::OK);
    let (parts, data) = reply.into_parts();
    assert_eq!(parts.headers["content-type"], "text/event-stream");
    Messages {
        data,
        text: String::new(),
        headers: parts.headers,
    }
}

/// The text that was told piece by piece.
fn told(notes: &[Value]) -> String {
    let deltas = notes
        .iter()
        .filter_map(|note| note["params"]["text_delta"].as_str());
    deltas.collect()
}

/// An agent that says what it is handed, piece by piece.
fn speaking(pieces: mpsc::Receiver<String>) -> Arc<dyn Agent> {
    let pieces = Arc::new(tokio::sync::Mutex::new(pieces));
    actor("speaking", move |_, output: Arc<dyn Output>| {
        let pieces = pieces.clone();
        async move {
            let mut whole = String::new();
            while let Some(piece) = pieces.lock().await.recv().await {
                output.text(&piece).await.unwrap();
                whole += &piece;
            }
            Ok(said(&whole))
        }
    })
}

#[tokio::test]
async fn what_happens_is_told_as_it_happens_and_the_response_comes_last() {
    let making = actor("making", |_, output| async move {
        output.status("thinking").await.unwrap();
        output.text("Here ").await.unwrap();
        output.text("it is.").await.unwrap();
        let part = Part::file("aGk=")
            .with_filename("a.txt")
            .with_media_type("text/plain");
        let made = Artifact::new(ArtifactId::new("a").unwrap(), "a").with_part(part);
        output.artifact(made, false, true).await.unwrap();
        Ok(said("Here it is."))
    });
    let world = World::with(Setup {
        agents: vec![making],
        // It does not count here.
        budget: Duration::ZERO,
        ..Setup::default()
    })
    .await;
    let token = world.token("vz").await;
    let params = super::params_with("x", &json!({"correlation_id": "c-7"}));
    let messages = follow(&world, asking(&token, &json!("id-1"), &params)).await;
    assert_eq!(messages.headers["x-correlation-id"], "c-7");
    let mut all = messages.rest().await;
    let last = checked(all.pop().unwrap());
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
        let said = ["status", "text_delta", "artifact"];
        let said = said
            .iter()
            .filter(|name| note["params"].get(**name).is_some());
        assert_eq!(said.count(), 1, "{note}");
        assert!(note.get("id").is_none());
    }
    assert_eq!(told(&all), "Here it is.");
    assert_eq!(all[0]["params"]["status"], "accepted");
    assert_eq!(all[1]["params"]["status"], "thinking");
    assert_eq!(
        all.last().unwrap()["params"]["artifact"],
        result["artifacts"][1]
    );
    // A repetition of what is done is answered at once.
    let later = json!({"task_id": result["task_id"]});
    let later = world.call(&token, "get_task_result", later).await;
    assert_eq!(later["result"]["result"], *result);
}

#[tokio::test]
async fn each_text_comes_once_live_and_in_order_however_it_is_written() {
    let (pieces, waiting) = mpsc::channel(1);
    let world = World::with(Setup {
        agents: vec![speaking(waiting)],
        ..Setup::default()
    })
    .await;
    let token = world.token("vz").await;
    let mut messages = follow(&world, asking(&token, &json!(1), &params("x"))).await;
    // The task is named before its agent says anything.
    let first = messages.next().await.unwrap();
    assert_eq!(first["params"]["status"], "accepted");
    assert!(first["params"]["task_id"].is_string());
    let mut whole = String::new();
    let mut heard = String::new();
    for number in 0..300 {
        let piece = format!("é{number} ");
        whole += &piece;
        pieces.send(piece).await.unwrap();
        // Each is there before the next is said: it does not wait for the log.
        while heard.len() < whole.len() {
            let note = messages.next().await.unwrap();
            heard += note["params"]["text_delta"].as_str().unwrap();
        }
        assert_eq!(heard, whole);
    }
    drop(pieces);
    let rest = messages.rest().await;
    assert_eq!(told(&rest), "");
    assert_eq!(rest.last().unwrap()["result"]["response_text"], whole);
}

#[tokio::test]
async fn whoever_reads_slowly_holds_nobody_up_and_misses_nothing() {
    let (pieces, waiting) = mpsc::channel(1);
    let world = World::with(Setup {
        agents: vec![speaking(waiting)],
        ..Setup::default()
    })
    .await;
    let token = world.token("vz").await;
    let id = json!("5f0f0a5c-8f0a-4c1e-9d59-00000000000d");
    let messages = follow(&world, asking(&token, &id, &params("x"))).await;
    let mut whole = String::new();
    for number in 0..500 {
        let piece = format!("{number} ");
        whole += &piece;
        pieces.send(piece).await.unwrap();
    }
    drop(pieces);
    // The agent is done although nobody has read a word.
    let again = world.call_as(&token, id, "execute_task", params("x")).await;
    assert_eq!(again["result"]["response_text"], whole);
    let all = messages.rest().await;
    assert_eq!(told(&all), whole);
    assert_eq!(all.last().unwrap()["result"]["response_text"], whole);
}

#[tokio::test]
async fn failures_come_last_too_and_what_never_began_is_answered_plainly() {
    let world = World::new().await;
    let token = world.token("vz").await;
    let all = follow(&world, asking(&token, &json!(9), &params("fail badly")))
        .await
        .rest()
        .await;
    let last = checked(all.last().unwrap().clone());
    assert_eq!(
        (&last["id"], &last["error"]["data"]["error_code"]),
        (&json!(9), &json!("agent_failed"))
    );
    assert_eq!(last["error"]["data"]["detail"], "badly");
    // A reason that is too long to be kept with the task is cut short, and no less told.
    let long = params(&format!("fail {}", "why ".repeat(5_000)));
    let all = follow(&world, asking(&token, &json!(10), &long)).await;
    let last = all.rest().await.pop().unwrap();
    let detail = last["error"]["data"]["detail"].as_str().unwrap();
    assert!(
        detail.starts_with("why why ") && detail.len() < 5_000,
        "{detail}"
    );
    for (token, params, status, word) in [
        (&*token, json!({}), 200, "invalid_params"),
        ("rubbish", params("x"), 401, "token_invalid"),
    ] {
        let (told, headers, body) = world.send(asking(token, &json!(1), &params)).await;
        assert_eq!(
            (told.as_u16(), headers["content-type"].as_bytes()),
            (status, &b"application/json"[..])
        );
        let answer = checked(serde_json::from_str(&body).unwrap());
        assert_eq!(answer["error"]["data"]["error_code"], word);
    }
    // Whoever does not want it does not get it.
    let mut request = World::request(&token, call(&json!(1), &params("echo hi")).to_string());
    let never = "text/event-stream;q=0".parse().unwrap();
    request.headers_mut().insert("accept", never);
    let (_, headers, _) = world.send(request).await;
    assert_eq!(headers["content-type"], "application/json");
}

#[tokio::test]
async fn a_repetition_is_told_everything_from_the_beginning() {
    let may_end = Arc::new(Semaphore::new(0));
    let begun = Arc::new(Semaphore::new(0));
    let (may, has) = (may_end.clone(), begun.clone());
    let agent = actor("telling", move |_, output| {
        let (may, has) = (may.clone(), has.clone());
        async move {
            output.text("first ").await.unwrap();
            output.status("half-way").await.unwrap();
            has.add_permits(1);
            may.acquire().await.unwrap().forget();
            output.text("second").await.unwrap();
            Ok(said("first second"))
        }
    });
    let world = World::with(Setup {
        agents: vec![agent],
        ..Setup::default()
    })
    .await;
    let token = world.token("vz").await;
    let id = json!("5f0f0a5c-8f0a-4c1e-9d59-00000000000e");
    drop(follow(&world, asking(&token, &id, &params("x"))).await);
    begun.acquire().await.unwrap().forget();
    let messages = follow(&world, asking(&token, &id, &params("x"))).await;
    may_end.add_permits(1);
    let all = messages.rest().await;
    assert_eq!(told(&all), "first second");
    assert!(
        all.iter()
            .any(|note| note["params"]["status"] == "half-way")
    );
    let last = all.last().unwrap();
    assert_eq!(last["result"]["response_text"], "first second");
    // One that comes when all is done begins as the call itself did, and goes on with the answer.
    let late = follow(&world, asking(&token, &id, &params("x"))).await;
    let late = late.rest().await;
    assert_eq!(late.len(), 2, "{late:?}");
    assert_eq!(late[0], all[0]);
    assert_eq!(late[0]["params"]["status"], "accepted");
    assert_eq!(late[1], *last);
}

#[tokio::test]
async fn a_zone_that_closes_says_that_the_task_goes_on() {
    let agent = actor("patient", |turn, output| async move {
        output.status("at it").await.unwrap();
        turn.stop.cancelled().await;
        Ok(said("too late"))
    });
    let world = World::with(Setup {
        agents: vec![agent],
        ..Setup::default()
    })
    .await;
    let token = world.token("vz").await;
    let mut messages = follow(&world, asking(&token, &json!(1), &params("x"))).await;
    assert_eq!(
        messages.next().await.unwrap()["params"]["status"],
        "accepted"
    );
    assert_eq!(messages.next().await.unwrap()["params"]["status"], "at it");
    world.stop.cancel();
    let all = messages.rest().await;
    let last = checked(all.last().unwrap().clone());
    assert_eq!(last["result"]["status"], "accepted");
    assert!(last["result"]["task_id"].is_string());
}

#[tokio::test]
async fn a_token_that_expires_ends_the_telling_and_not_the_task() {
    let may_end = Arc::new(Semaphore::new(0));
    let may = may_end.clone();
    let agent = actor("patient", move |_, output| {
        let may = may.clone();
        async move {
            output.status("at it").await.unwrap();
            may.acquire().await.unwrap().forget();
            output.status("still at it").await.unwrap();
            may.acquire().await.unwrap().forget();
            Ok(said("done"))
        }
    });
    let world = World::with(Setup {
        agents: vec![agent],
        ..Setup::default()
    })
    .await;
    let token = world.token("vz").await;
    let mut messages = follow(&world, asking(&token, &json!(1), &params("x"))).await;
    assert_eq!(
        messages.next().await.unwrap()["params"]["status"],
        "accepted"
    );
    assert_eq!(messages.next().await.unwrap()["params"]["status"], "at it");
    world.clock.advance(Duration::from_secs(24 * 3_600));
    may_end.add_permits(1);
    let all = messages.rest().await;
    assert_eq!(all.len(), 1, "{all:?}");
    assert_eq!(all[0]["result"]["status"], "accepted");
}
