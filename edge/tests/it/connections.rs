//! Connections that are too slow, too large or too many.

use crate::fixture::{ListenerSetup, read_to_close, send_get, within_timeout};
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
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

const SHORT_TIMEOUT: Duration = Duration::from_millis(800);

fn app() -> Router {
    Router::new().route("/", get(|| async { "here" }))
}

#[tokio::test]
async fn slow_request_head_times_out() {
    let server = ListenerSetup::new(app())
        .with_limits(|limits| limits.header_timeout = SHORT_TIMEOUT)
        .start()
        .await;
    // No bytes after the handshake.
    let mut silent = server.connect().await;
    assert_eq!(read_to_close(&mut silent).await, "");

    // The first bytes of a first request.
    let mut first = server.connect().await;
    first.write_all(b"GET / HTTP/1.1\r\nho").await.unwrap();
    assert_eq!(read_to_close(&mut first).await, "");

    // And of a second, on a connection that was fine until then.
    let mut second = server.connect().await;
    assert!(send_get(&mut second, "/").await.unwrap().ends_with("here"));
    second.write_all(b"GET / HTTP/1.1\r\nho").await.unwrap();
    assert_eq!(read_to_close(&mut second).await, "");
    server.shut_down().await;
}

#[tokio::test]
async fn idle_connection_is_closed_in_http1_and_http2() {
    let server = ListenerSetup::new(app())
        .with_limits(|limits| limits.idle_timeout = SHORT_TIMEOUT)
        .start()
        .await;
    let mut quiet = server.connect().await;
    assert!(send_get(&mut quiet, "/").await.unwrap().ends_with("here"));
    assert_eq!(read_to_close(&mut quiet).await, "");

    let client = server.client().build().unwrap();
    let answer = client.get(server.url("/")).send().await.unwrap();
    assert_eq!(answer.version(), http::Version::HTTP_2);
    answer.text().await.unwrap();
    server.wait_for_metric("interzone_connections 0").await;
    server.shut_down().await;
}

#[tokio::test]
async fn header_count_limit_is_exact() {
    for limit in [99, 100, 101] {
        let server = ListenerSetup::new(app())
            .with_limits(|limits| limits.headers = limit)
            .start()
            .await;
        // `host` and `connection` are two of them.
        for (more, status) in [(limit - 2, "200"), (limit - 1, "431")] {
            let more: String = (0..more).map(|n| format!("x-{n}: 1\r\n")).collect();
            let request =
                format!("GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{more}\r\n");
            let mut stream = server.connect().await;
            stream.write_all(request.as_bytes()).await.unwrap();
            let answer = read_to_close(&mut stream).await;
            let expected = format!("HTTP/1.1 {status} ");
            assert!(answer.starts_with(&expected), "{limit}: {answer}");
        }
        server.shut_down().await;
    }
}

#[tokio::test]
async fn oversized_headers_get_431() {
    let server = ListenerSetup::new(app())
        .with_limits(|limits| {
            limits.header_bytes = 16 * 1024;
            limits.headers = 20;
        })
        .start()
        .await;
    let long = format!("x-long: {}\r\n", "x".repeat(20 * 1024));
    let many: String = (0..30).map(|n| format!("x-{n}: 1\r\n")).collect();
    for headers in [long, many] {
        let mut stream = server.connect().await;
        let request = format!("GET / HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_to_close(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
        assert!(answer.contains("connection: close\r\n"), "{answer}");
    }
    for rubbish in ["\u{1} rubbish\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"] {
        let mut stream = server.connect().await;
        stream.write_all(rubbish.as_bytes()).await.unwrap();
        let answer = read_to_close(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    }
    server
        .wait_for_metric("interzone_requests_rejected_total{reason=\"head_too_large\"} 2")
        .await;
    server
        .wait_for_metric("interzone_requests_rejected_total{reason=\"unreadable\"} 2")
        .await;

    let client = server.client().build().unwrap();
    let request = client
        .get(server.url("/"))
        .header("x-long", "x".repeat(20 * 1024));
    let refused = request.send().await.map(|answer| answer.status().as_u16());
    assert!(matches!(refused, Ok(431) | Err(_)), "{refused:?}");
    server.shut_down().await;
}

#[tokio::test]
async fn connections_over_limit_wait() {
    let server = Arc::new(
        ListenerSetup::new(app())
            .with_limits(|limits| limits.connections = 1)
            .start()
            .await,
    );
    let mut first = server.connect().await;
    let theirs = Arc::clone(&server);
    let waiting = tokio::spawn(async move { send_get(&mut theirs.connect().await, "/").await });
    for _ in 0..50 {
        assert!(send_get(&mut first, "/").await.unwrap().ends_with("here"));
    }
    assert!(!waiting.is_finished());
    server.wait_for_metric("interzone_connections 1").await;
    drop(first);
    let answer = within_timeout("a free slot", waiting)
        .await
        .unwrap()
        .unwrap();
    assert!(answer.ends_with("here"), "{answer}");
    Arc::into_inner(server).unwrap().shut_down().await;
}

/// App with endless responses; the receiver is closed when they are dropped.
fn endless_app() -> (Router, mpsc::Receiver<()>) {
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
async fn listen_backlog_holds_many_connections() {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let metrics = Arc::new(Metrics::new());
    let listener = Listener::bind_plain(any, HttpLimits::default(), metrics)
        .await
        .unwrap();
    // None is accepted. Beyond the end of the backlog a connection would not be made.
    let mut waiting = Vec::new();
    for _ in 0..300 {
        let connecting = TcpStream::connect(listener.local_addr());
        waiting.push(within_timeout("a connection", connecting).await.unwrap());
    }
}

#[tokio::test]
async fn client_that_does_not_read_is_closed() {
    let (app, _ended) = endless_app();
    let server = ListenerSetup::new(app)
        .with_limits(|limits| limits.stall_timeout = SHORT_TIMEOUT)
        .start()
        .await;
    let mut stream = server.connect().await;
    assert!(
        send_get(&mut stream, "/flood")
            .await
            .unwrap()
            .contains("200 OK")
    );
    server.wait_for_metric("interzone_connections 0").await;
    server.shut_down().await;
}

#[tokio::test]
async fn unread_pipelined_responses_are_bounded() {
    let never = Duration::from_secs(3_600);
    let small = || async { Bytes::from_static(&[b'x'; 60_000]) };
    let server = ListenerSetup::new(app().route("/small", get(small)))
        .with_limits(|limits| {
            (
                limits.stall_timeout,
                limits.idle_timeout,
                limits.header_timeout,
            ) = (never, never, never);
            limits.unread_response_bytes = 512 * 1024;
            limits.shares.address = 1;
        })
        .start()
        .await;
    // The responses fill the buffers of the system and of the TLS library, so each connection counts at least 68 KiB.
    let request = b"GET /small HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(100);
    let mut open = Vec::new();
    for _ in 0..20 {
        let mut stream = server.connect_with_small_buffer().await;
        stream.write_all(&request).await.unwrap();
        open.push(stream);
    }
    let closed_count = || {
        let metrics = server.metrics.encode();
        let prefix = "interzone_client_terminations_total{reason=\"connection_stalled\"} ";
        let line = metrics.lines().find_map(|line| line.strip_prefix(prefix));
        line.map_or(0, |count| count.parse::<usize>().unwrap())
    };
    within_timeout("cutting", async {
        while closed_count() < 13 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut reader = server.connect().await;
    assert!(send_get(&mut reader, "/").await.unwrap().ends_with("here"));
    drop((open, reader));
    server.shut_down().await;
}

#[tokio::test]
async fn idle_response_stream_keeps_its_connection() {
    let (app, _ended) = endless_app();
    let server = ListenerSetup::new(app)
        .with_limits(|limits| {
            limits.idle_timeout = SHORT_TIMEOUT;
            limits.header_timeout = SHORT_TIMEOUT;
            limits.stall_timeout = SHORT_TIMEOUT;
        })
        .start()
        .await;
    let mut watcher = server.connect().await;
    assert!(
        send_get(&mut watcher, "/silence")
            .await
            .unwrap()
            .contains("200 OK")
    );
    // Another connection is opened and closed by the same limits, twice, while the watcher stays.
    for _ in 0..2 {
        assert_eq!(read_to_close(&mut server.connect().await).await, "");
    }
    server.wait_for_metric("interzone_connections 1").await;

    // A half-close ends the connection.
    watcher.shutdown().await.unwrap();
    server.wait_for_metric("interzone_connections 0").await;
    server.shut_down().await;
}
