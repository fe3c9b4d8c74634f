//! Watches over SSE and WebSocket: order, resumption, authorization and limits.

use super::{SseReader, ZoneFixture, ZoneFixtureOptions, completed, user_message};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use interzone_edge::budget::{MemoryBudget, Shares};
use interzone_edge::limits::HttpLimits;
use interzone_hub::{TurnOutcome, TurnOutput};
use interzone_protocol::Scope;
use interzone_protocol::acp::codes;
use interzone_protocol::vocab::{Artifact, ArtifactId, Message, Part};
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message as Frame};

/// Collects the event ids and kinds of a watch.
async fn collect_kinds(events: SseReader) -> Vec<String> {
    let all = events.collect_remaining().await;
    let kind = |notification: &super::SseNotification| {
        let event = notification.params["event"]
            .as_str()
            .unwrap_or(&notification.method);
        let id = notification.id.map_or("-".to_owned(), |id| id.to_string());
        format!("{id} {event}")
    };
    all.iter().map(kind).collect()
}

#[tokio::test]
async fn task_watch_is_complete_and_can_be_resumed() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let path = format!("/tasks/{id}/events");
    let live = tokio::spawn(collect_kinds(world.watch(&path, &token, None).await));
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
    // A watch resumed after any event gets the following events once.
    for (after, from) in [(0, 0), (1, 1), (3, 3), (5, 5), (6, 7), (99, 7)] {
        let resumed = world.watch(&path, &token, Some(after)).await;
        assert_eq!(collect_kinds(resumed).await, all[from..], "after {after}");
    }
    let by_query = world.watch(&format!("{path}?after=4"), &token, None).await;
    assert_eq!(collect_kinds(by_query).await, all[4..]);
}

#[tokio::test]
async fn watched_messages_and_artifacts_have_the_form_of_the_task() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let (run, turn) = world.claim_run().await;
    let artifact = Artifact::new(ArtifactId::new("a-1").unwrap(), "r").with_part(Part::text("x"));
    run.artifact(artifact, false, true).await.unwrap();
    run.complete(&turn, completed("done")).await.unwrap();
    let path = format!("/tasks/{id}/events");
    let watch = world.watch(&path, &token, None).await;
    let all = watch.collect_remaining().await;
    let data = |event: &str| {
        let found = all.iter().find(|item| item.params["event"] == event);
        found.map(|item| item.params["data"].clone())
    };
    let task = world.result(&token, "tasks.get", json!({"taskId": id}));
    let task = task.await["task"].take();
    assert_eq!(data("NEW_MESSAGE").unwrap(), task["messages"][1]);
    let mut artifact = data("NEW_ARTIFACT").unwrap();
    assert!(
        artifact
            .as_object_mut()
            .unwrap()
            .remove("createdAt")
            .is_some()
    );
    assert_eq!(artifact, task["artifacts"][0]);
}

#[tokio::test]
async fn task_events_contain_the_state_at_their_time() {
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
        .collect_remaining()
        .await;
    for notification in &all {
        assert_eq!(notification.params["taskId"], *id);
        assert!(
            notification.params["timestamp"]
                .as_str()
                .unwrap()
                .ends_with('Z')
        );
    }
    let statuses: Vec<&str> = all
        .iter()
        .filter(|notification| notification.params["event"] == "STATUS_CHANGE")
        .map(|notification| notification.params["data"]["status"].as_str().unwrap())
        .collect();
    let expected = [
        "SUBMITTED",
        "WORKING",
        "INPUT_REQUIRED",
        "WORKING",
        "COMPLETED",
    ];
    assert_eq!(statuses, expected, "each event has the status of its time");
    let question = &all
        .iter()
        .find(|notification| notification.params["data"]["status"] == "INPUT_REQUIRED");
    let question = &question.unwrap().params["data"]["messages"][0]["parts"][0]["content"];
    assert_eq!(question, "which?");
    let last = &all.last().unwrap().params;
    assert_eq!(last["event"], "COMPLETED");
    let now = world
        .result(&token, "tasks.get", json!({"taskId": id}))
        .await["task"]
        .clone();
    assert_eq!(last["data"], now, "the last event has the complete task");
}

#[tokio::test]
async fn text_deltas_are_watched_live_and_once() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let path = format!("/tasks/{id}/events");
    let (run, turn) = world.claim_run().await;
    let mut live = world.watch(&path, &token, Some(2)).await;
    let write = async {
        for word in ["one ", "two ", "three"] {
            run.text(word).await.unwrap();
        }
        run.complete(&turn, completed("one two three"))
            .await
            .unwrap();
    };
    let read = async {
        let mut text = String::new();
        while let Some(notification) = live.next().await {
            if notification.method == "interzone.task.text" {
                assert_eq!(notification.params["offset"], text.len());
                text += notification.params["delta"].as_str().unwrap();
            }
        }
        text
    };
    let ((), text) = tokio::join!(write, read);
    assert_eq!(text, "one two three");
}

#[tokio::test]
async fn participant_watches_chunks_and_stream_state() {
    let world = ZoneFixture::new().await;
    let alice = world.token("alice").await;
    let bob = world.token("bob").await;
    let started = world
        .result(&alice, "stream.start", json!({"participants": ["bob"]}))
        .await;
    let id = started["stream"]["streamId"].as_str().unwrap().to_owned();
    let path = format!("/streams/{id}/events");
    let watch = world.watch(&path, &bob, None).await;
    let notifications = tokio::spawn(watch.collect_remaining());
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
    let notifications = notifications.await.unwrap();
    let lines: Vec<String> = notifications
        .iter()
        .map(|notification| match notification.method.as_str() {
            "stream.chunk" => {
                let (number, last) = (
                    &notification.params["sequence"],
                    &notification.params["isLast"],
                );
                format!("{} chunk {number} {last}", notification.id.unwrap())
            }
            _ => format!(
                "{} {}",
                notification.id.unwrap(),
                notification.params["status"].as_str().unwrap()
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
    assert_eq!(notifications[4].params["reason"], "enough");
}

#[tokio::test]
async fn watch_requires_token_scope_and_ownership() {
    let world = ZoneFixture::new().await;
    let alice = world.token("alice").await;
    let eve = world.token("eve").await;
    let weak = world.token_with("weak", &["acp:agent:identify"]).await;
    let task = world.create_task(&alice).await;
    let started = world.result(&alice, "stream.start", json!({})).await;
    let stream = started["stream"]["streamId"].as_str().unwrap();
    for (path, not_found) in [
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
            (Some(&eve), StatusCode::NOT_FOUND, not_found),
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
        "a WebSocket requires an upgrade"
    );
}

#[tokio::test]
async fn watch_over_the_principal_limit_gets_429() {
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
    let rejected = open_socket(&world, &alice, id).await.unwrap_err();
    assert_eq!(rejected, StatusCode::TOO_MANY_REQUESTS);
    // The limit of another principal is separate.
    let other = world.create_task(&bob).await;
    world
        .watch(&format!("/tasks/{other}/events"), &bob, None)
        .await;
    drop(first);
    world.watch(&path, &alice, None).await;
    drop(socket);
}

/// Opens a WebSocket of a stream. Returns the response status if it is rejected.
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

/// Creates a stream with `small` chunks of one byte, then one of `bytes` bytes. Returns its id.
async fn start_stream_with(world: &ZoneFixture, token: &str, small: usize, bytes: usize) -> String {
    let started = world.result(token, "stream.start", json!({})).await;
    let id = started["stream"]["streamId"].as_str().unwrap();
    for sequence in 1..=small + 1 {
        let length = if sequence > small { bytes } else { 1 };
        let chunk = json!({"streamId": id, "chunk": user_message(&"x".repeat(length)), "sequence": sequence});
        world.result(token, "stream.chunk", chunk).await;
    }
    id.to_owned()
}

/// Starts a zone with memory for one response of 200 kB.
async fn start_zone_with_little_memory() -> ZoneFixture {
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

/// Reads a watch up to its first large frame. Returns the frame and the body: until they are dropped, the frame holds
/// its memory.
async fn hold_large_frame(
    world: &ZoneFixture,
    token: &str,
    id: &str,
) -> (Bytes, impl Sized + use<>) {
    let request = Request::get(format!("/streams/{id}/events"))
        .header("authorization", format!("Bearer {token}"))
        .body(Full::default())
        .unwrap();
    let mut body = (world.call)(request).await.into_body();
    loop {
        let frame = body.frame().await.expect("the watch continues").unwrap();
        let data = frame.into_data().unwrap();
        if data.len() > 200_000 {
            return (data, body);
        }
    }
}

#[tokio::test]
async fn watch_without_memory_for_its_event_ends_and_is_resumed() {
    let world = start_zone_with_little_memory().await;
    let token = world.token("alice").await;
    let first = start_stream_with(&world, &token, 0, 200_000).await;
    let second = start_stream_with(&world, &token, 1, 200_000).await;
    let held = hold_large_frame(&world, &token, &first).await;
    // Another watcher of the same event shares its bytes.
    let shared = hold_large_frame(&world, &token, &first).await;
    assert_eq!(held.0.as_ptr(), shared.0.as_ptr());

    let path = format!("/streams/{second}/events");
    let timeout = std::time::Duration::from_secs(20);
    let ended = tokio::time::timeout(timeout, world.get(&path, Some(&token))).await;
    let (status, _, body) = ended.expect("the end of the watch before the timeout");
    assert_eq!(status, StatusCode::OK);
    let end = "retry: 5000\n: too much is being sent; reconnect later\n\n";
    assert!(body.ends_with(end), "{}", body.len());
    assert!(body.contains("id: 2\n") && !body.contains("id: 3\n"));

    drop((held, shared));
    let resumed = world.watch(&path, &token, Some(2)).await.next().await;
    assert_eq!(resumed.unwrap().id, Some(3));
}

#[tokio::test]
async fn websocket_without_memory_for_an_event_is_closed() {
    let world = start_zone_with_little_memory().await;
    let token = world.token("alice").await;
    let first = start_stream_with(&world, &token, 0, 200_000).await;
    let second = start_stream_with(&world, &token, 0, 200_000).await;
    let held = hold_large_frame(&world, &token, &first).await;
    let mut socket = open_socket(&world, &token, &second).await.unwrap();
    let timeout = std::time::Duration::from_secs(20);
    let closed = tokio::time::timeout(timeout, async {
        loop {
            if let Frame::Close(close) = socket.next().await.unwrap().unwrap() {
                return close.map(|close| u16::from(close.code));
            }
        }
    });
    assert_eq!(
        closed.await.expect("a close frame before the timeout"),
        Some(1013)
    );

    drop(held);
    let mut socket = open_socket(&world, &token, &second).await.unwrap();
    loop {
        let frame = socket.next().await.unwrap().unwrap();
        if let Frame::Text(text) = frame
            && text.len() > 200_000
        {
            let note: Value = serde_json::from_str(&text).unwrap();
            let content = &note["params"]["chunk"]["parts"][0]["content"];
            assert_eq!(content.as_str().map(str::len), Some(200_000));
            break;
        }
    }
}

#[tokio::test]
async fn websocket_messages_share_the_body_memory() {
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
    // Responses are read concurrently, because the zone closes a socket that does not read.
    let (responses, mut received) = mpsc::unbounded_channel();
    let reader = tokio::spawn(async move {
        let mut closed = None;
        while let Some(Ok(frame)) = stream.next().await {
            match frame {
                Frame::Text(text) if text.contains("\"result\"") => responses.send(()).unwrap(),
                Frame::Close(close) => closed = close,
                _ => {}
            }
        }
        closed.map(|close| u16::from(close.code))
    });
    // Sequential messages reuse the same memory.
    for _ in 0..5 {
        sink.send(Frame::text(call(150_000))).await.unwrap();
        received.recv().await.unwrap();
    }
    // A message larger than the budget closes the socket.
    let _ = sink.send(Frame::text(call(400_000))).await;
    assert_eq!(reader.await.unwrap(), Some(1013));
    // Its memory is released.
    let mut socket = open_socket(&world, &token, id).await.unwrap();
    let small =
        json!({"jsonrpc": "2.0", "id": 1, "method": "stream.end", "params": {"streamId": id}});
    socket.send(Frame::text(small.to_string())).await.unwrap();
    while let Some(Ok(_)) = socket.next().await {}
}

#[tokio::test]
async fn shutdown_ends_watches() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let watch = world
        .watch(&format!("/tasks/{id}/events"), &token, Some(1))
        .await;
    world.stop.cancel();
    assert!(watch.collect_remaining().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn idle_watch_sends_keep_alive_until_token_expiry() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let id = world.create_task(&token).await;
    let mut watch = world
        .watch(&format!("/tasks/{id}/events"), &token, Some(1))
        .await;
    let mut text = String::new();
    // The paused clock advances by itself when all tasks are idle.
    while let Some(piece) = watch.data.next().await {
        text += std::str::from_utf8(&piece).unwrap();
    }
    let keep_alives = text.matches(": keep-alive\n\n").count();
    assert!(
        (50..=60).contains(&keep_alives),
        "one every 15 s for 900 s, but {keep_alives} were sent"
    );
    assert!(
        text.ends_with(": the token has expired; reconnect with a new one\n\n"),
        "{text}"
    );
}

#[tokio::test]
async fn websocket_accepts_calls_and_sends_chunks() {
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
    let connection = (world.connect)();
    let (mut socket, _) = tokio_tungstenite::client_async(request, connection)
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
            Frame::Close(close) => closed = close,
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
async fn event_is_serialized_once_for_all_watchers() {
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
    let addresses: std::collections::BTreeSet<_> = pieces.iter().map(|p| p.as_ptr()).collect();
    assert_eq!(addresses.len(), 1, "all share the same bytes");
}

#[tokio::test]
async fn revoked_token_closes_its_watch_and_websocket() {
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
    // The call was not executed: the stream still accepts chunks, and the watcher does not get them.
    let chunk = json!({"streamId": id, "chunk": user_message("secret"), "sequence": 1});
    world.result(&other, "stream.chunk", chunk).await;
    let last = watch.data.next().await.unwrap();
    let reason = b": the token is no longer valid; reconnect with a new one\n\n";
    assert_eq!(*last, *reason);
    assert!(watch.data.next().await.is_none());
}
