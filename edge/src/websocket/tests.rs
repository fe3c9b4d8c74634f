//! Sockets whose peer never reads, or never completes a message, over a pipe of known size.

use super::*;
use crate::budget::{MemoryBudget, Shares};
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use std::convert::Infallible;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Capacity of the pipe in each direction.
const PIPE_BYTES: usize = 4 * 1024;
const STALL: Duration = Duration::from_secs(30);
const UPGRADE_REQUEST: &[u8] =
    b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Returns a socket and its peer.
async fn socket_pair() -> (WebSocket, DuplexStream) {
    socket_pair_with(HttpLimits::default(), ShareKey::Unattributed).await
}

async fn socket_pair_with(limits: HttpLimits, key: ShareKey) -> (WebSocket, DuplexStream) {
    let (mut peer, io) = duplex(PIPE_BYTES);
    let (sender, upgraded) = oneshot::channel();
    let sender = Mutex::new(Some(sender));
    let limits = HttpLimits {
        stall_timeout: STALL,
        ..limits
    };
    let answer = move |request: Request<Incoming>| {
        let (mut parts, _) = request.into_parts();
        let (response, upgrade) = accept_upgrade(&mut parts, &limits, key.clone()).unwrap();
        let sender = sender.lock().unwrap().take().unwrap();
        assert!(sender.send(upgrade).is_ok());
        async { Ok::<_, Infallible>(response) }
    };
    let connection = http1::Builder::new().serve_connection(TokioIo::new(io), service_fn(answer));
    tokio::spawn(connection.with_upgrades());
    peer.write_all(UPGRADE_REQUEST).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(peer.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "));
    let socket = upgraded.await.unwrap().into_socket().await.unwrap();
    (socket, peer)
}

/// Returns a client's frame header, with a mask of zeros.
pub(super) fn frame_header(kind: u8, is_last: bool, length: usize) -> Vec<u8> {
    let mut header = vec![if is_last { 0x80 | kind } else { kind }];
    match u8::try_from(length) {
        Ok(length) if length < 126 => header.push(0x80 | length),
        _ => {
            header.push(0x80 | 127);
            header.extend_from_slice(&u64::try_from(length).unwrap().to_be_bytes());
        }
    }
    header.extend_from_slice(&[0; 4]);
    header
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&frame_header(kind, true, payload.len()), payload].concat()
}

/// Sends a frame repeatedly, without reading, until the socket is closed.
fn flood(mut peer: DuplexStream, frame: Vec<u8>) {
    tokio::spawn(async move { while peer.write_all(&frame).await.is_ok() {} });
}

#[tokio::test(start_paused = true)]
async fn unread_pongs_stay_below_the_buffer_limit() {
    let (mut socket, peer) = socket_pair().await;
    let (mut reader, mut writer) = tokio::io::split(peer);
    let ping = frame(0x9, &[b'p'; 125]);
    let pings = 4 * MAX_UNSENT_BYTES / ping.len();
    let sending = tokio::spawn(async move {
        for _ in 0..pings {
            writer.write_all(&ping).await.unwrap();
        }
        writer
    });
    for _ in 0..pings {
        assert!(matches!(socket.recv().await, WsEvent::KeepAlive));
    }
    // Nothing more can be sent, and the socket is closed after the stall timeout.
    let started_at = Instant::now();
    assert_eq!(socket.ping().await, Err(WsClosed));
    assert_eq!(started_at.elapsed(), STALL);
    // Drain what was buffered.
    let reading = tokio::spawn(async move {
        let mut waiting = Vec::new();
        reader.read_to_end(&mut waiting).await.unwrap();
        waiting.len()
    });
    drop(sending.await.unwrap());
    let flushed = timeout(STALL, socket.recv()).await;
    assert!(flushed.is_err(), "nothing more comes");
    drop(socket);
    let waiting = reading.await.unwrap();
    assert!(waiting > MAX_UNSENT_BYTES - BUFFER_BYTES, "{waiting} bytes");
    // The pong of the newest ping is stored separately.
    assert!(
        waiting <= MAX_UNSENT_BYTES + PIPE_BYTES + 2 + 125,
        "{waiting} bytes"
    );
}

#[tokio::test(start_paused = true)]
async fn peer_that_never_reads_is_closed_after_stall_timeout() {
    let (mut socket, peer) = socket_pair().await;
    flood(peer, frame(0x1, b"call"));
    let response = Bytes::from(vec![b'a'; 100]);
    let (started_at, mut output) = (Instant::now(), 0);
    loop {
        match socket.recv().await {
            WsEvent::Text(text) => assert_eq!(text.as_bytes(), b"call"),
            _ => panic!("the call is lost"),
        }
        output += response.len();
        if let Err(WsClosed) = socket.send_text(response.clone()).await {
            break;
        }
        assert_eq!(
            started_at.elapsed(),
            Duration::ZERO,
            "only the last has to wait"
        );
    }
    assert_eq!(started_at.elapsed(), STALL);
    assert!(
        output <= PIPE_BYTES + 2 * response.len(),
        "{output} bytes of answers"
    );
}

const PAGE: usize = MemoryBudget::PAGE;

/// A principal's share of this is two pages.
fn limits_of_eight_pages() -> (HttpLimits, ShareKey) {
    let limits = HttpLimits {
        body_memory: MemoryBudget::with_shares(8 * PAGE, Shares::default()),
        ..HttpLimits::default()
    };
    (limits, ShareKey::Principal("one".into()))
}

#[tokio::test(start_paused = true)]
async fn partial_frames_beyond_the_share_are_rejected() {
    let (limits, key) = limits_of_eight_pages();
    let mut open = Vec::new();
    for _ in 0..2 {
        let (mut socket, mut peer) = socket_pair_with(limits.clone(), key.clone()).await;
        let start = [frame_header(0x1, true, 64_000), vec![b'a'; 10]].concat();
        peer.write_all(&start).await.unwrap();
        assert!(timeout(STALL, socket.recv()).await.is_err());
        open.push((socket, peer));
    }
    let (mut socket, mut peer) = socket_pair_with(limits.clone(), key.clone()).await;
    peer.write_all(&frame_header(0x1, true, 64_000))
        .await
        .unwrap();
    assert!(matches!(socket.recv().await, WsEvent::MemoryLimit));
    socket.close(1013, "busy").await.unwrap();
    let mut close = [0; 4];
    peer.read_exact(&mut close).await.unwrap();
    assert_eq!(close, [0x88, 6, 0x03, 0xf5]);
    assert!(
        matches!(socket.recv().await, WsEvent::MemoryLimit),
        "it stays so"
    );
    // Small messages are still received, and closed sockets release their memory.
    let (mut socket, mut peer) = socket_pair_with(limits.clone(), key.clone()).await;
    peer.write_all(&frame(0x1, b"call")).await.unwrap();
    assert!(matches!(socket.recv().await, WsEvent::Text(_)));
    drop(open);
    assert!(limits.body_memory.reserve(&key, 2 * PAGE).is_some());
}

#[tokio::test(start_paused = true)]
async fn partial_message_times_out_despite_pongs() {
    for kind in [0x1, 0x2] {
        let (limits, key) = limits_of_eight_pages();
        let time = limits.body_timeout;
        let (mut socket, mut peer) = socket_pair_with(limits.clone(), key.clone()).await;
        let started_at = Instant::now();
        let start = [frame_header(kind, false, 3000), vec![b'a'; 3000]].concat();
        peer.write_all(&start).await.unwrap();
        let (reader, mut writer) = tokio::io::split(peer);
        tokio::spawn(async move {
            let mut seconds = tokio::time::interval(Duration::from_secs(1));
            while writer.write_all(&frame(0xa, b"")).await.is_ok() {
                seconds.tick().await;
            }
        });
        let event = loop {
            match socket.recv().await {
                WsEvent::KeepAlive => {}
                event => break event,
            }
        };
        assert!(matches!(event, WsEvent::Timeout));
        assert_eq!(started_at.elapsed().as_secs(), time.as_secs());
        let reservation = limits.body_memory.reserve(&key, 6 * PAGE);
        assert!(
            reservation.is_some(),
            "its memory is released before the close"
        );
        drop(reader);
    }
}

#[tokio::test(start_paused = true)]
async fn idle_socket_reserves_nothing_after_a_large_message() {
    let (limits, key) = limits_of_eight_pages();
    let (mut socket, mut peer) = socket_pair_with(limits.clone(), key.clone()).await;
    let sending = tokio::spawn(async move {
        for _ in 0..3 {
            let large = frame(0x1, &vec![b'a'; 5 * PAGE]);
            let parts = [frame_header(0x1, false, 70_000), vec![b'b'; 70_000]].concat();
            let last = [frame(0x9, b"ping"), frame(0x0, b"end")].concat();
            let sent = [large, frame(0x1, b"next"), parts, last, frame(0x1, b"more")];
            peer.write_all(&sent.concat()).await.unwrap();
        }
        peer
    });
    for _ in 0..3 {
        for length in [5 * PAGE, 4, 70_003, 4] {
            let text = loop {
                match socket.recv().await {
                    WsEvent::Text(text) => break text,
                    WsEvent::KeepAlive => {}
                    _ => panic!("a message is lost"),
                }
            };
            assert_eq!(text.as_bytes().len(), length);
            let others = limits.body_memory.reserve(&key, 6 * PAGE);
            assert!(others.is_none() || length < PAGE, "{length} bytes");
        }
    }
    let _peer = sending.await.unwrap();
    assert!(timeout(STALL, socket.recv()).await.is_err());
    let inner = socket.inner.as_mut().unwrap();
    assert!(!inner.get_mut().meter().buffer_is_replaceable());
    assert!(limits.body_memory.reserve(&key, 6 * PAGE).is_some());
}
