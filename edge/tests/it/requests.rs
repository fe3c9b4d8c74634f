//! Request limits: concurrency, body size, timeouts, and upgrades.

use crate::fixture::{ListenerSetup, TlsClientOptions, send_get, within_timeout};
use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use http::StatusCode;
use hyper_util::rt::TokioIo;
use interzone_edge::body;
use interzone_edge::budget::ShareKey;
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::RejectReason;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::client::TlsStream;

/// App with `/wait`, which signals `started` and then waits for `release`.
fn app(started: &Arc<Notify>, release: &Arc<Notify>) -> Router {
    let (started, release) = (Arc::clone(started), Arc::clone(release));
    Router::new()
        .route("/", get(|| async { "here" }))
        .route(
            "/wait",
            get(move || async move {
                started.notify_one();
                release.notified().await;
                "waited"
            }),
        )
        .route("/echo", get(echo))
}

async fn echo(request: Request) -> impl IntoResponse {
    tokio::spawn(async move {
        let upgraded = hyper::upgrade::on(request).await.unwrap();
        let mut socket = TokioIo::new(upgraded);
        let mut piece = [0; 64];
        while let Ok(read @ 1..) = socket.read(&mut piece).await {
            if socket.write_all(&piece[..read]).await.is_err() {
                break;
            }
            let _ = socket.flush().await;
        }
    });
    (
        StatusCode::SWITCHING_PROTOCOLS,
        [("connection", "upgrade"), ("upgrade", "echo")],
    )
}

#[tokio::test]
async fn requests_over_limit_get_503() {
    let (started, release) = (Arc::default(), Arc::default());
    let server = ListenerSetup::new(app(&started, &release))
        .with_limits(|limits| limits.requests = 1)
        .start()
        .await;
    let client = server.client().build().unwrap();
    let first = tokio::spawn(client.get(server.url("/wait")).send());
    within_timeout("the start of the first request", started.notified()).await;

    let second = client
        .get(server.url("/"))
        .header("x-correlation-id", "abc");
    let second = second.send().await.unwrap();
    assert_eq!(second.status(), 503);
    assert_eq!(second.headers()["retry-after"], "1");
    assert_eq!(second.headers()["x-correlation-id"], "abc");
    assert!(second.text().await.unwrap().contains("try again"));

    release.notify_one();
    let first = within_timeout("the first response", first)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(first.text().await.unwrap(), "waited");
    let third = client.get(server.url("/")).send().await.unwrap();
    assert_eq!(third.status(), 200);
    server
        .wait_for_metric("interzone_requests_rejected_total{reason=\"busy\"} 1")
        .await;
    server.shut_down().await;
}

/// App whose `/` accepts up to `max_bytes` and returns the number of bytes received.
fn upload_app(max_bytes: usize) -> Router {
    let read_upload = async move |request: Request| {
        let limits = HttpLimits {
            body_bytes: max_bytes,
            ..HttpLimits::default()
        };
        let (parts, body) = request.into_parts();
        match body::read_body(body, &parts.headers, &limits, ShareKey::Unattributed).await {
            Ok(bytes) => (StatusCode::OK, bytes.len().to_string()),
            Err(error) => (StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
        }
    };
    Router::new().route("/", post(read_upload))
}

#[tokio::test]
async fn oversized_body_gets_413_over_http1_and_http2() {
    const MAX_BODY_BYTES: usize = 4 << 20;
    let server = ListenerSetup::new(upload_app(MAX_BODY_BYTES)).start().await;
    for client in [server.client(), server.client().http1_only()] {
        let client = client.build().unwrap();
        for has_length in [true, false] {
            for (bytes, status) in [
                (MAX_BODY_BYTES, 200),
                (MAX_BODY_BYTES + 1, 413),
                (MAX_BODY_BYTES * 2 - 1, 413),
            ] {
                let mut pieces = vec![std::io::Result::Ok(vec![b'x'; bytes % 8])];
                pieces.extend((0..8).map(|_| Ok(vec![b'x'; bytes / 8])));
                let body = match has_length {
                    true => reqwest::Body::from(vec![b'x'; bytes]),
                    false => reqwest::Body::wrap_stream(futures_util::stream::iter(pieces)),
                };
                let sent = client.post(server.url("/")).body(body).send();
                let answer = within_timeout("an answer", sent).await;
                let answer = answer
                    .unwrap_or_else(|e| panic!("with a length {has_length}, {bytes} bytes: {e:?}"));
                let version = answer.version();
                assert_eq!(answer.status(), status, "{version:?} {bytes}");
                // The next request must not use a connection that is about to close.
                let closes = answer.headers().contains_key(http::header::CONNECTION);
                let is_http1 = version < http::Version::HTTP_2;
                assert_eq!(closes, is_http1 && status == 413, "{version:?} {bytes}");
                let text = within_timeout("the body", answer.text()).await;
                let text = text.unwrap_or_else(|e| panic!("{version:?} {bytes}: {e:?}"));
                assert!(status == 200 || text.contains("larger than"), "{text}");
            }
        }
    }
    server.shut_down().await;
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

/// Encodes an HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [
        length[1], length[2], length[3], kind, flags, 0, 0, 0, stream,
    ];
    [&head, payload].concat()
}

/// Reads the next frame: its type, its stream and its payload.
async fn read_frame(stream: &mut TlsStream<TcpStream>) -> (u8, u8, Vec<u8>) {
    let mut head = [0; 9];
    within_timeout("a frame", stream.read_exact(&mut head))
        .await
        .unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    let read = within_timeout("the payload", stream.read_exact(&mut payload)).await;
    read.unwrap();
    (head[3], head[8], payload)
}

/// Some clients treat a stream that is closed during their upload as a failure: it must stay open until they
/// have sent everything.
#[tokio::test]
async fn rejected_upload_stream_stays_open_until_sent() {
    const MAX_BODY_BYTES: usize = 1 << 20;
    const CHUNK_BYTES: usize = 16 * 1024;
    let server = ListenerSetup::new(upload_app(MAX_BODY_BYTES)).start().await;
    let caller = TlsClientOptions {
        alpn: b"h2",
        ..TlsClientOptions::default()
    };
    let mut stream = server.connect_as(&caller).await.unwrap();
    let mut preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    preface.extend(frame(SETTINGS, 0, 0, b""));
    // POST, https, /, and its authority.
    let headers = [b"\x83\x87\x84\x41\x09".as_slice(), b"localhost"].concat();
    preface.extend(frame(HEADERS, 4, 1, &headers));
    stream.write_all(&preface).await.unwrap();

    // Sends as much as the flow-control windows allow and continues after the response.
    let (mut windows, mut unsent) = ([65_535_usize; 2], 2 * MAX_BODY_BYTES - CHUNK_BYTES);
    let mut has_response = false;
    while unsent > 0 {
        while unsent > 0 && windows.iter().all(|window| *window >= CHUNK_BYTES) {
            unsent -= CHUNK_BYTES;
            windows = windows.map(|window| window - CHUNK_BYTES);
            let last = u8::from(unsent == 0);
            let piece = frame(DATA, last, 1, &[b'x'; CHUNK_BYTES]);
            stream.write_all(&piece).await.unwrap();
        }
        if unsent == 0 {
            break;
        }
        let (kind, stream_id, payload) = read_frame(&mut stream).await;
        match kind {
            WINDOW_UPDATE => {
                let more = u32::from_be_bytes(payload.try_into().unwrap());
                windows[usize::from(stream_id)] += usize::try_from(more).unwrap();
            }
            // The server's own settings are not empty; an empty frame acknowledges ours.
            SETTINGS if !payload.is_empty() => {
                let ack = frame(SETTINGS, 1, 0, b"");
                stream.write_all(&ack).await.unwrap();
                for setting in payload.chunks(6).filter(|setting| setting[1] == 4) {
                    let window = u32::from_be_bytes(setting[2..].try_into().unwrap());
                    windows[1] += usize::try_from(window).unwrap() - 65_535;
                }
            }
            HEADERS => has_response = true,
            RST_STREAM => panic!("closed with {unsent} bytes to send: {payload:?}"),
            _ => {}
        }
    }
    assert!(has_response, "the response is sent before the upload ends");
    stream.write_all(&frame(PING, 0, 0, &[7; 8])).await.unwrap();
    loop {
        let (kind, _, payload) = read_frame(&mut stream).await;
        assert_ne!(kind, RST_STREAM, "closed after everything was sent");
        if kind == PING && payload == [7; 8] {
            break;
        }
    }
    drop(stream);
    server.shut_down().await;
}

#[tokio::test]
async fn request_timeout_aborts_handler() {
    let (started, release) = (Arc::default(), Arc::default());
    let server = ListenerSetup::new(app(&started, &release))
        .with_limits(|limits| limits.request_timeout = Duration::from_millis(50))
        .start_with(|listener| {
            listener.on_reject(|reason, correlation| {
                assert_eq!(reason, RejectReason::Timeout);
                (StatusCode::IM_A_TEAPOT, correlation.to_string()).into_response()
            })
        })
        .await;
    let client = server.client().build().unwrap();
    let request = client
        .get(server.url("/wait"))
        .header("x-correlation-id", "abc");
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 418);
    assert_eq!(answer.text().await.unwrap(), "abc");
    server.shut_down().await;
}

#[tokio::test]
async fn upgraded_connection_is_exempt_from_idle_timeout() {
    let (started, release) = (Arc::default(), Arc::default());
    let mut setup = ListenerSetup::new(app(&started, &release)).with_limits(|limits| {
        limits.idle_timeout = Duration::from_millis(500);
        limits.header_timeout = Duration::from_millis(500);
    });
    setup.grace = Duration::from_millis(50);
    let server = setup.start().await;
    let mut stream = server.connect().await;
    stream
        .write_all(
            b"GET /echo HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n",
        )
        .await
        .unwrap();
    let mut head = vec![0; 1024];
    let read = within_timeout("an answer", stream.read(&mut head))
        .await
        .unwrap();
    head.truncate(read);
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");

    // Two other connections time out in the meantime, so this one is idle for longer than the timeout.
    for _ in 0..2 {
        let mut other = server.connect().await;
        assert!(send_get(&mut other, "/").await.unwrap().ends_with("here"));
        assert_eq!(crate::fixture::read_to_close(&mut other).await, "");
    }
    stream.write_all(b"ping").await.unwrap();
    let mut echo = [0; 4];
    within_timeout("an echo", stream.read_exact(&mut echo))
        .await
        .unwrap();
    assert_eq!(&echo, b"ping");
    server.wait_for_metric("interzone_connections 1").await;

    // Its handler ignores the shutdown, so it is aborted at the end of the grace.
    server.shut_down().await;
    let end = within_timeout("a close", stream.read(&mut echo)).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
}
