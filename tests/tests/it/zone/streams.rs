//! Stream methods: start, message, chunk and end, and the states that allow them.

use super::{ZoneFixture, completed, user_message};
use interzone_hub::{Caller, STREAM_CHANNEL};
use interzone_protocol::acp::codes;
use interzone_protocol::vocab::{PrincipalId, StreamId, StreamState};
use serde_json::json;
use std::time::Duration;

#[tokio::test]
async fn stream_accepts_messages_only_while_active() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let params = json!({"participants": ["bob"], "metadata": {"topic": "x"}});
    let started = world.result(&token, "stream.start", params).await;
    let stream = &started["stream"];
    assert_eq!(stream["status"], "ACTIVE");
    assert_eq!(stream["participants"], json!(["bob"]));
    let id = stream["streamId"].as_str().unwrap();
    let events = format!("https://zone.test/streams/{id}/events");
    assert_eq!(stream["metadata"]["events"], events);
    assert_eq!(stream["metadata"]["topic"], "x");
    let message = json!({"streamId": id, "message": user_message("hi")});
    let bob = world.token("bob").await;
    assert_eq!(
        world.result(&bob, "stream.message", message.clone()).await["type"],
        "success"
    );
    let chunk = json!({"streamId": id, "chunk": user_message("a"), "sequence": 0});
    assert_eq!(
        world.result(&token, "stream.chunk", chunk.clone()).await["type"],
        "notification"
    );
    // Only an operator pauses a stream, and there is no method for it.
    let operator = Caller::operator(PrincipalId::new("op").unwrap());
    let stream = StreamId::new(id).unwrap();
    world
        .hub
        .set_stream_state(&operator, &stream, StreamState::Paused, None)
        .await
        .unwrap();
    for (method, params) in [("stream.message", &message), ("stream.chunk", &chunk)] {
        let (code, data) = world.call_error(&token, method, params.clone()).await;
        assert_eq!(code, codes::STREAM_ALREADY_CLOSED, "{method}");
        assert_eq!(data["currentStatus"], "PAUSED");
    }
    let end = json!({"streamId": id, "reason": null});
    assert_eq!(
        world.result(&token, "stream.end", end.clone()).await["type"],
        "success"
    );
    for (method, params) in [
        ("stream.message", message),
        ("stream.chunk", chunk),
        ("stream.end", end),
    ] {
        let (code, data) = world.call_error(&token, method, params).await;
        assert_eq!(code, codes::STREAM_ALREADY_CLOSED, "{method}");
        assert_eq!(data["currentStatus"], "CLOSED");
    }
}

#[tokio::test]
async fn stream_is_not_found_for_non_participants() {
    let world = ZoneFixture::new().await;
    let alice = world.token("alice").await;
    let eve = world.token("eve").await;
    let started = world.call(&alice, "stream.start", json!(null)).await;
    let stream = &started["result"]["stream"];
    assert_eq!(stream["participants"], json!(["alice"]), "{started}");
    for id in [stream["streamId"].as_str().unwrap(), "no-such", ""] {
        for (method, params) in [
            (
                "stream.message",
                json!({"streamId": id, "message": user_message("x")}),
            ),
            (
                "stream.chunk",
                json!({"streamId": id, "chunk": user_message("x"), "sequence": 1}),
            ),
            ("stream.end", json!({"streamId": id})),
        ] {
            let code = world.call_error_code(&eve, method, params).await;
            assert_eq!(code, codes::STREAM_NOT_FOUND, "{method} {id}");
        }
    }
}

#[tokio::test]
async fn stream_message_returns_the_answer_as_a_chunk() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let started = world.result(&token, "stream.start", json!({})).await;
    let id = started["stream"]["streamId"].as_str().unwrap().to_owned();
    let message = json!({"streamId": id, "message": user_message("ping")});
    world.result(&token, "stream.message", message).await;
    let (run, turn) = world.claim_run().await;
    assert_eq!(turn.message.text(), "ping");
    run.complete(&turn, completed("pong")).await.unwrap();
    let channel = [STREAM_CHANNEL.to_owned()];
    let lease = Duration::from_secs(60);
    while let [entry] = &*world.hub.lease_entries(&channel, lease, 1).await.unwrap() {
        world.hub.deliver_to_stream(entry).await.unwrap();
        world.hub.mark_delivered(entry).await.unwrap();
    }
    world
        .result(&token, "stream.end", json!({"streamId": id}))
        .await;
    let path = format!("/streams/{id}/events");
    let watch = world.watch(&path, &token, None).await;
    let notifications = watch.collect_remaining().await;
    let chunks: Vec<String> = notifications
        .iter()
        .filter(|notification| notification.method == "stream.chunk")
        .map(|notification| {
            let chunk = &notification.params["chunk"];
            let text = chunk["parts"][0]["content"].as_str().unwrap();
            let role = chunk["role"].as_str().unwrap();
            format!(
                "{} {role} {text} {}",
                notification.params["sequence"], notification.params["isLast"]
            )
        })
        .collect();
    assert_eq!(chunks, ["1 user ping true", "2 agent pong true"]);
}
