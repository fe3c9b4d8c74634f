//! Callers who send frames that ask for nothing.

use crate::frames::{
    DATA, END_STREAM, Frame, HEADERS, PING, PRIORITY, RST_STREAM, SETTINGS, connect,
};
use crate::house::Plan;
use axum::Router;
use axum::routing::{get, post};

/// More than any connection may send for nothing.
const MANY: usize = 5_000;

fn app() -> Router {
    Router::new()
        .route("/", get(|| async { "here" }))
        // It waits for a body that does not end.
        .route("/upload", post(|body: String| async move { body }))
}

#[tokio::test]
async fn connection_that_floods_with_control_frames_is_closed() {
    let house = Plan::new(app()).build().await;
    let floods = [
        ("PRIORITY", Frame::new(PRIORITY, 0, 3, &[0, 0, 0, 0, 1])),
        ("WINDOW_UPDATE", Frame::window_update(0, 1)),
        ("WINDOW_UPDATE of a stream", Frame::window_update(1, 1)),
        ("PING", Frame::new(PING, 0, 0, &[0; 8])),
        ("SETTINGS", Frame::new(SETTINGS, 0, 0, &[])),
        ("empty DATA", Frame::new(DATA, 0, 1, &[])),
        ("an unknown type", Frame::new(0xee, 0, 0, b"x")),
    ];
    for (name, frame) in &floods {
        let (reader, mut writer) = connect(&house, 65_535).await;
        writer.send(&Frame::post(1, "/upload")).await;
        let reading = tokio::spawn(reader.close());
        let flood = frame.bytes().repeat(MANY);
        // It may be closed while it is still sending.
        let _ = writer.send_bytes(&flood).await;
        reading
            .await
            .unwrap_or_else(|_| panic!("{name} did not end the connection"));
    }
    assert!(house.metrics.encode().contains("frame_flood"));
    house.end().await;
}

#[tokio::test]
async fn connection_that_opens_and_resets_streams_for_ever_is_closed() {
    let house = Plan::new(app()).build().await;
    let (mut reader, mut writer) = connect(&house, 65_535).await;
    let reading = tokio::spawn(async move {
        while let Some(frame) = reader.next().await {
            assert_ne!(frame.kind, HEADERS, "none of them is answered");
        }
    });
    for stream in 0..5_000 {
        let stream = 2 * stream + 1;
        let mut pair = Frame::post(stream, "/upload").bytes();
        pair.extend(Frame::new(RST_STREAM, 0, stream, &[0, 0, 0, 8]).bytes());
        // Each pair by itself, so that the request is accepted before it is reset.
        if writer.send_bytes(&pair).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    reading.await.expect("the connection is closed");
    house.end().await;
}

#[tokio::test]
async fn client_that_opens_its_windows_for_each_answer_is_served() {
    let house = Plan::new(app()).build().await;
    let (mut reader, mut writer) = connect(&house, 65_535).await;
    let mut frames = Vec::new();
    for request in 0..3_000 {
        let stream = 2 * request + 1;
        frames.extend(Frame::new(PRIORITY, 0, stream, &[0, 0, 0, 0, 1]).bytes());
        frames.extend(Frame::get(stream, "/").bytes());
        writer.send_bytes(&frames).await.unwrap();
        let answer = reader.until(DATA).await;
        assert_eq!((answer.stream, answer.flags), (stream, END_STREAM));
        frames = Frame::window_update(0, 4).bytes();
        frames.extend(Frame::window_update(stream, 4).bytes());
    }
    assert!(!house.metrics.encode().contains("frame_flood"));
    drop((reader, writer));
    house.end().await;
}
