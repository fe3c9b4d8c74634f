//! What happens to requests: too many at once, too slow, and those that become something else.

use crate::house::{Plan, ask, soon};
use axum::extract::Request;
use axum::response::IntoResponse;
use axum::{Router, routing::get};
use hyper_util::rt::TokioIo;
use interzone_edge::listener::TurnedAway;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

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
        http::StatusCode::SWITCHING_PROTOCOLS,
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

#[tokio::test]
async fn a_handler_that_takes_too_long_is_given_up() {
    let (waits, go) = (Arc::default(), Arc::default());
    let house = Plan::new(app(&waits, &go))
        .limits(|limits| limits.request_time = Duration::from_millis(50))
        .build_with(|listener| {
            listener.turn_away_with(|why, correlation| {
                assert_eq!(why, TurnedAway::TooSlow);
                (http::StatusCode::IM_A_TEAPOT, correlation.to_string()).into_response()
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
