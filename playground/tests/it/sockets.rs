//! Socket Mode: tickets, hello, acknowledgements, disconnects.

use crate::support::{TIMEOUT, TestBot};
use futures_util::{SinkExt, StreamExt};
use interzone_playground::{DeliveryMode, DisconnectReason, Playground, PlaygroundOptions, seed};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

struct TestSocket(WebSocketStream<TcpStream>);

impl TestSocket {
    async fn open(playground: &Playground) -> Self {
        let mut bot = TestBot::new(playground);
        bot.token = "xapp-playground-app".to_owned();
        let url = bot.call_ok("apps.connections.open", &[]).await;
        let url = url["url"].as_str().unwrap().to_owned();
        let stream = TcpStream::connect(playground.address()).await.unwrap();
        let (socket, _) = tokio_tungstenite::client_async(&url, stream).await.unwrap();
        // A ticket is valid for one socket.
        let stream = TcpStream::connect(playground.address()).await.unwrap();
        assert!(tokio_tungstenite::client_async(&url, stream).await.is_err());
        Self(socket)
    }

    /// Returns the next message; `None` after the close.
    async fn next_message(&mut self) -> Option<Value> {
        loop {
            let next = tokio::time::timeout(TIMEOUT, self.0.next()).await;
            match next.expect("no message was received")? {
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
        mode: DeliveryMode::Socket,
        ack_timeout: Duration::from_secs(1),
        retry_delays: vec![Duration::ZERO; 3],
        ..PlaygroundOptions::default()
    };
    Playground::start(options).await.unwrap()
}

#[tokio::test]
async fn events_are_resent_until_acknowledged() {
    let playground = start().await;
    let mut link = TestSocket::open(&playground).await;
    let hello = link.next_message().await.unwrap();
    assert_eq!(hello["type"], "hello");
    assert_eq!(hello["num_connections"], 1);
    assert_eq!(hello["connection_info"]["app_id"], seed::APP);
    playground.post(seed::HANA, seed::DM_HANA, "hi").unwrap();
    let first = link.next_message().await.unwrap();
    assert_eq!(first["type"], "events_api");
    assert_eq!(first["retry_attempt"], 0);
    assert_eq!(first["payload"]["event"]["text"], "hi");
    // It is not acknowledged, so it is sent again.
    let again = link.next_message().await.unwrap();
    assert_eq!(again["retry_attempt"], 1);
    assert_eq!(again["payload"], first["payload"]);
    link.acknowledge(&again).await;
    let arrived = playground.wait_for(TIMEOUT, |workspace| {
        let mut all = workspace.deliveries();
        all.find(|delivery| delivery.outcome == "ok").cloned()
    });
    assert_eq!(arrived.await.unwrap().attempt, 1);
}

#[tokio::test]
async fn sockets_close_with_a_reason_and_are_limited_to_ten() {
    let playground = start().await;
    let mut links = Vec::new();
    for number in 1..=10 {
        let mut link = TestSocket::open(&playground).await;
        let hello = link.next_message().await.unwrap();
        assert_eq!(hello["num_connections"], number);
        links.push(link);
    }
    let mut more = TestSocket::open(&playground).await;
    assert_eq!(
        more.next_message().await.unwrap()["reason"],
        "too_many_websockets"
    );
    assert_eq!(more.next_message().await, None);
    playground.disconnect(DisconnectReason::Warning);
    for link in &mut links {
        assert_eq!(link.next_message().await.unwrap()["reason"], "warning");
    }
    assert_eq!(playground.socket_count(), 10);
    playground.disconnect(DisconnectReason::RefreshRequested);
    for link in &mut links {
        let message = link.next_message().await.unwrap();
        assert_eq!(
            (&message["type"], &message["reason"]),
            (&json!("disconnect"), &json!("refresh_requested"))
        );
        assert_eq!(link.next_message().await, None);
    }
    // An event waits for a socket as long as for an acknowledgement.
    playground.post(seed::HANA, seed::DM_HANA, "hi").unwrap();
    let mut link = TestSocket::open(&playground).await;
    link.next_message().await.unwrap();
    let message = link.next_message().await.unwrap();
    assert_eq!(message["payload"]["event"]["text"], "hi");
    playground.disconnect(DisconnectReason::Dropped);
    assert_eq!(link.next_message().await, None);
}
