//! HTTP/2 clients that send requests but do not open their windows for the responses.

use crate::fixture::{ListenerFixture, ListenerSetup};
use crate::h2_frames::{DATA, Frame, FrameReader, HEADERS, RST_STREAM, connect};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use futures_util::stream;
use interzone_edge::body::reserve_response;
use interzone_edge::budget::{MemoryBudget, ShareKey};
use interzone_edge::limits::HttpLimits;
use std::convert::Infallible;
use std::time::Duration;

const STALL_TIMEOUT: Duration = Duration::from_millis(400);
const LARGE_BODY_BYTES: usize = 256 * 1024;

/// App with large responses that reserve memory of `answers`, small ones, and a stream that pauses.
fn app(answers: MemoryBudget) -> Router {
    let large = move || {
        let limits = HttpLimits {
            response_memory: answers.clone(),
            ..HttpLimits::default()
        };
        async move {
            reserve_response(
                vec![b'x'; LARGE_BODY_BYTES],
                0,
                &limits,
                &ShareKey::Unattributed,
                &mut None,
            )
            .unwrap_or_else(|_| Bytes::from_static(b"full"))
        }
    };
    let pieces = || async {
        let piece = Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 16 * 1024]));
        Body::from_stream(stream::iter(vec![piece; 16]))
    };
    let quiet = || async {
        let first = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"first"))]);
        Body::from_stream(futures_util::StreamExt::chain(first, stream::pending()))
    };
    Router::new()
        .route("/large", get(large))
        .route("/pieces", get(pieces))
        .route("/small", get(|| async { "here" }))
        .route("/quiet", get(quiet))
}

async fn start_server() -> ListenerFixture {
    start_server_with(STALL_TIMEOUT).await
}

async fn start_server_with(stall_timeout: Duration) -> ListenerFixture {
    let answers = MemoryBudget::new(4 * LARGE_BODY_BYTES);
    ListenerSetup::new(app(answers.clone()))
        .with_limits(|limits| {
            limits.stall_timeout = stall_timeout;
            limits.idle_timeout = STALL_TIMEOUT;
            // The raw client does not answer the ping that a graceful end waits for; this limits the wait.
            limits.header_timeout = 8 * STALL_TIMEOUT;
            limits.response_memory = answers;
        })
        .start()
        .await
}

/// Reads until this many streams were reset; returns the number of data bytes before.
async fn read_until_reset(reader: &mut FrameReader, mut streams: usize) -> usize {
    let mut data = 0;
    while streams > 0 {
        let frame = reader.next().await.expect("the connection is open");
        match frame.kind {
            RST_STREAM => streams -= 1,
            DATA => data += frame.payload.len(),
            _ => {}
        }
    }
    data
}

#[tokio::test]
async fn streams_with_closed_window_are_reset() {
    let server = start_server().await;
    for path in ["/large", "/pieces", "/small", "/quiet"] {
        let (mut reader, mut writer) = connect(&server, 0).await;
        for stream in 0..20 {
            writer.send(&Frame::get(2 * stream + 1, path)).await;
        }
        assert_eq!(read_until_reset(&mut reader, 20).await, 0, "{path}");
        if path == "/quiet" {
            // With no response left to send it is idle.
            reader.read_to_close().await;
        }
    }
    server
        .wait_for_metric("interzone_client_terminations_total{reason=\"stream_stalled\"} 80")
        .await;
    server.wait_for_metric("interzone_connections 0").await;
    server.shut_down().await;
}

#[tokio::test]
async fn unread_responses_release_their_memory() {
    // Long enough for another client to find the memory full.
    let server = start_server_with(5 * STALL_TIMEOUT).await;
    let client = server.client().build().unwrap();
    let ask = async |path| {
        let answer = client.get(server.url(path)).send().await.unwrap();
        answer.bytes().await.unwrap()
    };
    assert_eq!(ask("/small").await, "here");
    // The window takes the first bytes, so that the remainder waits in the HTTP library.
    let (mut reader, mut writer) = connect(&server, 1_000).await;
    for stream in 0..4 {
        writer.send(&Frame::get(2 * stream + 1, "/large")).await;
    }
    // All four are answered, and no memory is left.
    for _ in 0..4 {
        reader.read_until(HEADERS).await;
    }
    assert_eq!(ask("/large").await, "full");
    let data = read_until_reset(&mut reader, 4).await;
    assert!(data <= 4_000, "{data}");
    crate::fixture::within_timeout("memory", async {
        while ask("/large").await == "full" {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop((reader, writer));
    server.shut_down().await;
}

#[tokio::test]
async fn slow_window_updates_do_not_keep_stream_open() {
    let server = start_server().await;
    for path in ["/large", "/pieces"] {
        let (mut reader, mut writer) = connect(&server, 1).await;
        writer.send(&Frame::get(1, path)).await;
        let mut read = 0;
        loop {
            let frame = reader.next().await.expect("the connection is open");
            match frame.kind {
                RST_STREAM => break,
                DATA => {
                    read += frame.payload.len();
                    if read < 200 {
                        writer.send(&Frame::window_update(1, 1)).await;
                    }
                }
                _ => {}
            }
        }
        assert!(0 < read && read <= 200, "{path}: {read}");
    }
    server.shut_down().await;
}

#[tokio::test]
async fn queued_small_response_ends_with_its_connection() {
    let server = start_server().await;
    let (mut reader, mut writer) = connect(&server, 1).await;
    writer.send(&Frame::get(1, "/small")).await;
    writer.send(&Frame::get(3, "/quiet")).await;
    // The one byte is sent, and the complete response enters the queue.
    reader.read_until(DATA).await;
    reader.read_to_close().await;
    server
        .wait_for_metric("interzone_client_terminations_total{reason=\"connection_stalled\"} 1")
        .await;
    server.shut_down().await;
}

#[tokio::test]
async fn reading_client_is_served_and_idle_stream_stays() {
    // Long enough for a busy machine.
    let server = start_server_with(5 * STALL_TIMEOUT).await;
    let (mut reader, mut writer) = connect(&server, 16 * 1024).await;
    writer.send(&Frame::get(1, "/quiet")).await;
    assert_eq!(reader.read_until(DATA).await.payload, b"first");
    // The connection has its own window, of 64 KiB.
    writer.send(&Frame::window_update(0, 10_000_000)).await;
    for (stream, path) in [(3, "/large"), (5, "/pieces")] {
        writer.send(&Frame::get(stream, path)).await;
        let mut read = 0;
        loop {
            let frame = reader.read_until(DATA).await;
            assert_eq!(frame.stream, stream);
            let length = u32::try_from(frame.payload.len()).unwrap();
            read += frame.payload.len();
            if frame.flags & crate::h2_frames::END_STREAM != 0 {
                break;
            }
            writer
                .send(&Frame::window_update(stream, length.max(1)))
                .await;
        }
        assert_eq!(read, LARGE_BODY_BYTES, "{path}");
    }
    // Other clients stall and are reset by the same limits, twice, while the idle stream stays.
    for _ in 0..2 {
        let (mut other, mut stalls) = connect(&server, 0).await;
        stalls.send(&Frame::get(1, "/large")).await;
        read_until_reset(&mut other, 1).await;
    }
    server.wait_for_metric("interzone_connections 1").await;
    writer.send(&Frame::get(7, "/small")).await;
    assert_eq!(reader.read_until(DATA).await.payload, b"here");
    drop((reader, writer));
    server.shut_down().await;
}

#[tokio::test]
async fn unread_responses_over_limit_close_connection() {
    let never = Duration::from_secs(3_600);
    let server = ListenerSetup::new(app(MemoryBudget::default()))
        .with_limits(|limits| {
            (
                limits.stall_timeout,
                limits.idle_timeout,
                limits.header_timeout,
            ) = (never, never, never);
            limits.unread_response_bytes = 64 * 1024;
            limits.shares.address = 1;
        })
        .start()
        .await;
    // Each response counts a little more than its bytes.
    let (mut modest, mut asks) = connect(&server, 0).await;
    for stream in 0..5 {
        asks.send(&Frame::get(2 * stream + 1, "/small")).await;
    }
    let (greedy, mut floods) = connect(&server, 0).await;
    for stream in 0..20 {
        floods.send(&Frame::get(2 * stream + 1, "/small")).await;
    }
    greedy.read_to_close().await;
    server
        .wait_for_metric("interzone_client_terminations_total{reason=\"connection_stalled\"} 1")
        .await;
    asks.send(&Frame::window_update(1, 100)).await;
    assert_eq!(modest.read_until(DATA).await.payload, b"here");
    drop((modest, asks, floods));
    server.shut_down().await;
}
