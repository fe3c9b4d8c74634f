//! How a listener stops: what runs is finished, what is new is refused, what lasts is cut.

use crate::house::{Plan, ask, read_to_close, soon};
use axum::{Router, routing::get};
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;

fn app(waits: &Arc<Notify>, go: &Arc<Notify>) -> Router {
    let (waits, go, never) = (Arc::clone(waits), Arc::clone(go), Arc::clone(waits));
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
async fn what_runs_is_finished_and_what_is_new_is_refused() {
    for http1 in [false, true] {
        let (waits, go) = (Arc::default(), Arc::default());
        let house = Plan::new(app(&waits, &go)).build().await;
        let mut client = house.client();
        if http1 {
            client = client.http1_only();
        }
        let client = client.build().unwrap();
        let running = tokio::spawn(client.get(house.url("/wait")).send());
        soon("the request", waits.notified()).await;
        let mut idle = house.connect().await;
        assert!(ask(&mut idle, "/").await.unwrap().ends_with("here"));

        house.stop.cancel();
        soon("a refusal", async {
            while TcpStream::connect(house.address).await.is_ok() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_eq!(
            read_to_close(&mut idle).await,
            "",
            "an idle connection ends"
        );
        assert!(!house.serving.is_finished());

        go.notify_one();
        let answer = soon("the answer", running).await.unwrap().unwrap();
        assert_eq!(answer.text().await.unwrap(), "waited");
        soon("the end", house.serving).await.unwrap();
    }
}

#[tokio::test]
async fn what_lasts_longer_than_the_grace_is_cut() {
    let (waits, go) = (Arc::default(), Arc::default());
    let mut plan = Plan::new(app(&waits, &go));
    plan.grace = Duration::from_millis(50);
    let house = plan.build().await;
    let mut stream = house.connect().await;
    stream
        .write_all(b"GET /never HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut client = house.client();
    client = client.http2_prior_knowledge();
    let multiplexed = tokio::spawn(client.build().unwrap().get(house.url("/never")).send());
    soon("the requests", async {
        waits.notified().await;
        waits.notified().await;
    })
    .await;
    house.end().await;
    assert_eq!(read_to_close(&mut stream).await, "");
    soon("an error", multiplexed).await.unwrap().unwrap_err();
}
