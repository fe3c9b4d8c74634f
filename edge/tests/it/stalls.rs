//! Callers of HTTP/2 who ask, and do not open their windows for the answer.

use crate::frames::{DATA, Frame, FrameReader, HEADERS, RST_STREAM, connect};
use crate::house::{House, Plan};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use futures_util::stream;
use interzone_edge::body::hold;
use interzone_edge::budget::{MemoryBudget, ShareKey};
use interzone_edge::limits::HttpLimits;
use std::convert::Infallible;
use std::time::Duration;

const SHORT: Duration = Duration::from_millis(400);
const LARGE: usize = 256 * 1024;

/// Large answers that take their part of `answers`, small ones, and one that says something now and then.
fn app(answers: MemoryBudget) -> Router {
    let large = move || {
        let limits = HttpLimits {
            answers: answers.clone(),
            ..HttpLimits::default()
        };
        async move {
            hold(vec![b'x'; LARGE], 0, &limits, &ShareKey::Unattributed)
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

async fn house() -> House {
    house_with(SHORT).await
}

async fn house_with(stall: Duration) -> House {
    let answers = MemoryBudget::new(4 * LARGE);
    Plan::new(app(answers.clone()))
        .limits(|limits| {
            limits.stall = stall;
            limits.idle = SHORT;
            // Our frames do not answer the ping that a graceful end waits for; this cuts it short.
            limits.header_time = 8 * SHORT;
            limits.answers = answers;
        })
        .build()
        .await
}

/// Reads until so many streams were reset, and gives the bytes of data that came before.
async fn until_reset(reader: &mut FrameReader, mut streams: usize) -> usize {
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
async fn streams_with_a_closed_window_are_reset_and_their_connection_goes() {
    let house = house().await;
    for path in ["/large", "/pieces", "/small", "/quiet"] {
        let (mut reader, mut writer) = connect(&house, 0).await;
        for stream in 0..20 {
            writer.send(&Frame::get(2 * stream + 1, path)).await;
        }
        assert_eq!(until_reset(&mut reader, 20).await, 0, "{path}");
        if path == "/quiet" {
            // With nothing left to send it is idle.
            reader.close().await;
        }
    }
    house
        .until("interzone_cut_off_total{reason=\"stream_stalled\"} 80")
        .await;
    house.until("interzone_connections 0").await;
    house.end().await;
}

#[tokio::test]
async fn answers_that_are_not_read_give_their_memory_back() {
    // Long enough for another caller to find the memory full.
    let house = house_with(5 * SHORT).await;
    let client = house.client().build().unwrap();
    let ask = async |path| {
        let answer = client.get(house.url(path)).send().await.unwrap();
        answer.bytes().await.unwrap()
    };
    assert_eq!(ask("/small").await, "here");
    // The window takes the first bytes, so that the rest waits in the HTTP library.
    let (mut reader, mut writer) = connect(&house, 1_000).await;
    for stream in 0..4 {
        writer.send(&Frame::get(2 * stream + 1, "/large")).await;
    }
    // All four are answered, and nothing is left.
    for _ in 0..4 {
        reader.until(HEADERS).await;
    }
    assert_eq!(ask("/large").await, "full");
    let data = until_reset(&mut reader, 4).await;
    assert!(data <= 4_000, "{data}");
    crate::house::soon("memory", async {
        while ask("/large").await == "full" {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop((reader, writer));
    house.end().await;
}

#[tokio::test]
async fn few_bytes_do_not_keep_a_stream_open() {
    let house = house().await;
    for path in ["/large", "/pieces"] {
        let (mut reader, mut writer) = connect(&house, 1).await;
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
    house.end().await;
}

#[tokio::test]
async fn small_answer_whose_end_is_queued_ends_with_its_connection() {
    let house = house().await;
    let (mut reader, mut writer) = connect(&house, 1).await;
    writer.send(&Frame::get(1, "/small")).await;
    writer.send(&Frame::get(3, "/quiet")).await;
    // The one byte goes out, and with it the whole answer into the queue.
    reader.until(DATA).await;
    reader.close().await;
    house
        .until("interzone_cut_off_total{reason=\"connection_stalled\"} 1")
        .await;
    house.end().await;
}

#[tokio::test]
async fn reader_that_reads_gets_all_of_it_and_a_quiet_stream_stays() {
    // Long enough for a machine that is busy elsewhere.
    let house = house_with(5 * SHORT).await;
    let (mut reader, mut writer) = connect(&house, 16 * 1024).await;
    writer.send(&Frame::get(1, "/quiet")).await;
    assert_eq!(reader.until(DATA).await.payload, b"first");
    // The connection has its own window, of 64 KiB.
    writer.send(&Frame::window_update(0, 10_000_000)).await;
    for (stream, path) in [(3, "/large"), (5, "/pieces")] {
        writer.send(&Frame::get(stream, path)).await;
        let mut read = 0;
        loop {
            let frame = reader.until(DATA).await;
            assert_eq!(frame.stream, stream);
            let length = u32::try_from(frame.payload.len()).unwrap();
            read += frame.payload.len();
            if frame.flags & crate::frames::END_STREAM != 0 {
                break;
            }
            writer
                .send(&Frame::window_update(stream, length.max(1)))
                .await;
        }
        assert_eq!(read, LARGE, "{path}");
    }
    // Others stall and are reset by the same limits, twice, while the quiet one stays.
    for _ in 0..2 {
        let (mut other, mut stalls) = connect(&house, 0).await;
        stalls.send(&Frame::get(1, "/large")).await;
        until_reset(&mut other, 1).await;
    }
    house.until("interzone_connections 1").await;
    writer.send(&Frame::get(7, "/small")).await;
    assert_eq!(reader.until(DATA).await.payload, b"here");
    drop((reader, writer));
    house.end().await;
}

#[tokio::test]
async fn connection_with_too_many_small_unread_answers_is_cut_before_they_stall() {
    let never = Duration::from_secs(3_600);
    let house = Plan::new(app(MemoryBudget::default()))
        .limits(|limits| {
            (limits.stall, limits.idle, limits.header_time) = (never, never, never);
            limits.unread = 64 * 1024;
            limits.shares.address = 1;
        })
        .build()
        .await;
    // Each answer counts for a little more than its bytes.
    let (mut modest, mut asks) = connect(&house, 0).await;
    for stream in 0..5 {
        asks.send(&Frame::get(2 * stream + 1, "/small")).await;
    }
    let (greedy, mut floods) = connect(&house, 0).await;
    for stream in 0..20 {
        floods.send(&Frame::get(2 * stream + 1, "/small")).await;
    }
    greedy.close().await;
    house
        .until("interzone_cut_off_total{reason=\"connection_stalled\"} 1")
        .await;
    asks.send(&Frame::window_update(1, 100)).await;
    assert_eq!(modest.until(DATA).await.payload, b"here");
    drop((modest, asks, floods));
    house.end().await;
}
