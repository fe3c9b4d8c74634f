//! Clients that flood with frames that request nothing.

use crate::fixture::ListenerSetup;
use crate::h2_frames::{
    DATA, END_STREAM, Frame, HEADERS, PING, PRIORITY, RST_STREAM, SETTINGS, connect,
};
use axum::Router;
use axum::routing::{get, post};

/// More control frames than a connection may send without a request.
const FLOOD_FRAMES: usize = 5_000;

fn app() -> Router {
    Router::new()
        .route("/", get(|| async { "here" }))
        // Waits for a body that does not end.
        .route("/upload", post(|body: String| async move { body }))
}

#[tokio::test]
async fn control_frame_flood_closes_connection() {
    let server = ListenerSetup::new(app()).start().await;
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
        let (reader, mut writer) = connect(&server, 65_535).await;
        writer.send(&Frame::post(1, "/upload")).await;
        let reading = tokio::spawn(reader.read_to_close());
        let flood = frame.bytes().repeat(FLOOD_FRAMES);
        // It may be closed during the send.
        let _ = writer.send_bytes(&flood).await;
        reading
            .await
            .unwrap_or_else(|_| panic!("{name} did not end the connection"));
    }
    assert!(server.metrics.encode().contains("frame_flood"));
    server.shut_down().await;
}

#[tokio::test]
async fn rapid_reset_closes_connection() {
    let server = ListenerSetup::new(app()).start().await;
    let (mut reader, mut writer) = connect(&server, 65_535).await;
    let reading = tokio::spawn(async move {
        while let Some(frame) = reader.next().await {
            assert_ne!(frame.kind, HEADERS, "no request is answered");
        }
    });
    for stream in 0..5_000 {
        let stream = 2 * stream + 1;
        let mut pair = Frame::post(stream, "/upload").bytes();
        pair.extend(Frame::new(RST_STREAM, 0, stream, &[0, 0, 0, 8]).bytes());
        // Each pair is sent separately, so that the request is accepted before it is reset.
        if writer.send_bytes(&pair).await.is_err() {
            break;
        }
        tokio::task::yield_now().await;
    }
    reading.await.expect("the connection is closed");
    server.shut_down().await;
}

#[tokio::test]
async fn window_update_per_response_is_not_a_flood() {
    let server = ListenerSetup::new(app()).start().await;
    let (mut reader, mut writer) = connect(&server, 65_535).await;
    let mut frames = Vec::new();
    for request in 0..3_000 {
        let stream = 2 * request + 1;
        frames.extend(Frame::new(PRIORITY, 0, stream, &[0, 0, 0, 0, 1]).bytes());
        frames.extend(Frame::get(stream, "/").bytes());
        writer.send_bytes(&frames).await.unwrap();
        let answer = reader.read_until(DATA).await;
        assert_eq!((answer.stream, answer.flags), (stream, END_STREAM));
        frames = Frame::window_update(0, 4).bytes();
        frames.extend(Frame::window_update(stream, 4).bytes());
    }
    assert!(!server.metrics.encode().contains("frame_flood"));
    drop((reader, writer));
    server.shut_down().await;
}
