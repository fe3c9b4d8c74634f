//! Socket Mode: tickets, greetings, acknowledgements, farewells.

use crate::house::{Bot, PATIENCE};
use futures_util::{SinkExt, StreamExt};
use interzone_playground::{Farewell, Mode, Playground, PlaygroundOptions, seed};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

struct Link(WebSocketStream<TcpStream>);

impl Link {
    async fn open(playground: &Playground) -> Self {
        let mut bot = Bot::of(playground);
        bot.token = "xapp-playground-app".to_owned();
        let url = bot.good("apps.connections.open", &[]).await;
        let url = url["url"].as_str().unwrap().to_owned();
        let stream = TcpStream::connect(playground.address()).await.unwrap();
        let (socket, _) = tokio_tungstenite::client_async(&url, stream).await.unwrap();
        // A ticket is good for one socket.
        let stream = TcpStream::connect(playground.address()).await.unwrap();
        assert!(tokio_tungstenite::client_async(&url, stream).await.is_err());
        Self(socket)
    }

    /// The next thing that is said; `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        loop {
            let next = tokio::time::timeout(PATIENCE, self.0.next()).await;
            match next.expect("something comes")? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    async fn acknowledge(&mut self, envelope: &Value) {
        let text = json!({"envelope_id": envelope["envelope_id"]}).to_string();
        self.0.send(Message::Text(text.into())).await.unwrap();
    }
}

async fn start() -> Playground {
    let options = PlaygroundOptions {
        mode: Mode::Socket,
        ack_time: Duration::from_secs(1),
        retry_delays: vec![Duration::ZERO; 3],
        ..PlaygroundOptions::default()
    };
    Playground::start(options).await.unwrap()
}

#[tokio::test]
async fn events_come_in_envelopes_until_they_are_acknowledged() {
    let playground = start().await;
    let mut link = Link::open(&playground).await;
    let hello = link.next().await.unwrap();
    assert_eq!(hello["type"], "hello");
    assert_eq!(hello["num_connections"], 1);
    assert_eq!(hello["connection_info"]["app_id"], seed::APP);
    playground.post(seed::HANA, seed::DM_HANA, "hi").unwrap();
    let first = link.next().await.unwrap();
    assert_eq!(first["type"], "events_api");
    assert_eq!(first["retry_attempt"], 0);
    assert_eq!(first["payload"]["event"]["text"], "hi");
    // It is not acknowledged, and comes again.
    let again = link.next().await.unwrap();
    assert_eq!(again["retry_attempt"], 1);
    assert_eq!(again["payload"], first["payload"]);
    link.acknowledge(&again).await;
    let arrived = playground.wait(PATIENCE, |workspace| {
        let mut all = workspace.deliveries();
        all.find(|delivery| delivery.outcome == "ok").cloned()
    });
    assert_eq!(arrived.await.unwrap().attempt, 1);
}

#[tokio::test]
async fn sockets_are_closed_with_their_reason_and_are_ten_at_most() {
    let playground = start().await;
    let mut links = Vec::new();
    for number in 1..=10 {
        let mut link = Link::open(&playground).await;
        let hello = link.next().await.unwrap();
        assert_eq!(hello["num_connections"], number);
        links.push(link);
    }
    let mut more = Link::open(&playground).await;
    assert_eq!(more.next().await.unwrap()["reason"], "too_many_websockets");
    assert_eq!(more.next().await, None);
    playground.disconnect(Farewell::Warning);
    for link in &mut links {
        assert_eq!(link.next().await.unwrap()["reason"], "warning");
    }
    assert_eq!(playground.sockets(), 10);
    playground.disconnect(Farewell::RefreshRequested);
    for link in &mut links {
        let told = link.next().await.unwrap();
        assert_eq!(
            (&told["type"], &told["reason"]),
            (&json!("disconnect"), &json!("refresh_requested"))
        );
        assert_eq!(link.next().await, None);
    }
    // An event waits for a socket as long as it would for an acknowledgement.
    playground.post(seed::HANA, seed::DM_HANA, "hi").unwrap();
    let mut link = Link::open(&playground).await;
    link.next().await.unwrap();
    let told = link.next().await.unwrap();
    assert_eq!(told["payload"]["event"]["text"], "hi");
    playground.disconnect(Farewell::Cut);
    assert_eq!(link.next().await, None);
}
