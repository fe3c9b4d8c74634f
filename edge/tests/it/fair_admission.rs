//! Shared resources: no client may exclude the others.

use crate::fixture::{
    ListenerFixture, ListenerSetup, TlsClientOptions, read_to_close, within_timeout,
};
use axum::Router;
use axum::extract::Request;
use axum::routing::{get, post};
use bytes::Bytes;
use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use http::StatusCode;
use interzone_edge::body::{self, BodyError};
use interzone_edge::budget::ShareKey;
use interzone_edge::limits::HttpLimits;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_rustls::client::TlsStream;

/// App whose `/` returns the length of its body, with `/readyz`.
fn app(limits: HttpLimits) -> Router {
    let upload = async move |request: Request| {
        let (parts, body) = request.into_parts();
        match body::read_body(body, &parts.headers, &limits, ShareKey::Unattributed).await {
            Ok(bytes) => (StatusCode::OK, bytes.len().to_string()),
            Err(error @ BodyError::TooSlow { .. }) => {
                (StatusCode::REQUEST_TIMEOUT, error.to_string())
            }
            Err(error) => (StatusCode::BAD_REQUEST, error.to_string()),
        }
    };
    Router::new()
        .route("/", post(upload))
        .route("/readyz", get(|| async { "ready" }))
}

async fn start_server(change: impl FnOnce(&mut HttpLimits)) -> ListenerFixture {
    let mut limits = HttpLimits::default();
    change(&mut limits);
    let plan = ListenerSetup::new(app(limits.clone()));
    plan.with_limits(|own| *own = limits).start().await
}

/// Posts a body from one of the addresses of this machine.
async fn post_from(server: &ListenerFixture, host: u8) -> (StatusCode, String) {
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, host));
    let client = server.client().local_address(address).build().unwrap();
    let request = client.post(server.url("/")).body("12345").send();
    let answer = within_timeout("an answer", request).await.unwrap();
    (
        answer.status(),
        within_timeout("its text", answer.text()).await.unwrap(),
    )
}

struct OpenRequests {
    _sender: SendRequest<Bytes>,
    open: Vec<(ResponseFuture, SendStream<Bytes>)>,
}

/// Opens one HTTP/2 connection with this many requests without bodies.
async fn open_requests(server: &ListenerFixture, count: usize) -> OpenRequests {
    let caller = TlsClientOptions {
        alpn: b"h2",
        ..TlsClientOptions::default()
    };
    let stream = server.connect_as(&caller).await.unwrap();
    let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut open = Vec::new();
    for _ in 0..count {
        sender = within_timeout("a stream", sender.ready()).await.unwrap();
        let request = http::Request::post("https://localhost/").body(()).unwrap();
        open.push(sender.send_request(request, false).unwrap());
    }
    OpenRequests {
        _sender: sender,
        open,
    }
}

/// Opens one HTTP/1.1 connection with the head of a request without its body.
async fn open_request(server: &ListenerFixture) -> TlsStream<TcpStream> {
    let mut stream = server.connect().await;
    let request = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\n";
    stream.write_all(request).await.unwrap();
    stream
}

#[tokio::test]
async fn requests_without_bodies_do_not_block_others() {
    let server = start_server(|limits| {
        limits.requests = 4;
        limits.receiving_requests = 32;
    })
    .await;
    let mut connections = Vec::new();
    for _ in 0..3 {
        connections.push(open_requests(&server, 8).await);
    }
    // Two of one address may be receiving, so the others got 503.
    server
        .wait_for_metric("interzone_requests_rejected_total{reason=\"too_many_uploads\"} 22")
        .await;
    let OpenRequests { open, .. } = connections.swap_remove(0);
    for (answer, _body) in open {
        let answer = within_timeout("an answer", answer).await.unwrap();
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.headers()["retry-after"], "1");
    }
    // Another address is served, and so is the same one.
    for host in [2, 1] {
        assert_eq!(post_from(&server, host).await, (StatusCode::OK, "5".into()));
    }
    server.shut_down().await;
}

#[tokio::test]
async fn connections_of_one_address_do_not_block_others() {
    let server = start_server(|limits| {
        limits.requests = 4;
        limits.connections = 64;
    })
    .await;
    let mut open = Vec::new();
    for _ in 0..80 {
        open.push(open_request(&server).await);
    }
    for host in [2, 1] {
        assert_eq!(post_from(&server, host).await, (StatusCode::OK, "5".into()));
    }
    // Four of an address may be open, so the oldest were closed for the newest.
    assert_eq!(read_to_close(&mut open[0]).await, "");
    let open = server.metrics.encode();
    let open = open
        .lines()
        .find_map(|line| line.strip_prefix("interzone_connections "));
    assert!(open.is_some_and(|open| open.parse::<u32>().unwrap() < 10));
    server.shut_down().await;
}

#[tokio::test]
async fn silent_connections_do_not_block_others() {
    let server = start_server(|limits| limits.connections = 16).await;
    let mut open = Vec::new();
    for _ in 0..20 {
        open.push(TcpStream::connect(server.address).await.unwrap());
    }
    assert_eq!(post_from(&server, 2).await, (StatusCode::OK, "5".into()));
    server.shut_down().await;
}

#[tokio::test]
async fn readiness_is_served_at_request_limit() {
    let started = Arc::new(Notify::new());
    let started_signal = Arc::clone(&started);
    let wait = async move || {
        started_signal.notify_one();
        std::future::pending::<&'static str>().await
    };
    let server = ListenerSetup::new(app(HttpLimits::default()).route("/wait", get(wait)))
        .with_limits(|limits| limits.requests = 1)
        .start()
        .await;
    let client = server.client().build().unwrap();
    let waiting = tokio::spawn(client.get(server.url("/wait")).send());
    within_timeout("a request that is worked on", started.notified()).await;
    let busy = client.get(server.url("/")).send().await.unwrap();
    assert_eq!(busy.status(), 503);
    let ready = client.get(server.url("/readyz")).send().await.unwrap();
    assert_eq!(ready.status(), 200);
    assert_eq!(
        post_from(&server, 1).await.0,
        StatusCode::SERVICE_UNAVAILABLE
    );
    waiting.abort();
    server.shut_down().await;
}

#[tokio::test]
async fn missing_body_gets_408() {
    let server = start_server(|limits| limits.body_timeout = Duration::from_millis(200)).await;
    let mut stream = open_request(&server).await;
    let answer = read_to_close(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    server.shut_down().await;
}
