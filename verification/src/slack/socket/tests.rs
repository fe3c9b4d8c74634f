//! Tests of Socket Mode: with in-memory sockets in paused time, and over real connections.

use super::connect::{ConnectError, SlackSocket, SocketConnector, websocket};
use super::{EnvelopeAck, EnvelopeHandler, SocketMode, SocketState, SocketStopReason};
use crate::slack::api::{Slack, SlackError, SlackMethod};
use crate::slack::fake::{FakeReply, FakeSlack};
use crate::slack::tokens::BotToken;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use interzone_edge::budget::ShareKey;
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::Listener;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{DevCa, ServerTls, TlsFiles, TrustRoots};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use tokio_util::sync::CancellationToken;

/// Connector that hands the server end of each socket to the test.
struct InMemoryConnector {
    server_ends: mpsc::UnboundedSender<SlackSocket>,
    attempts: Mutex<Vec<Instant>>,
    error: Mutex<Option<SlackError>>,
}

#[async_trait]
impl SocketConnector for InMemoryConnector {
    async fn connect(&self) -> Result<SlackSocket, ConnectError> {
        self.attempts.lock().unwrap().push(Instant::now());
        if let Some(error) = self.error.lock().unwrap().clone() {
            return Err(error.into());
        }
        let (client_end, server_end) = tokio::io::duplex(1 << 16);
        let server = websocket(Box::new(server_end), Role::Server).await;
        let _ = self.server_ends.send(server);
        Ok(websocket(Box::new(client_end), Role::Client).await)
    }
}

/// Handler that acts as the payload says.
#[derive(Default)]
struct ScriptedHandler {
    envelopes: Mutex<Vec<(String, String)>>,
    received: Notify,
    release: Notify,
}

#[async_trait]
impl EnvelopeHandler for ScriptedHandler {
    async fn handle(&self, kind: &str, payload: Bytes) -> EnvelopeAck {
        let text = String::from_utf8(payload.to_vec()).unwrap();
        let envelope = (kind.to_owned(), text.clone());
        self.envelopes.lock().unwrap().push(envelope);
        self.received.notify_one();
        match text.as_str() {
            r#""wait""# => self.release.notified().await,
            r#""hang""# => std::future::pending().await,
            r#""panic""# => panic!("requested by the test"),
            r#""later""# => return EnvelopeAck::Retry,
            _ => {}
        }
        EnvelopeAck::Done
    }
}

struct SocketFixture {
    handler: Arc<ScriptedHandler>,
    connector: Arc<InMemoryConnector>,
    server_ends: mpsc::UnboundedReceiver<SlackSocket>,
    client: Arc<SocketMode>,
    stop: CancellationToken,
    task: JoinHandle<SocketStopReason>,
}

fn fixture() -> SocketFixture {
    let (server_ends_tx, ends) = mpsc::unbounded_channel();
    let connector = Arc::new(InMemoryConnector {
        server_ends: server_ends_tx,
        attempts: Mutex::default(),
        error: Mutex::default(),
    });
    let handler = Arc::new(ScriptedHandler::default());
    let client = SocketMode::with_connector(connector.clone(), handler.clone());
    let mode = Arc::new(client);
    let stop = CancellationToken::new();
    let (runner, token) = (mode.clone(), stop.clone());
    SocketFixture {
        handler,
        connector,
        server_ends: ends,
        client: mode,
        stop,
        task: tokio::spawn(async move { runner.run(token).await }),
    }
}

impl SocketFixture {
    /// Returns the server end of the next socket.
    async fn next_socket(&mut self) -> SlackSocket {
        self.server_ends.recv().await.unwrap()
    }

    /// Returns the server end of the next socket, after its hello.
    async fn next_socket_with_hello(&mut self) -> SlackSocket {
        let mut socket = self.next_socket().await;
        send_json(&mut socket, json!({"type": "hello", "num_connections": 1})).await;
        socket
    }

    async fn wait_for_state(&self, state: SocketState) {
        let mut states = self.client.state();
        states.wait_for(|current| *current == state).await.unwrap();
    }

    fn attempts(&self) -> usize {
        self.connector.attempts.lock().unwrap().len()
    }
}

async fn send_json(socket: &mut SlackSocket, value: Value) {
    socket.send(Message::text(value.to_string())).await.unwrap();
}

async fn send_envelope(socket: &mut SlackSocket, id: &str, payload: &str) {
    let envelope = json!({
        "type": "events_api", "envelope_id": id, "payload": payload, "accepts_response_payload": false,
    });
    send_json(socket, envelope).await;
}

/// Returns the next text message, skipping pings; `None` if the socket ends.
async fn next_json(socket: &mut SlackSocket) -> Option<Value> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
            Some(Ok(_)) => {}
        }
    }
}

async fn assert_acked(socket: &mut SlackSocket, id: &str) {
    assert_eq!(next_json(socket).await, Some(json!({"envelope_id": id})));
}

fn disconnect_message(reason: &str) -> Value {
    json!({"type": "disconnect", "reason": reason, "debug_info": {"host": "x"}})
}

#[tokio::test(start_paused = true)]
async fn envelope_is_acked_only_after_handling() {
    let mut rig = fixture();
    assert_eq!(*rig.client.state().borrow(), SocketState::Connecting);
    let mut socket = rig.next_socket_with_hello().await;
    rig.wait_for_state(SocketState::Connected).await;
    send_envelope(&mut socket, "e1", "wait").await;
    rig.handler.received.notified().await;
    send_envelope(&mut socket, "e2", "x").await;
    assert_acked(&mut socket, "e2").await;
    rig.handler.release.notify_one();
    assert_acked(&mut socket, "e1").await;
    let envelopes = rig.handler.envelopes.lock().unwrap().clone();
    let expected = [("events_api", "\"wait\""), ("events_api", "\"x\"")];
    assert_eq!(
        envelopes,
        expected.map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
}

#[tokio::test(start_paused = true)]
async fn failed_or_slow_envelope_is_not_acked() {
    let mut rig = fixture();
    let mut socket = rig.next_socket_with_hello().await;
    send_envelope(&mut socket, "e1", "later").await;
    send_envelope(&mut socket, "e2", "hang").await;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(31) {
        let second = Duration::from_secs(1);
        let message = tokio::time::timeout(second, next_json(&mut socket)).await;
        assert!(message.is_err(), "{message:?}");
    }
    send_envelope(&mut socket, "e3", "x").await;
    assert_acked(&mut socket, "e3").await;
}

#[tokio::test(start_paused = true)]
async fn payload_is_passed_verbatim_and_invalid_frames_ignored() {
    let mut rig = fixture();
    let mut socket = rig.next_socket_with_hello().await;
    for invalid in ["", "{", "[]", "{\"type\":7}", "{\"type\":\"events_api\"}"] {
        socket.send(Message::text(invalid)).await.unwrap();
    }
    socket.send(Message::binary(vec![0, 1])).await.unwrap();
    let raw = r#"{ "n" : 1.0000000000000000001, "t":"\u3042" }"#;
    let frame = format!(r#"{{"type":"interactive","envelope_id":"a\"b","payload":{raw}}}"#);
    socket.send(Message::text(frame)).await.unwrap();
    assert_acked(&mut socket, "a\"b").await;
    let envelopes = rig.handler.envelopes.lock().unwrap().clone();
    assert_eq!(envelopes, [("interactive".to_owned(), raw.to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn closing_socket_works_beside_its_replacement() {
    for reason in ["warning", "refresh_requested"] {
        let mut rig = fixture();
        let mut old = rig.next_socket_with_hello().await;
        rig.wait_for_state(SocketState::Connected).await;
        tokio::time::advance(Duration::from_secs(60)).await;
        send_json(&mut old, disconnect_message(reason)).await;
        send_json(&mut old, disconnect_message(reason)).await;
        let announced = Instant::now();
        let mut new = rig.next_socket_with_hello().await;
        assert_eq!(announced.elapsed(), Duration::ZERO, "without delay");
        send_envelope(&mut old, "e1", "x").await;
        send_envelope(&mut new, "e2", "x").await;
        assert_acked(&mut old, "e1").await;
        assert_acked(&mut new, "e2").await;
        assert_eq!(next_json(&mut old).await, None, "closed after draining");
        assert_eq!(announced.elapsed(), Duration::from_secs(30));
        assert_eq!(*rig.client.state().borrow(), SocketState::Connected);
        send_envelope(&mut new, "e3", "x").await;
        assert_acked(&mut new, "e3").await;
        assert_eq!(
            rig.attempts(),
            2,
            "one replacement for repeated announcements"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn silent_socket_is_replaced() {
    let mut rig = fixture();
    let started = Instant::now();
    let silent = rig.next_socket_with_hello().await;
    let mut new = rig.next_socket_with_hello().await;
    assert_eq!(started.elapsed(), Duration::from_secs(75));
    send_envelope(&mut new, "e1", "x").await;
    assert_acked(&mut new, "e1").await;
    drop(silent);
}

#[tokio::test(start_paused = true)]
async fn socket_answering_pings_stays_open() {
    let mut rig = fixture();
    let mut socket = rig.next_socket_with_hello().await;
    let mut pings = 0;
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(600) {
        if let Some(Ok(Message::Ping(_))) = socket.next().await {
            pings += 1;
        }
    }
    assert_eq!(pings, 20, "one per 30 seconds");
    assert_eq!(rig.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn socket_without_hello_is_replaced() {
    let mut rig = fixture();
    let started = Instant::now();
    let _silent = rig.next_socket().await;
    let _new = rig.next_socket().await;
    let waited = started.elapsed();
    assert!(waited >= Duration::from_millis(10_500), "{waited:?}");
    assert!(waited <= Duration::from_secs(11), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn broken_or_oversized_socket_is_replaced() {
    let mut rig = fixture();
    drop(rig.next_socket_with_hello().await);
    let mut large = rig.next_socket_with_hello().await;
    let oversized = Message::text("x".repeat((1 << 20) + 1));
    // The socket may be closed before everything is written.
    let _ = tokio::join!(large.send(oversized), async {
        rig.next_socket().await;
    });
    assert_eq!(rig.attempts(), 3);
}

#[tokio::test(start_paused = true)]
async fn handler_panic_closes_one_socket_only() {
    let mut rig = fixture();
    let mut socket = rig.next_socket_with_hello().await;
    send_envelope(&mut socket, "e1", "panic").await;
    let mut new = rig.next_socket_with_hello().await;
    send_envelope(&mut new, "e2", "x").await;
    assert_acked(&mut new, "e2").await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_envelopes_are_bounded_and_none_is_lost() {
    let mut rig = fixture();
    let mut socket = rig.next_socket_with_hello().await;
    for index in 0..100 {
        send_envelope(&mut socket, &format!("e{index}"), "wait").await;
    }
    for _ in 0..64 {
        rig.handler.received.notified().await;
        tokio::task::yield_now().await;
        if rig.handler.envelopes.lock().unwrap().len() >= 64 {
            break;
        }
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(rig.handler.envelopes.lock().unwrap().len(), 64);
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..100 {
        rig.handler.release.notify_waiters();
        rig.handler.release.notify_one();
        let ack = next_json(&mut socket).await.unwrap();
        ids.insert(ack["envelope_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn disabled_socket_mode_stops_the_client() {
    let mut rig = fixture();
    let mut socket = rig.next_socket_with_hello().await;
    send_json(&mut socket, disconnect_message("link_disabled")).await;
    assert_eq!(rig.task.await.unwrap(), SocketStopReason::LinkDisabled);
    let SocketState::Rejected(reason) = rig.client.state().borrow().clone() else {
        panic!("state is not rejected")
    };
    assert!(reason.contains("Socket Mode is disabled"), "{reason}");
    assert_eq!(rig.connector.attempts.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn too_many_sockets_delays_reconnect() {
    let mut rig = fixture();
    let mut socket = rig.next_socket_with_hello().await;
    let started = Instant::now();
    send_json(&mut socket, disconnect_message("too_many_websockets")).await;
    rig.next_socket().await;
    let waited = started.elapsed();
    assert!(waited >= Duration::from_secs(15), "{waited:?}");
    assert!(waited <= Duration::from_secs(30), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn reconnects_are_backed_off() {
    let mut rig = fixture();
    let started = Instant::now();
    // Each socket gets a hello, is announced to close at once, and breaks.
    while started.elapsed() < Duration::from_secs(600) {
        let mut socket = rig.next_socket_with_hello().await;
        send_json(&mut socket, disconnect_message("refresh_requested")).await;
    }
    let attempts = rig.attempts();
    assert!((10..=30).contains(&attempts), "{attempts}");
}

#[tokio::test(start_paused = true)]
async fn rejected_token_is_reported_and_retried_later() {
    let mut rig = fixture();
    let rejection = SlackError::rejection(SlackMethod::AppsConnectionsOpen, "invalid_auth");
    *rig.connector.error.lock().unwrap() = Some(rejection);
    let mut states = rig.client.state();
    let is_rejected = |state: &SocketState| matches!(state, SocketState::Rejected(_));
    let state = states.wait_for(is_rejected).await.unwrap().clone();
    assert!(format!("{state:?}").contains("app_token_file"), "{state:?}");
    *rig.connector.error.lock().unwrap() = Some(SlackError::RateLimited {
        method: SlackMethod::AppsConnectionsOpen,
        after: Duration::from_secs(200),
    });
    rig.wait_for_state(SocketState::Connecting).await;
    let limited_at = Instant::now();
    *rig.connector.error.lock().unwrap() = None;
    let _socket = rig.next_socket_with_hello().await;
    assert_eq!(limited_at.elapsed(), Duration::from_secs(200));
    rig.wait_for_state(SocketState::Connected).await;
    let attempts = rig.connector.attempts.lock().unwrap().clone();
    let first = attempts[1] - attempts[0];
    assert!(first >= Duration::from_secs(15), "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn shutdown_finishes_envelopes_in_progress() {
    let mut rig = fixture();
    let mut socket = rig.next_socket_with_hello().await;
    send_envelope(&mut socket, "e1", "wait").await;
    send_envelope(&mut socket, "e2", "hang").await;
    rig.handler.received.notified().await;
    rig.stop.cancel();
    rig.handler.release.notify_one();
    assert_acked(&mut socket, "e1").await;
    let started = Instant::now();
    assert_eq!(rig.task.await.unwrap(), SocketStopReason::Requested);
    assert!(
        started.elapsed() <= Duration::from_secs(5),
        "within the grace period"
    );
    assert_eq!(next_json(&mut socket).await, None);
}

#[tokio::test(start_paused = true)]
async fn shutdown_works_while_disconnected() {
    let rig = fixture();
    let error = SlackError::TimedOut { operation: "x" };
    *rig.connector.error.lock().unwrap() = Some(error);
    tokio::time::advance(Duration::from_secs(300)).await;
    rig.stop.cancel();
    assert_eq!(rig.task.await.unwrap(), SocketStopReason::Requested);
}

#[tokio::test]
async fn real_socket_sends_token_to_api_only() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let link = format!("ws://{}/link/?ticket=1", listener.local_addr().unwrap());
    let fake = FakeSlack::start(move |_| FakeReply::Json(json!({"ok": true, "url": link}))).await;
    let slack = Slack::new(&fake.api(), &TrustRoots::system()).unwrap();
    let token = BotToken::new("xapp-1").unwrap();
    let handler = Arc::new(ScriptedHandler::default());
    let mode = SocketMode::new(slack, token, &TrustRoots::system(), handler).unwrap();
    let stop = CancellationToken::new();
    let token = stop.clone();
    let running = tokio::spawn(async move { mode.run(token).await });
    let (connection, _) = listener.accept().await.unwrap();
    let handshake = Arc::new(OnceLock::new());
    let recorded = handshake.clone();
    #[expect(
        clippy::result_large_err,
        reason = "signature required by the handshake callback"
    )]
    let record_handshake = move |request: &http::Request<()>, response: http::Response<()>| {
        recorded
            .set((request.uri().clone(), request.headers().clone()))
            .unwrap();
        Ok(response)
    };
    let socket = tokio_tungstenite::accept_hdr_async(connection, record_handshake).await;
    let mut socket = socket.unwrap();
    let (uri, headers) = handshake.get().unwrap();
    assert_eq!(uri.to_string(), "/link/?ticket=1");
    assert!(headers.get("authorization").is_none());
    let request = &fake.requests()[0];
    assert_eq!(request.method(), "apps.connections.open");
    assert_eq!(request.header("authorization"), Some("Bearer xapp-1"));
    let hello = json!({"type": "hello"}).to_string();
    socket.send(Message::text(hello)).await.unwrap();
    let event = json!({"type": "events_api", "envelope_id": "e1", "payload": {}});
    socket.send(Message::text(event.to_string())).await.unwrap();
    let Some(Ok(Message::Text(ack))) = socket.next().await else {
        panic!("no acknowledgement")
    };
    assert_eq!(ack.as_str(), r#"{"envelope_id":"e1"}"#);
    stop.cancel();
    assert_eq!(running.await.unwrap(), SocketStopReason::Requested);
    assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
}

/// A TLS listener that offers HTTP/2 as well, as Slack does.
#[tokio::test]
async fn tls_socket_uses_configured_trust() {
    let folder = tempfile::tempdir().unwrap();
    let files = DevCa::open_or_create(folder.path(), &[]).unwrap();
    let tls = ServerTls::load(&TlsFiles {
        cert: files.cert,
        key: files.key,
        client_ca: None,
    });
    let tls = tls.unwrap();
    let (limits, metrics) = (HttpLimits::default(), Arc::new(Metrics::new()));
    let address = "127.0.0.1:0".parse().unwrap();
    let listener = Listener::bind(address, tls, limits.clone(), metrics)
        .await
        .unwrap();
    let port = listener.local_addr().port();
    let handler = move |request: axum::extract::Request| {
        let (mut parts, _) = request.into_parts();
        let upgraded =
            interzone_edge::websocket::accept_upgrade(&mut parts, &limits, ShareKey::Unattributed);
        async move {
            let Some((response, upgrade)) = upgraded else {
                let link = format!("wss://localhost:{port}/link");
                let body = json!({"ok": true, "url": link}).to_string();
                return http::Response::new(axum::body::Body::from(body));
            };
            tokio::spawn(async move {
                let mut socket = upgrade.into_socket().await.unwrap();
                socket
                    .send_text(Bytes::from_static(br#"{"type":"hello"}"#))
                    .await
                    .unwrap();
                while !matches!(
                    socket.recv().await,
                    interzone_edge::websocket::WsEvent::Closed
                ) {}
            });
            response
        }
    };
    let stop = CancellationToken::new();
    let routes = axum::Router::new().fallback(handler);
    let server = tokio::spawn(listener.serve(routes, stop.clone(), Duration::from_secs(5)));
    let api = format!("https://localhost:{port}/api/");
    let client = |trust: &TrustRoots| {
        let slack = Slack::new(&api, trust).unwrap();
        let token = BotToken::new("xapp-1").unwrap();
        let handler = Arc::new(ScriptedHandler::default());
        Arc::new(SocketMode::new(slack, token, trust, handler).unwrap())
    };
    let trusted = client(&TrustRoots::system_and_files(&[files.ca]).unwrap());
    let (runner, token) = (trusted.clone(), stop.clone());
    let running = tokio::spawn(async move { runner.run(token).await });
    let mut states = trusted.state();
    let connected = states.wait_for(|current| *current == SocketState::Connected);
    connected.await.unwrap();
    let error = client(&TrustRoots::system())
        .connector
        .connect()
        .await
        .err()
        .unwrap();
    let ConnectError::Slack(SlackError::Unreachable { .. }) = error else {
        panic!("{error:?}")
    };
    stop.cancel();
    assert_eq!(running.await.unwrap(), SocketStopReason::Requested);
    server.await.unwrap();
}

#[tokio::test]
async fn foreign_or_non_websocket_url_is_rejected() {
    let other = FakeSlack::start(|_| FakeReply::status(200, &[], "hello")).await;
    let http_only = other.origin.replace("http://", "ws://");
    let next_url = Arc::new(Mutex::new(String::new()));
    let handler_url = next_url.clone();
    let fake = FakeSlack::start(move |_| {
        FakeReply::Json(json!({"ok": true, "url": *handler_url.lock().unwrap()}))
    })
    .await;
    let slack = Slack::new(&fake.api(), &TrustRoots::system()).unwrap();
    let token = BotToken::new("xapp-1").unwrap();
    let connector = super::HttpSocketConnector::new(slack, token, &TrustRoots::system()).unwrap();
    for address in [
        "wss://evil.example/link",
        "ws://wss-primary.slack.com/link",
        "https://wss-primary.slack.com/link",
        "wss://wss-primary.slack.com:8443/link",
        "nothing",
    ] {
        address.clone_into(&mut next_url.lock().unwrap());
        let error = connector.connect().await.err().unwrap();
        assert!(
            matches!(error, ConnectError::UnsafeUrl),
            "{address} {error:?}"
        );
    }
    *next_url.lock().unwrap() = http_only;
    let error = connector.connect().await.err().unwrap();
    assert!(matches!(error, ConnectError::NoWebSocket), "{error:?}");
    assert_eq!(other.requests().len(), 1);
}
