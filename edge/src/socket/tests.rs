//! Sockets whose peer sends and never reads, over a pipe that holds a known number of bytes.

use super::*;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use std::convert::Infallible;
use std::sync::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// What the pipe holds in each direction.
const PIPE: usize = 4 * 1024;
const STALL: Duration = Duration::from_secs(30);
const ASK: &[u8] =
    b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
    sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A socket and its peer.
async fn pair() -> (Socket, DuplexStream) {
    let (mut peer, io) = duplex(PIPE);
    let (sender, upgraded) = oneshot::channel();
    let sender = Mutex::new(Some(sender));
    let limits = HttpLimits {
        stall: STALL,
        ..HttpLimits::default()
    };
    let answer = move |request: Request<Incoming>| {
        let (mut parts, _) = request.into_parts();
        let (response, upgrade) = upgrade(&mut parts, &limits, ShareKey::Unattributed).unwrap();
        let sender = sender.lock().unwrap().take().unwrap();
        assert!(sender.send(upgrade).is_ok());
        async { Ok::<_, Infallible>(response) }
    };
    let connection = http1::Builder::new().serve_connection(TokioIo::new(io), service_fn(answer));
    tokio::spawn(connection.with_upgrades());
    peer.write_all(ASK).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(peer.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 101 "));
    let socket = upgraded.await.unwrap().socket().await.unwrap();
    (socket, peer)
}

/// A frame as a client sends it, with a mask that changes nothing.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    assert!(length < 126);
    let mut frame = vec![0x80 | kind, 0x80 | length, 0, 0, 0, 0];
    frame.extend_from_slice(payload);
    frame
}

/// Sends a frame again and again, and reads nothing, until the socket is closed.
fn flood(mut peer: DuplexStream, frame: Vec<u8>) {
    tokio::spawn(async move { while peer.write_all(&frame).await.is_ok() {} });
}

#[tokio::test(start_paused = true)]
async fn unread_answers_to_pings_stay_below_the_cap() {
    let (mut socket, peer) = pair().await;
    let (mut reader, mut writer) = tokio::io::split(peer);
    let ping = frame(0x9, &[b'p'; 125]);
    let pings = 4 * UNSENT / ping.len();
    let sending = tokio::spawn(async move {
        for _ in 0..pings {
            writer.write_all(&ping).await.unwrap();
        }
        writer
    });
    for _ in 0..pings {
        assert!(matches!(socket.recv().await, Heard::Sign));
    }
    // Nothing more can be sent, and after the stall time the socket is given up.
    let began = Instant::now();
    assert_eq!(socket.ping().await, Err(Gone));
    assert_eq!(began.elapsed(), STALL);
    // This is what had been waiting.
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
    assert!(waiting > UNSENT - BUFFER, "{waiting} bytes");
    // The answer to the newest ping was kept apart.
    assert!(waiting <= UNSENT + PIPE + 2 + 125, "{waiting} bytes");
}

#[tokio::test(start_paused = true)]
async fn socket_of_a_peer_that_calls_and_never_reads_ends_after_the_stall_time() {
    let (mut socket, peer) = pair().await;
    flood(peer, frame(0x1, b"call"));
    let answer = Bytes::from(vec![b'a'; 100]);
    let (began, mut output) = (Instant::now(), 0);
    loop {
        match socket.recv().await {
            Heard::Text(text) => assert_eq!(text.as_bytes(), b"call"),
            Heard::Binary | Heard::Sign | Heard::NoRoom | Heard::End => panic!("the call is lost"),
        }
        output += answer.len();
        if let Err(Gone) = socket.say(answer.clone()).await {
            break;
        }
        assert_eq!(began.elapsed(), Duration::ZERO, "only the last has to wait");
    }
    assert_eq!(began.elapsed(), STALL);
    assert!(
        output <= PIPE + 2 * answer.len(),
        "{output} bytes of answers"
    );
}
