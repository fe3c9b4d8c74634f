//! Clients that flood with frames that request nothing.

use crate::fixture::{ListenerSetup, within_timeout};
use crate::h2_frames::{
    DATA, END_STREAM, Frame, HEADERS, PING, PRIORITY, RST_STREAM, SETTINGS, connect,
};
use axum::Router;
use axum::routing::{get, post};
use http::Version;
use interzone_edge::budget::Shares;
use interzone_edge::limits::HttpLimits;

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

#[tokio::test]
async fn unread_streams_without_authentication_close_their_connections() {
    const STREAMS: u32 = 64;
    let limits = |limits: &mut HttpLimits| {
        limits.partial_head_bytes = 256 * 1024;
        limits.shares = Shares::FULL;
    };
    let server = ListenerSetup::new(app()).with_limits(limits).start().await;
    let (mut few, mut few_writer) = connect(&server, 0).await;
    few_writer.send(&Frame::get(1, "/")).await;
    few.read_until(HEADERS).await;
    // Only so many of these fit: 56 of the streams of each are counted, with 2 KiB.
    let mut open = Vec::new();
    for _ in 0..8 {
        let (reader, mut writer) = connect(&server, 0).await;
        let burst: Vec<u8> = (0..STREAMS)
            .flat_map(|number| Frame::get(2 * number + 1, "/").bytes())
            .collect();
        // It may be closed during the send.
        let _ = writer.send_bytes(&burst).await;
        open.push((reader, writer));
    }
    // One whose burst arrives while others are being closed is closed too.
    let is_open = |open: usize| {
        let line = format!("interzone_connections {open}");
        server.metrics.encode().lines().any(|one| one == line)
    };
    within_timeout("connections to close", async {
        while !(1..=3).any(is_open) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    few_writer.send(&Frame::get(3, "/")).await;
    few.read_until(HEADERS).await;
    drop((few, few_writer, open));
    server.shut_down().await;
}

#[tokio::test]
async fn request_with_too_many_headers_gets_431() {
    let server = ListenerSetup::new(app()).start().await;
    let client = server.client().build().unwrap();
    for (headers, expected) in [(80, 200), (101, 431)] {
        let request = (0..headers).fold(client.get(server.url("/")), |request, number| {
            request.header(format!("x-{number}"), "1")
        });
        let answer = request.send().await.unwrap();
        assert_eq!(
            (answer.version(), answer.status().as_u16()),
            (Version::HTTP_2, expected)
        );
    }
    server.shut_down().await;
}
