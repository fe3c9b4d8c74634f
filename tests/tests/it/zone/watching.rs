//! Watching by SSE and by WebSocket: without a gap, without repetition, and only what is one's own.

use super::{SseReader, ZoneFixture, ZoneFixtureOptions, completed, user_message};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use interzone_edge::budget::{MemoryBudget, Shares};
use interzone_edge::limits::HttpLimits;
use interzone_hub::{TurnOutcome, TurnOutput};
use interzone_protocol::acp::{Scope, codes};
use interzone_protocol::vocab::{Artifact, ArtifactId, Message, Part};
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message as Frame};

async fn kinds(events: SseReader) -> Vec<String> {
    let all = events.remaining().await;
    let kind = |sent: &super::SseNotification| {
        let event = sent.params["event"].as_str().unwrap_or(&sent.method);
        let id = sent.id.map_or("-".to_owned(), |id| id.to_string());
        format!("{id} {event}")
    };
    all.iter().map(kind).collect()
}

#[tokio::test]
async fn a_task_is_watched_from_its_beginning_to_its_end() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let path = format!("/tasks/{id}/events");
    let live = tokio::spawn(kinds(world.watch(&path, &token, None).await));
    let (run, turn) = world.claim_run().await;
    run.status("thinking").await.unwrap();
    let artifact = Artifact::new(ArtifactId::new("a-1").unwrap(), "r").with_part(Part::text("x"));
    run.artifact(artifact, false, true).await.unwrap();
    run.complete(&turn, completed("done")).await.unwrap();
    let all = [
        "1 STATUS_CHANGE",
        "2 STATUS_CHANGE",
        "3 interzone.task.status",
        "4 NEW_ARTIFACT",
        "5 NEW_MESSAGE",
        "- STATUS_CHANGE",
        "6 COMPLETED",
    ];
    assert_eq!(live.await.unwrap(), all);
    // Whoever comes back after any event gets what follows, once.
    for (after, from) in [(0, 0), (1, 1), (3, 3), (5, 5), (6, 7), (99, 7)] {
        let again = world.watch(&path, &token, Some(after)).await;
        assert_eq!(kinds(again).await, all[from..], "after {after}");
    }
    let by_query = world.watch(&format!("{path}?after=4"), &token, None).await;
    assert_eq!(kinds(by_query).await, all[4..]);
}

#[tokio::test]
async fn notifications_carry_what_they_are_about() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let (run, turn) = world.claim_run().await;
    run.complete(
        &turn,
        TurnOutcome::InputRequired(Message::agent_text("which?")),
    )
    .await
    .unwrap();
    let more = json!({"taskId": id, "message": user_message("this")});
    world.result(&token, "tasks.send", more).await;
    let (run, turn) = world.claim_run().await;
    run.complete(&turn, completed("done")).await.unwrap();
    let all = world
        .watch(&format!("/tasks/{id}/events"), &token, None)
        .await
        .remaining()
        .await;
    for sent in &all {
        assert_eq!(sent.params["taskId"], *id);
        assert!(sent.params["timestamp"].as_str().unwrap().ends_with('Z'));
    }
    let statuses: Vec<&str> = all
        .iter()
        .filter(|sent| sent.params["event"] == "STATUS_CHANGE")
        .map(|sent| sent.params["data"]["status"].as_str().unwrap())
        .collect();
    let expected = [
        "SUBMITTED",
        "WORKING",
        "INPUT_REQUIRED",
        "WORKING",
        "COMPLETED",
    ];
    assert_eq!(statuses, expected, "each as it was then");
    let question = &all
        .iter()
        .find(|sent| sent.params["data"]["status"] == "INPUT_REQUIRED");
    let question = &question.unwrap().params["data"]["messages"][0]["parts"][0]["content"];
    assert_eq!(question, "which?");
    let last = &all.last().unwrap().params;
    assert_eq!(last["event"], "COMPLETED");
    let now = world
        .result(&token, "tasks.get", json!({"taskId": id}))
        .await["task"]
        .clone();
    assert_eq!(last["data"], now, "at the end all of it");
}

#[tokio::test]
async fn growing_text_is_seen_live_and_once() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let path = format!("/tasks/{id}/events");
    let (run, turn) = world.claim_run().await;
    let mut live = world.watch(&path, &token, Some(2)).await;
    let written = async {
        for word in ["one ", "two ", "three"] {
            run.text(word).await.unwrap();
        }
        run.complete(&turn, completed("one two three"))
            .await
            .unwrap();
    };
    let seen = async {
        let mut text = String::new();
        while let Some(sent) = live.next().await {
            if sent.method == "interzone.task.text" {
                assert_eq!(sent.params["offset"], text.len());
                text += sent.params["delta"].as_str().unwrap();
            }
        }
        text
    };
    let ((), text) = tokio::join!(written, seen);
    assert_eq!(text, "one two three");
}

#[tokio::test]
async fn a_stream_is_heard_by_all_who_take_part() {
    let world = ZoneFixture::new().await;
    let alice = world.token("alice").await;
    let bob = world.token("bob").await;
    let started = world
        .result(&alice, "stream.start", json!({"participants": ["bob"]}))
        .await;
    let id = started["stream"]["streamId"].as_str().unwrap().to_owned();
    let path = format!("/streams/{id}/events");
    let heard = tokio::spawn(world.watch(&path, &bob, None).await.remaining());
    for n in 1..=3 {
        let chunk =
            json!({"streamId": id, "chunk": user_message("x"), "sequence": n, "isLast": n == 3});
        world.result(&alice, "stream.chunk", chunk).await;
    }
    world
        .result(
            &alice,
            "stream.end",
            json!({"streamId": id, "reason": "enough"}),
        )
        .await;
    let heard = heard.await.unwrap();
    let lines: Vec<String> = heard
        .iter()
        .map(|sent| match sent.method.as_str() {
            "stream.chunk" => {
                let (number, last) = (&sent.params["sequence"], &sent.params["isLast"]);
                format!("{} chunk {number} {last}", sent.id.unwrap())
            }
            _ => format!(
                "{} {}",
                sent.id.unwrap(),
                sent.params["status"].as_str().unwrap()
            ),
        })
        .collect();
    let expected = [
        "1 ACTIVE",
        "2 chunk 1 false",
        "3 chunk 2 false",
        "4 chunk 3 true",
        "5 CLOSED",
    ];
    assert_eq!(lines, expected);
    assert_eq!(heard[4].params["reason"], "enough");
}

#[tokio::test]
async fn only_those_watch_who_may() {
    let world = ZoneFixture::new().await;
    let alice = world.token("alice").await;
    let eve = world.token("eve").await;
    let weak = world.token_with("weak", &["acp:agent:identify"]).await;
    let task = world.create_task(&alice).await;
    let started = world.result(&alice, "stream.start", json!({})).await;
    let stream = started["stream"]["streamId"].as_str().unwrap();
    for (path, unknown) in [
        (format!("/tasks/{task}/events"), codes::TASK_NOT_FOUND),
        (format!("/streams/{stream}/events"), codes::STREAM_NOT_FOUND),
        (format!("/streams/{stream}"), codes::STREAM_NOT_FOUND),
    ] {
        for (token, status, code) in [
            (None, StatusCode::UNAUTHORIZED, codes::AUTHENTICATION_FAILED),
            (
                Some(&weak),
                StatusCode::FORBIDDEN,
                codes::INSUFFICIENT_SCOPE,
            ),
            (Some(&eve), StatusCode::NOT_FOUND, unknown),
        ] {
            let (got, headers, body) = world.get(&path, token.map(|token| &**token)).await;
            assert_eq!(got, status, "{path} {body}");
            let answer: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(super::error_code(&answer), code);
            assert_eq!(headers["content-type"], "application/json");
        }
    }
    let (status, _, _) = world.get(&format!("/streams/{stream}"), Some(&alice)).await;
    assert_eq!(
        status,
        StatusCode::UPGRADE_REQUIRED,
        "a socket wants to be one"
    );
}

#[tokio::test]
async fn one_principal_has_so_many_watches_and_no_more() {
    let limits = HttpLimits {
        watches_per_principal: 2,
        ..HttpLimits::default()
    };
    let world = ZoneFixture::with_options(ZoneFixtureOptions {
        limits,
        ..ZoneFixtureOptions::default()
    })
    .await;
    let (alice, bob) = (world.token("alice").await, world.token("bob").await);
    let task = world.create_task(&alice).await;
    let path = format!("/tasks/{task}/events");
    let started = world.result(&alice, "stream.start", json!({})).await;
    let id = started["stream"]["streamId"].as_str().unwrap();
    let first = world.watch(&path, &alice, None).await;
    let socket = open_socket(&world, &alice, id).await.unwrap();
    let (status, _, body) = world.get(&path, Some(&alice)).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{body}");
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(super::error_code(&answer), codes::RATE_LIMITED);
    assert_eq!(answer["error"]["data"]["limit"], 2);
    let refused = open_socket(&world, &alice, id).await.unwrap_err();
    assert_eq!(refused, StatusCode::TOO_MANY_REQUESTS);
    // Others have their own.
    let other = world.create_task(&bob).await;
    world
        .watch(&format!("/tasks/{other}/events"), &bob, None)
        .await;
    drop(first);
    world.watch(&path, &alice, None).await;
    drop(socket);
}

/// A stream's socket, or why there is none.
async fn open_socket(
    world: &ZoneFixture,
    token: &str,
    id: &str,
) -> Result<WebSocketStream<DuplexStream>, StatusCode> {
    let mut request = format!("ws://zone.test/streams/{id}")
        .into_client_request()
        .unwrap();
    let bearer = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    match tokio_tungstenite::client_async(request, (world.connect)()).await {
        Ok((socket, _)) => Ok(socket),
        Err(tungstenite::Error::Http(response)) => Err(response.status()),
        Err(error) => panic!("{error}"),
    }
}

/// A stream on which something of so many bytes was said, after as many small things.
async fn stream_with(world: &ZoneFixture, token: &str, small: usize, bytes: usize) -> String {
    let started = world.result(token, "stream.start", json!({})).await;
    let id = started["stream"]["streamId"].as_str().unwrap();
    for sequence in 1..=small + 1 {
        let length = if sequence > small { bytes } else { 1 };
        let chunk = json!({"streamId": id, "chunk": user_message(&"x".repeat(length)), "sequence": sequence});
        world.result(token, "stream.chunk", chunk).await;
    }
    id.to_owned()
}

/// A zone with memory for one answer of 200 kB.
async fn narrow_world() -> ZoneFixture {
    let shares = Shares {
        address: 1,
        principal: 1,
    };
    let limits = HttpLimits {
        response_memory: MemoryBudget::with_shares(400_000, shares),
        ..HttpLimits::default()
    };
    ZoneFixture::with_options(ZoneFixtureOptions {
        limits,
        ..ZoneFixtureOptions::default()
    })
    .await
}

/// The body of a watch, and its first large piece, which is being sent for as long as it is kept.
async fn sending(world: &ZoneFixture, token: &str, id: &str) -> (Bytes, impl Sized + use<>) {
    let request = Request::get(format!("/streams/{id}/events"))
        .header("authorization", format!("Bearer {token}"))
        .body(Full::default())
        .unwrap();
    let mut body = (world.call)(request).await.into_body();
    loop {
        let frame = body.frame().await.expect("the watch goes on").unwrap();
        let data = frame.into_data().unwrap();
        if data.len() > 200_000 {
            return (data, body);
        }
    }
}

#[tokio::test]
async fn watch_without_memory_for_its_event_ends_and_is_resumed() {
    let world = narrow_world().await;
    let token = world.token("alice").await;
    let first = stream_with(&world, &token, 0, 200_000).await;
    let second = stream_with(&world, &token, 1, 200_000).await;
    let held = sending(&world, &token, &first).await;
    // Another watcher of the same event needs no more memory.
    let shared = sending(&world, &token, &first).await;
    assert_eq!(held.0.as_ptr(), shared.0.as_ptr());

    let path = format!("/streams/{second}/events");
    let patience = std::time::Duration::from_secs(20);
    let ended = tokio::time::timeout(patience, world.get(&path, Some(&token))).await;
    let (status, _, body) = ended.expect("the watch ends");
    assert_eq!(status, StatusCode::OK);
    let end = "retry: 5000\n: too much is being sent; reconnect later\n\n";
    assert!(body.ends_with(end), "{}", body.len());
    assert!(body.contains("id: 2\n") && !body.contains("id: 3\n"));

    drop((held, shared));
    let again = world.watch(&path, &token, Some(2)).await.next().await;
    assert_eq!(again.unwrap().id, Some(3));
}

#[tokio::test]
async fn socket_without_memory_for_its_event_is_closed_and_a_large_one_arrives_whole() {
    let world = narrow_world().await;
    let token = world.token("alice").await;
    let first = stream_with(&world, &token, 0, 200_000).await;
    let second = stream_with(&world, &token, 0, 200_000).await;
    let held = sending(&world, &token, &first).await;
    let mut socket = open_socket(&world, &token, &second).await.unwrap();
    let patience = std::time::Duration::from_secs(20);
    let closed = tokio::time::timeout(patience, async {
        loop {
            if let Frame::Close(why) = socket.next().await.unwrap().unwrap() {
                return why.map(|why| u16::from(why.code));
            }
        }
    });
    assert_eq!(closed.await.expect("the socket is closed"), Some(1013));

    drop(held);
    let mut socket = open_socket(&world, &token, &second).await.unwrap();
    loop {
        let frame = socket.next().await.unwrap().unwrap();
        if let Frame::Text(text) = frame
            && text.len() > 200_000
        {
            let note: Value = serde_json::from_str(&text).unwrap();
            let said = &note["params"]["chunk"]["parts"][0]["content"];
            assert_eq!(said.as_str().map(str::len), Some(200_000));
            break;
        }
    }
}

#[tokio::test]
async fn messages_on_sockets_share_the_room_of_bodies() {
    let limits = HttpLimits {
        body_memory: MemoryBudget::new(200_000),
        ..HttpLimits::default()
    };
    let world = ZoneFixture::with_options(ZoneFixtureOptions {
        limits,
        ..ZoneFixtureOptions::default()
    })
    .await;
    let token = world.token("alice").await;
    let started = world.result(&token, "stream.start", json!({})).await;
    let id = started["stream"]["streamId"].as_str().unwrap();
    let call = |length: usize| {
        let chunk =
            json!({"streamId": id, "chunk": user_message(&"x".repeat(length)), "sequence": 1});
        json!({"jsonrpc": "2.0", "id": 1, "method": "stream.chunk", "params": chunk}).to_string()
    };
    let (mut sink, mut stream) = open_socket(&world, &token, id).await.unwrap().split();
    // Whoever writes must read meanwhile, for the zone does not wait for ever.
    let (tell, mut answered) = mpsc::unbounded_channel();
    let reading = tokio::spawn(async move {
        let mut closed = None;
        while let Some(Ok(frame)) = stream.next().await {
            match frame {
                Frame::Text(text) if text.contains("\"result\"") => tell.send(()).unwrap(),
                Frame::Close(why) => closed = why,
                _ => {}
            }
        }
        closed.map(|why| u16::from(why.code))
    });
    // One after another they fit, however many.
    for _ in 0..5 {
        sink.send(Frame::text(call(150_000))).await.unwrap();
        answered.recv().await.unwrap();
    }
    // One that is larger than all there is breaks off.
    let _ = sink.send(Frame::text(call(400_000))).await;
    assert_eq!(reading.await.unwrap(), Some(1013));
    // What it took is there again.
    let mut socket = open_socket(&world, &token, id).await.unwrap();
    let small =
        json!({"jsonrpc": "2.0", "id": 1, "method": "stream.end", "params": {"streamId": id}});
    socket.send(Frame::text(small.to_string())).await.unwrap();
    while let Some(Ok(_)) = socket.next().await {}
}

#[tokio::test]
async fn a_closing_zone_ends_its_watches() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let watch = world
        .watch(&format!("/tasks/{id}/events"), &token, Some(1))
        .await;
    world.stop.cancel();
    assert!(watch.remaining().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_idle_watch_gives_signs_of_life_and_ends_with_its_token() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let mut watch = world
        .watch(&format!("/tasks/{id}/events"), &token, Some(1))
        .await;
    let mut said = String::new();
    // Time is not waited for here: it is moved on whenever nothing else is left to do.
    while let Some(piece) = watch.data.next().await {
        said += std::str::from_utf8(&piece).unwrap();
    }
    let beats = said.matches(": keep-alive\n\n").count();
    assert!(
        (50..=60).contains(&beats),
        "every 15 of 900 s, not {beats} times"
    );
    assert!(
        said.ends_with(": the token has expired; reconnect with a new one\n\n"),
        "{said}"
    );
}

#[tokio::test]
async fn a_socket_carries_calls_in_and_chunks_out() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let started = world.result(&token, "stream.start", json!({})).await;
    let id = started["stream"]["streamId"].as_str().unwrap().to_owned();
    let chunk = |n: u64| json!({"streamId": id, "chunk": user_message("x"), "sequence": n});
    world.result(&token, "stream.chunk", chunk(1)).await;
    world.result(&token, "stream.chunk", chunk(2)).await;
    let mut request = format!("ws://zone.test/streams/{id}?after=2")
        .into_client_request()
        .unwrap();
    let bearer = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    let wire = (world.connect)();
    let (mut socket, _) = tokio_tungstenite::client_async(request, wire)
        .await
        .unwrap();
    let call = json!({"jsonrpc": "2.0", "id": "q", "method": "stream.chunk", "params": chunk(3)});
    socket.send(Frame::text(call.to_string())).await.unwrap();
    socket.send(Frame::text("{")).await.unwrap();
    let end = json!({"jsonrpc": "2.0", "method": "stream.end", "params": {"streamId": id}});
    socket.send(Frame::text(end.to_string())).await.unwrap();
    let (mut answers, mut sequences, mut closed) = (Vec::new(), Vec::new(), None);
    while let Some(Ok(frame)) = socket.next().await {
        match frame {
            Frame::Text(text) => {
                let message: Value = serde_json::from_str(&text).unwrap();
                match message["method"].as_str() {
                    Some("stream.chunk") => sequences.push(message["params"]["sequence"].clone()),
                    Some(other) => assert_eq!(other, "interzone.stream.state"),
                    None => answers.push(message),
                }
            }
            Frame::Close(why) => closed = why,
            _ => {}
        }
    }
    assert_eq!(sequences, [2, 3]);
    assert_eq!(answers[0]["result"]["type"], "notification");
    assert_eq!(
        super::error_code(&answers[1]),
        interzone_jsonrpc::ErrorCode::PARSE_ERROR
    );
    assert_eq!(answers.len(), 2);
    assert_eq!(u16::from(closed.unwrap().code), 1000);
}

#[tokio::test]
async fn an_event_is_written_once_for_all_who_watch() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let started = world.result(&token, "stream.start", json!({})).await;
    let id = started["stream"]["streamId"].as_str().unwrap().to_owned();
    let path = format!("/streams/{id}/events");
    let mut watches = Vec::new();
    for _ in 0..200 {
        watches.push(world.watch(&path, &token, Some(1)).await);
    }
    let chunk = json!({"streamId": id, "chunk": user_message("x"), "sequence": 1});
    world.result(&token, "stream.chunk", chunk).await;
    let mut pieces = Vec::new();
    for watch in &mut watches {
        pieces.push(watch.data.next().await.unwrap());
    }
    assert!(pieces[0].starts_with(b"id: 2\nevent: stream.chunk\n"));
    let places: std::collections::BTreeSet<_> = pieces.iter().map(|p| p.as_ptr()).collect();
    assert_eq!(places.len(), 1, "all share the same bytes");
}

#[tokio::test]
async fn a_token_that_was_taken_back_ends_what_it_opened() {
    let world = ZoneFixture::new().await;
    let all = Scope::ALL.map(|scope| scope.name());
    let (token, secret) = world.token_and_secret("alice", &all).await;
    let other = world.token("bob").await;
    let params = json!({"participants": ["bob"]});
    let started = world.result(&token, "stream.start", params).await;
    let id = started["stream"]["streamId"].as_str().unwrap().to_owned();
    let mut watch = world
        .watch(&format!("/streams/{id}/events"), &token, Some(1))
        .await;
    let mut request = format!("ws://zone.test/streams/{id}?after=1")
        .into_client_request()
        .unwrap();
    let bearer = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    let (mut socket, _) = tokio_tungstenite::client_async(request, (world.connect)())
        .await
        .unwrap();
    world.revoke("alice", &secret, &token).await;
    let end =
        json!({"jsonrpc": "2.0", "id": 1, "method": "stream.end", "params": {"streamId": id}});
    socket.send(Frame::text(end.to_string())).await.unwrap();
    let closed = match socket.next().await {
        Some(Ok(Frame::Close(Some(close)))) => u16::from(close.code),
        other => panic!("{other:?}"),
    };
    assert_eq!(closed, 4401);
    // The call was not made: the stream still takes words, and they are not for the watcher.
    let chunk = json!({"streamId": id, "chunk": user_message("secret"), "sequence": 1});
    world.result(&other, "stream.chunk", chunk).await;
    let last = watch.data.next().await.unwrap();
    let told = b": the token is no longer valid; reconnect with a new one\n\n";
    assert_eq!(*last, *told);
    assert!(watch.data.next().await.is_none());
}
