//! What happens to requests: too many at once, too slow, and those that become something else.

use crate::house::{Caller, Plan, ask, soon};
use axum::Router;
use axum::extract::Request;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use http::StatusCode;
use hyper_util::rt::TokioIo;
use interzone_edge::body;
use interzone_edge::budget::ShareKey;
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::TurnedAway;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::client::TlsStream;

/// `/wait` waits to be let go, and tells when it waits.
fn app(waits: &Arc<Notify>, go: &Arc<Notify>) -> Router {
    let (waits, go) = (Arc::clone(waits), Arc::clone(go));
    Router::new()
        .route("/", get(|| async { "here" }))
        .route(
            "/wait",
            get(move || async move {
                waits.notify_one();
                go.notified().await;
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
async fn more_requests_than_allowed_are_turned_away() {
    let (waits, go) = (Arc::default(), Arc::default());
    let house = Plan::new(app(&waits, &go))
        .limits(|limits| limits.requests = 1)
        .build()
        .await;
    let client = house.client().build().unwrap();
    let first = tokio::spawn(client.get(house.url("/wait")).send());
    soon("the first", waits.notified()).await;

    let second = client.get(house.url("/")).header("x-correlation-id", "abc");
    let second = second.send().await.unwrap();
    assert_eq!(second.status(), 503);
    assert_eq!(second.headers()["retry-after"], "1");
    assert_eq!(second.headers()["x-correlation-id"], "abc");
    assert!(second.text().await.unwrap().contains("try again"));

    go.notify_one();
    let first = soon("the first", first).await.unwrap().unwrap();
    assert_eq!(first.text().await.unwrap(), "waited");
    let third = client.get(house.url("/")).send().await.unwrap();
    assert_eq!(third.status(), 200);
    house
        .until("interzone_requests_turned_away_total{reason=\"busy\"} 1")
        .await;
    house.end().await;
}

/// `/` takes so many bytes and says how many came.
fn takes(most: usize) -> Router {
    let take = async move |request: Request| {
        let limits = HttpLimits {
            body: most,
            ..HttpLimits::default()
        };
        let (parts, body) = request.into_parts();
        match body::read(body, &parts.headers, &limits, ShareKey::Unattributed).await {
            Ok(bytes) => (StatusCode::OK, bytes.len().to_string()),
            Err(error) => (StatusCode::PAYLOAD_TOO_LARGE, error.to_string()),
        }
    };
    Router::new().route("/", post(take))
}

#[tokio::test]
async fn who_sends_too_much_is_told_so_by_every_version_of_http() {
    const MOST: usize = 4 << 20;
    let house = Plan::new(takes(MOST)).build().await;
    for client in [house.client(), house.client().http1_only()] {
        let client = client.build().unwrap();
        for announced in [true, false] {
            for (bytes, status) in [(MOST, 200), (MOST + 1, 413), (MOST * 2 - 1, 413)] {
                let mut pieces = vec![std::io::Result::Ok(vec![b'x'; bytes % 8])];
                pieces.extend((0..8).map(|_| Ok(vec![b'x'; bytes / 8])));
                let body = match announced {
                    true => reqwest::Body::from(vec![b'x'; bytes]),
                    false => reqwest::Body::wrap_stream(futures_util::stream::iter(pieces)),
                };
                let sent = client.post(house.url("/")).body(body).send();
                let answer = soon("an answer", sent).await;
                let answer = answer
                    .unwrap_or_else(|e| panic!("announced {announced}, {bytes} bytes: {e:?}"));
                let version = answer.version();
                assert_eq!(answer.status(), status, "{version:?} {bytes}");
                // The next request must not go to a connection that is about to end.
                let ends = answer.headers().contains_key(http::header::CONNECTION);
                let old = version < http::Version::HTTP_2;
                assert_eq!(ends, old && status == 413, "{version:?} {bytes}");
                let text = soon("its text", answer.text()).await;
                let text = text.unwrap_or_else(|e| panic!("{version:?} {bytes}: {e:?}"));
                assert!(status == 200 || text.contains("larger than"), "{text}");
            }
        }
    }
    house.end().await;
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [
        length[1], length[2], length[3], kind, flags, 0, 0, 0, stream,
    ];
    [&head, payload].concat()
}

/// The next frame: its kind, its stream and what is in it.
async fn heard(stream: &mut TlsStream<TcpStream>) -> (u8, u8, Vec<u8>) {
    let mut head = [0; 9];
    soon("a frame", stream.read_exact(&mut head)).await.unwrap();
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    let read = soon("the rest", stream.read_exact(&mut payload)).await;
    read.unwrap();
    (head[3], head[8], payload)
}

/// Clients that take a stream which is closed under them for a failure must not see it closed before they
/// have sent what they wanted to send.
#[tokio::test]
async fn a_stream_is_not_closed_under_its_sender() {
    const MOST: usize = 1 << 20;
    const PIECE: usize = 16 * 1024;
    let house = Plan::new(takes(MOST)).build().await;
    let caller = Caller {
        alpn: b"h2",
        ..Caller::default()
    };
    let mut stream = house.connect_by(&caller).await.unwrap();
    let mut said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    said.extend(frame(SETTINGS, 0, 0, b""));
    // POST, https, /, and its authority.
    let headers = [b"\x83\x87\x84\x41\x09".as_slice(), b"localhost"].concat();
    said.extend(frame(HEADERS, 4, 1, &headers));
    stream.write_all(&said).await.unwrap();

    // As far as the windows allow, whatever the server says meanwhile.
    let (mut windows, mut left) = ([65_535_usize; 2], 2 * MOST - PIECE);
    let mut answered = false;
    while left > 0 {
        while left > 0 && windows.iter().all(|window| *window >= PIECE) {
            left -= PIECE;
            windows = windows.map(|window| window - PIECE);
            let last = u8::from(left == 0);
            let piece = frame(DATA, last, 1, &[b'x'; PIECE]);
            stream.write_all(&piece).await.unwrap();
        }
        if left == 0 {
            break;
        }
        let (kind, on, payload) = heard(&mut stream).await;
        match kind {
            WINDOW_UPDATE => {
                let more = u32::from_be_bytes(payload.try_into().unwrap());
                windows[usize::from(on)] += usize::try_from(more).unwrap();
            }
            // Its own are not empty; what is, agrees to ours.
            SETTINGS if !payload.is_empty() => {
                let agreed = frame(SETTINGS, 1, 0, b"");
                stream.write_all(&agreed).await.unwrap();
                for setting in payload.chunks(6).filter(|setting| setting[1] == 4) {
                    let window = u32::from_be_bytes(setting[2..].try_into().unwrap());
                    windows[1] += usize::try_from(window).unwrap() - 65_535;
                }
            }
            HEADERS => answered = true,
            RST_STREAM => panic!("closed with {left} bytes to send: {payload:?}"),
            _ => {}
        }
    }
    assert!(answered, "the answer does not wait for the end");
    stream.write_all(&frame(PING, 0, 0, &[7; 8])).await.unwrap();
    loop {
        let (kind, _, payload) = heard(&mut stream).await;
        assert_ne!(kind, RST_STREAM, "closed although all was sent");
        if kind == PING && payload == [7; 8] {
            break;
        }
    }
    drop(stream);
    house.end().await;
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_given_up() {
    let (waits, go) = (Arc::default(), Arc::default());
    let house = Plan::new(app(&waits, &go))
        .limits(|limits| limits.request_time = Duration::from_millis(50))
        .build_with(|listener| {
            listener.turn_away_with(|why, correlation| {
                assert_eq!(why, TurnedAway::TooSlow);
                (StatusCode::IM_A_TEAPOT, correlation.to_string()).into_response()
            })
        })
        .await;
    let client = house.client().build().unwrap();
    let request = client
        .get(house.url("/wait"))
        .header("x-correlation-id", "abc");
    let answer = request.send().await.unwrap();
    assert_eq!(answer.status(), 418);
    assert_eq!(answer.text().await.unwrap(), "abc");
    house.end().await;
}

#[tokio::test]
async fn a_socket_can_become_something_else() {
    let (waits, go) = (Arc::default(), Arc::default());
    let mut plan = Plan::new(app(&waits, &go)).limits(|limits| {
        limits.idle = Duration::from_millis(500);
        limits.header_time = Duration::from_millis(500);
    });
    plan.grace = Duration::from_millis(50);
    let house = plan.build().await;
    let mut stream = house.connect().await;
    stream
        .write_all(
            b"GET /echo HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n",
        )
        .await
        .unwrap();
    let mut head = vec![0; 1024];
    let read = soon("an answer", stream.read(&mut head)).await.unwrap();
    head.truncate(read);
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");

    // It is quiet for longer than a connection may be: two of them come and go meanwhile.
    for _ in 0..2 {
        let mut other = house.connect().await;
        assert!(ask(&mut other, "/").await.unwrap().ends_with("here"));
        assert_eq!(crate::house::read_to_close(&mut other).await, "");
    }
    stream.write_all(b"ping").await.unwrap();
    let mut echo = [0; 4];
    soon("an echo", stream.read_exact(&mut echo)).await.unwrap();
    assert_eq!(&echo, b"ping");
    house.until("interzone_connections 1").await;

    // Its handler does not know of the stop, so it is cut at the end of the grace.
    house.end().await;
    let end = soon("a close", stream.read(&mut echo)).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
}
