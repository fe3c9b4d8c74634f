//! Connections that are too slow, too large or too many.

use crate::house::{Plan, ask, read_to_close, soon};
use axum::body::{Body, Bytes};
use axum::{Router, routing::get};
use futures_util::stream;
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::Listener;
use interzone_edge::telemetry::Metrics;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

const SHORT: Duration = Duration::from_millis(800);

fn app() -> Router {
    Router::new().route("/", get(|| async { "here" }))
}

#[tokio::test]
async fn a_head_that_comes_by_drops_is_cut_off() {
    let house = Plan::new(app())
        .limits(|limits| limits.header_time = SHORT)
        .build()
        .await;
    // Never a word after the handshake.
    let mut silent = house.connect().await;
    assert_eq!(read_to_close(&mut silent).await, "");

    // The beginning of a first request.
    let mut first = house.connect().await;
    first.write_all(b"GET / HTTP/1.1\r\nho").await.unwrap();
    assert_eq!(read_to_close(&mut first).await, "");

    // And of a second, on a connection that was good until then.
    let mut second = house.connect().await;
    assert!(ask(&mut second, "/").await.unwrap().ends_with("here"));
    second.write_all(b"GET / HTTP/1.1\r\nho").await.unwrap();
    assert_eq!(read_to_close(&mut second).await, "");
    house.end().await;
}

#[tokio::test]
async fn a_quiet_connection_is_closed_in_both_versions() {
    let house = Plan::new(app())
        .limits(|limits| limits.idle = SHORT)
        .build()
        .await;
    let mut quiet = house.connect().await;
    assert!(ask(&mut quiet, "/").await.unwrap().ends_with("here"));
    assert_eq!(read_to_close(&mut quiet).await, "");

    let client = house.client().build().unwrap();
    let answer = client.get(house.url("/")).send().await.unwrap();
    assert_eq!(answer.version(), http::Version::HTTP_2);
    answer.text().await.unwrap();
    house.until("interzone_connections 0").await;
    house.end().await;
}

#[tokio::test]
async fn as_many_headers_are_taken_as_the_limit_says_and_no_more() {
    for limit in [99, 100, 101] {
        let house = Plan::new(app())
            .limits(|limits| limits.headers = limit)
            .build()
            .await;
        // `host` and `connection` are two of them.
        for (more, status) in [(limit - 2, "200"), (limit - 1, "431")] {
            let more: String = (0..more).map(|n| format!("x-{n}: 1\r\n")).collect();
            let request =
                format!("GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{more}\r\n");
            let mut stream = house.connect().await;
            stream.write_all(request.as_bytes()).await.unwrap();
            let answer = read_to_close(&mut stream).await;
            let expected = format!("HTTP/1.1 {status} ");
            assert!(answer.starts_with(&expected), "{limit}: {answer}");
        }
        house.end().await;
    }
}

#[tokio::test]
async fn headers_that_are_too_large_are_refused() {
    let house = Plan::new(app())
        .limits(|limits| {
            limits.header_bytes = 16 * 1024;
            limits.headers = 20;
        })
        .build()
        .await;
    let long = format!("x-long: {}\r\n", "x".repeat(20 * 1024));
    let many: String = (0..30).map(|n| format!("x-{n}: 1\r\n")).collect();
    for headers in [long, many] {
        let mut stream = house.connect().await;
        let request = format!("GET / HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_to_close(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
        assert!(answer.contains("x-correlation-id: "), "{answer}");
        let said = "the path and the headers are too long, or the headers are too many\n";
        assert!(answer.ends_with(said), "{answer}");
    }
    for rubbish in ["\u{1} rubbish\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"] {
        let mut stream = house.connect().await;
        stream.write_all(rubbish.as_bytes()).await.unwrap();
        let answer = read_to_close(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
        let said = "this is not a request of HTTP/1.1\n";
        assert!(answer.ends_with(said), "{answer}");
    }
    house
        .until("interzone_requests_turned_away_total{reason=\"head_too_large\"} 2")
        .await;

    let client = house.client().build().unwrap();
    let request = client
        .get(house.url("/"))
        .header("x-long", "x".repeat(20 * 1024));
    let refused = request.send().await.map(|answer| answer.status().as_u16());
    assert!(matches!(refused, Ok(431) | Err(_)), "{refused:?}");
    house.end().await;
}

#[tokio::test]
async fn an_answer_is_passed_on_whatever_it_looks_like() {
    const FAKE: &str = "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n";
    let (go, told) = mpsc::channel::<()>(1);
    let told = Arc::new(tokio::sync::Mutex::new(told));
    let forged = move || {
        let told = Arc::clone(&told);
        // Its end goes out by itself, when its head has long been sent.
        let pieces = stream::unfold(0, move |piece| {
            let told = Arc::clone(&told);
            async move {
                match piece {
                    0 => Some((Ok::<_, Infallible>("here it comes: "), 1)),
                    1 => {
                        told.lock().await.recv().await;
                        Some((Ok(FAKE), 2))
                    }
                    _ => None,
                }
            }
        });
        let length = "here it comes: ".len() + FAKE.len();
        async move {
            (
                [("content-length", length.to_string())],
                Body::from_stream(pieces),
            )
        }
    };
    let house = Plan::new(app().route("/forged", get(forged))).build().await;
    let mut stream = house.connect().await;
    let request = b"GET /forged HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut head = [0; 1];
    stream.read_exact(&mut head).await.unwrap();
    go.send(()).await.unwrap();
    let answer = read_to_close(&mut stream).await;
    assert!(answer.starts_with("TTP/1.1 200 "), "{answer}");
    assert!(
        answer.ends_with(&format!("here it comes: {FAKE}")),
        "{answer}"
    );

    // What comes after a good request is refused by the library alone.
    let mut stream = house.connect().await;
    assert!(ask(&mut stream, "/").await.unwrap().ends_with("here"));
    stream.write_all(b"\x01 rubbish\r\n\r\n").await.unwrap();
    let answer = read_to_close(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    house.end().await;
}

#[tokio::test]
async fn connections_above_the_limit_wait() {
    let house = Arc::new(
        Plan::new(app())
            .limits(|limits| limits.connections = 1)
            .build()
            .await,
    );
    let mut first = house.connect().await;
    let theirs = Arc::clone(&house);
    let waiting = tokio::spawn(async move { ask(&mut theirs.connect().await, "/").await });
    for _ in 0..50 {
        assert!(ask(&mut first, "/").await.unwrap().ends_with("here"));
    }
    assert!(!waiting.is_finished());
    house.until("interzone_connections 1").await;
    drop(first);
    let answer = soon("room", waiting).await.unwrap().unwrap();
    assert!(answer.ends_with("here"), "{answer}");
    Arc::into_inner(house).unwrap().end().await;
}

/// Tells when it is dropped, by the closing of its channel.
fn endless() -> (Router, mpsc::Receiver<()>) {
    let (alive, ended) = mpsc::channel::<()>(1);
    let app = Router::new()
        .route(
            "/flood",
            get({
                let alive = alive.clone();
                move || {
                    let flood = stream::repeat_with(move || {
                        let _ = &alive;
                        Ok::<_, Infallible>(Bytes::from_static(&[b'x'; 16 * 1024]))
                    });
                    async { Body::from_stream(flood) }
                }
            }),
        )
        .route(
            "/silence",
            get(move || {
                let silence = stream::unfold(alive.clone(), |alive| async move {
                    std::future::pending::<()>().await;
                    Some((Ok::<_, Infallible>(Bytes::new()), alive))
                });
                async { Body::from_stream(silence) }
            }),
        );
    (app, ended)
}

#[tokio::test]
async fn many_connections_wait_in_the_queue_of_the_system() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let metrics = Arc::new(Metrics::new());
    let listener = Listener::bind_plain(any, HttpLimits::default(), metrics)
        .await
        .unwrap();
    // None is accepted. Beyond the end of the queue a connection would not be made.
    let mut waiting = Vec::new();
    for _ in 0..300 {
        let connecting = TcpStream::connect(listener.local_addr());
        waiting.push(soon("a connection", connecting).await.unwrap());
    }
}

#[tokio::test]
async fn a_reader_that_does_not_read_is_cut_off() {
    let (app, _ended) = endless();
    let house = Plan::new(app)
        .limits(|limits| limits.stall = SHORT)
        .build()
        .await;
    let mut stream = house.connect().await;
    assert!(ask(&mut stream, "/flood").await.unwrap().contains("200 OK"));
    house.until("interzone_connections 0").await;
    house.end().await;
}

#[tokio::test]
async fn pipelined_answers_that_are_not_read_are_bounded_over_all_connections() {
    let never = Duration::from_secs(3_600);
    let small = || async { Bytes::from_static(&[b'x'; 60_000]) };
    let house = Plan::new(app().route("/small", get(small)))
        .limits(|limits| {
            (limits.stall, limits.idle, limits.header_time) = (never, never, never);
            limits.unread = 512 * 1024;
            limits.shares.address = 1;
        })
        .build()
        .await;
    // The answers fill the buffers of the system and of the TLS library, so each connection counts at least 68 KiB.
    let request = b"GET /small HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(100);
    let mut open = Vec::new();
    for _ in 0..20 {
        let mut stream = house.connect_with_small_buffer().await;
        stream.write_all(&request).await.unwrap();
        open.push(stream);
    }
    let cut_off = || {
        let metrics = house.metrics.encode();
        let prefix = "interzone_cut_off_total{reason=\"connection_stalled\"} ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(prefix));
        line.map_or(0, |count| count.parse::<usize>().unwrap())
    };
    soon("cutting", async {
        while cut_off() < 13 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut reader = house.connect().await;
    assert!(ask(&mut reader, "/").await.unwrap().ends_with("here"));
    drop((open, reader));
    house.end().await;
}

#[tokio::test]
async fn a_quiet_answer_is_not_a_quiet_connection() {
    let (app, _ended) = endless();
    let house = Plan::new(app)
        .limits(|limits| {
            limits.idle = SHORT;
            limits.header_time = SHORT;
            limits.stall = SHORT;
        })
        .build()
        .await;
    let mut watcher = house.connect().await;
    assert!(
        ask(&mut watcher, "/silence")
            .await
            .unwrap()
            .contains("200 OK")
    );
    // Another connection comes and goes by the same limits, twice, while the watcher stays.
    for _ in 0..2 {
        assert_eq!(read_to_close(&mut house.connect().await).await, "");
    }
    house.until("interzone_connections 1").await;

    // When it goes, by half or whole, nothing of it stays.
    watcher.shutdown().await.unwrap();
    house.until("interzone_connections 0").await;
    house.end().await;
}
