//! Listener shutdown: running requests finish, new connections are refused, long requests are aborted.

use crate::fixture::{ListenerSetup, read_to_close, send_get, within_timeout};
use axum::{Router, routing::get};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;

fn app(started: &Arc<Notify>, release: &Arc<Notify>) -> Router {
    let (waits, go, never) = (
        Arc::clone(started),
        Arc::clone(release),
        Arc::clone(started),
    );
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
        .route(
            "/never",
            get(move || async move {
                never.notify_one();
                pending::<&str>().await
            }),
        )
}

#[tokio::test]
async fn shutdown_finishes_requests_and_refuses_connections() {
    for http1 in [false, true] {
        let (waits, go) = (Arc::default(), Arc::default());
        let server = ListenerSetup::new(app(&waits, &go)).start().await;
        let mut client = server.client();
        if http1 {
            client = client.http1_only();
        }
        let client = client.build().unwrap();
        let running = tokio::spawn(client.get(server.url("/wait")).send());
        within_timeout("the request", waits.notified()).await;
        let mut idle = server.connect().await;
        assert!(send_get(&mut idle, "/").await.unwrap().ends_with("here"));

        server.stop.cancel();
        within_timeout("a refusal", async {
            while TcpStream::connect(server.address).await.is_ok() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(
            read_to_close(&mut idle).await,
            "",
            "an idle connection ends"
        );
        assert!(!server.serving.is_finished());

        go.notify_one();
        let answer = within_timeout("the answer", running)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(answer.text().await.unwrap(), "waited");
        within_timeout("the end", server.serving).await.unwrap();
    }
}

#[tokio::test]
async fn requests_longer_than_grace_are_aborted() {
    let (waits, go) = (Arc::default(), Arc::default());
    let mut plan = ListenerSetup::new(app(&waits, &go));
    plan.grace = Duration::from_millis(50);
    let server = plan.start().await;
    let mut stream = server.connect().await;
    stream
        .write_all(b"GET /never HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut client = server.client();
    client = client.http2_prior_knowledge();
    let multiplexed = tokio::spawn(client.build().unwrap().get(server.url("/never")).send());
    within_timeout("the requests", async {
        waits.notified().await;
        waits.notified().await;
    })
    .await;
    server.shut_down().await;
    assert_eq!(read_to_close(&mut stream).await, "");
    within_timeout("an error", multiplexed)
        .await
        .unwrap()
        .unwrap_err();
}
