//! Callers that hold what all callers share: one of them must not keep the others out.

use crate::house::{Caller, House, Plan, read_to_close, soon};
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

/// `/` takes a body and says how long it was; `/readyz` says that all is well.
fn app(limits: HttpLimits) -> Router {
    let take = async move |request: Request| {
        let (parts, body) = request.into_parts();
        match body::read(body, &parts.headers, &limits, ShareKey::Unattributed).await {
            Ok(bytes) => (StatusCode::OK, bytes.len().to_string()),
            Err(error @ BodyError::TooSlow { .. }) => {
                (StatusCode::REQUEST_TIMEOUT, error.to_string())
            }
            Err(error) => (StatusCode::BAD_REQUEST, error.to_string()),
        }
    };
    Router::new()
        .route("/", post(take))
        .route("/readyz", get(|| async { "ready" }))
}

async fn house(change: impl FnOnce(&mut HttpLimits)) -> House {
    let mut limits = HttpLimits::default();
    change(&mut limits);
    let plan = Plan::new(app(limits.clone()));
    plan.limits(|own| *own = limits).build().await
}

/// Posts a body from one of the addresses of this machine.
async fn post_from(house: &House, host: u8) -> (StatusCode, String) {
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, host));
    let client = house.client().local_address(address).build().unwrap();
    let request = client.post(house.url("/")).body("12345").send();
    let answer = soon("an answer", request).await.unwrap();
    (
        answer.status(),
        soon("its text", answer.text()).await.unwrap(),
    )
}

struct Heads {
    _sender: SendRequest<Bytes>,
    open: Vec<(ResponseFuture, SendStream<Bytes>)>,
}

/// One HTTP/2 connection with so many heads of requests whose bodies do not come.
async fn heads(house: &House, count: usize) -> Heads {
    let caller = Caller {
        alpn: b"h2",
        ..Caller::default()
    };
    let stream = house.connect_by(&caller).await.unwrap();
    let (mut sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let mut open = Vec::new();
    for _ in 0..count {
        sender = soon("a stream", sender.ready()).await.unwrap();
        let request = http::Request::post("https://localhost/").body(()).unwrap();
        open.push(sender.send_request(request, false).unwrap());
    }
    Heads {
        _sender: sender,
        open,
    }
}

/// One HTTP/1.1 connection with the head of a request whose body does not come.
async fn head(house: &House) -> TlsStream<TcpStream> {
    let mut stream = house.connect().await;
    let request = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n\r\n";
    stream.write_all(request).await.unwrap();
    stream
}

#[tokio::test]
async fn heads_without_bodies_do_not_keep_out_others() {
    let house = house(|limits| {
        limits.requests = 4;
        limits.arriving = 32;
    })
    .await;
    let mut connections = Vec::new();
    for _ in 0..3 {
        connections.push(heads(&house, 8).await);
    }
    // Two of one address may be arriving, so the others were told to come again.
    house
        .until("interzone_requests_turned_away_total{reason=\"too_many_arriving\"} 22")
        .await;
    let Heads { open, .. } = connections.swap_remove(0);
    for (answer, _body) in open {
        let answer = soon("an answer", answer).await.unwrap();
        assert_eq!(answer.status(), 503);
        assert_eq!(answer.headers()["retry-after"], "1");
    }
    // Another address is served, and so is the same one.
    for host in [2, 1] {
        assert_eq!(post_from(&house, host).await, (StatusCode::OK, "5".into()));
    }
    house.end().await;
}

#[tokio::test]
async fn connections_of_one_address_do_not_keep_out_others() {
    let house = house(|limits| {
        limits.requests = 4;
        limits.connections = 64;
    })
    .await;
    let mut open = Vec::new();
    for _ in 0..80 {
        open.push(head(&house).await);
    }
    for host in [2, 1] {
        assert_eq!(post_from(&house, host).await, (StatusCode::OK, "5".into()));
    }
    // Four of an address may be open, so the oldest were closed for the newest.
    assert_eq!(read_to_close(&mut open[0]).await, "");
    let open = house.metrics.encode();
    let open = open
        .lines()
        .find_map(|line| line.strip_prefix("interzone_connections "));
    assert!(open.is_some_and(|open| open.parse::<u32>().unwrap() < 10));
    house.end().await;
}

#[tokio::test]
async fn silent_connections_of_one_address_do_not_keep_out_others() {
    let house = house(|limits| limits.connections = 16).await;
    let mut open = Vec::new();
    for _ in 0..20 {
        open.push(TcpStream::connect(house.address).await.unwrap());
    }
    assert_eq!(post_from(&house, 2).await, (StatusCode::OK, "5".into()));
    house.end().await;
}

#[tokio::test]
async fn health_is_answered_when_all_requests_are_taken() {
    let waits = Arc::new(Notify::new());
    let told = Arc::clone(&waits);
    let wait = async move || {
        told.notify_one();
        std::future::pending::<&'static str>().await
    };
    let house = Plan::new(app(HttpLimits::default()).route("/wait", get(wait)))
        .limits(|limits| limits.requests = 1)
        .build()
        .await;
    let client = house.client().build().unwrap();
    let waiting = tokio::spawn(client.get(house.url("/wait")).send());
    soon("a request that is worked on", waits.notified()).await;
    let busy = client.get(house.url("/")).send().await.unwrap();
    assert_eq!(busy.status(), 503);
    let ready = client.get(house.url("/readyz")).send().await.unwrap();
    assert_eq!(ready.status(), 200);
    assert_eq!(
        post_from(&house, 1).await.0,
        StatusCode::SERVICE_UNAVAILABLE
    );
    waiting.abort();
    house.end().await;
}

#[tokio::test]
async fn body_that_does_not_come_ends_with_a_timeout() {
    let house = house(|limits| limits.body_time = Duration::from_millis(200)).await;
    let mut stream = head(&house).await;
    let answer = read_to_close(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    house.end().await;
}
