//! Sockets against the other end: in paused time over bytes in memory, and once over a real one.

use super::connect::{Connect, ConnectError, Socket, over};
use super::{Ack, Envelopes, SocketMode, SocketState, Stopped};
use crate::slack::api::{Method, Slack, SlackError};
use crate::slack::fake::{FakeSlack, Reply};
use crate::slack::tokens::BotToken;
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use interzone_edge::budget::ShareKey;
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::Listener;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{DevCa, ServerTls, TlsFiles, Trust};
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

/// Hands the other end of each socket to the test.
struct InMemory {
    ends: mpsc::UnboundedSender<Socket>,
    attempts: Mutex<Vec<Instant>>,
    refuse: Mutex<Option<SlackError>>,
}

#[async_trait]
impl Connect for InMemory {
    async fn connect(&self) -> Result<Socket, ConnectError> {
        self.attempts.lock().unwrap().push(Instant::now());
        if let Some(error) = self.refuse.lock().unwrap().clone() {
            return Err(error.into());
        }
        let (here, there) = tokio::io::duplex(1 << 16);
        let theirs = over(Box::new(there), Role::Server).await;
        let _ = self.ends.send(theirs);
        Ok(over(Box::new(here), Role::Client).await)
    }
}

/// Does with an envelope what its payload says.
#[derive(Default)]
struct Handler {
    seen: Mutex<Vec<(String, String)>>,
    arrived: Notify,
    go: Notify,
}

#[async_trait]
impl Envelopes for Handler {
    async fn envelope(&self, kind: &str, payload: Bytes) -> Ack {
        let text = String::from_utf8(payload.to_vec()).unwrap();
        let seen = (kind.to_owned(), text.clone());
        self.seen.lock().unwrap().push(seen);
        self.arrived.notify_one();
        match text.as_str() {
            r#""wait""# => self.go.notified().await,
            r#""hang""# => std::future::pending().await,
            r#""panic""# => panic!("as the test wants"),
            r#""later""# => return Ack::Later,
            _ => {}
        }
        Ack::Done
    }
}

struct Rig {
    handler: Arc<Handler>,
    connect: Arc<InMemory>,
    ends: mpsc::UnboundedReceiver<Socket>,
    mode: Arc<SocketMode>,
    stop: CancellationToken,
    running: JoinHandle<Stopped>,
}

fn rig() -> Rig {
    let (send, ends) = mpsc::unbounded_channel();
    let connect = Arc::new(InMemory {
        ends: send,
        attempts: Mutex::default(),
        refuse: Mutex::default(),
    });
    let handler = Arc::new(Handler::default());
    let mode = SocketMode::over(connect.clone(), handler.clone());
    let mode = Arc::new(mode);
    let stop = CancellationToken::new();
    let (run, token) = (mode.clone(), stop.clone());
    Rig {
        handler,
        connect,
        ends,
        mode,
        stop,
        running: tokio::spawn(async move { run.run(token).await }),
    }
}

impl Rig {
    /// The other end of the next socket.
    async fn next(&mut self) -> Socket {
        self.ends.recv().await.unwrap()
    }

    /// The same, after it said hello.
    async fn greeted(&mut self) -> Socket {
        let mut socket = self.next().await;
        say(&mut socket, json!({"type": "hello", "num_connections": 1})).await;
        socket
    }

    async fn until(&self, state: SocketState) {
        let mut states = self.mode.state();
        states.wait_for(|now| *now == state).await.unwrap();
    }

    fn attempts(&self) -> usize {
        self.connect.attempts.lock().unwrap().len()
    }
}

async fn say(socket: &mut Socket, value: Value) {
    socket.send(Message::text(value.to_string())).await.unwrap();
}

async fn envelope(socket: &mut Socket, id: &str, payload: &str) {
    let envelope = json!({
        "type": "events_api", "envelope_id": id, "payload": payload, "accepts_response_payload": false,
    });
    say(socket, envelope).await;
}

/// The next text, whatever signs of life come before; none if the socket ends.
async fn text(socket: &mut Socket) -> Option<Value> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return Some(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
            Some(Ok(_)) => {}
        }
    }
}

async fn acked(socket: &mut Socket, id: &str) {
    assert_eq!(text(socket).await, Some(json!({"envelope_id": id})));
}

fn disconnect(reason: &str) -> Value {
    json!({"type": "disconnect", "reason": reason, "debug_info": {"host": "x"}})
}

#[tokio::test(start_paused = true)]
async fn an_envelope_is_acknowledged_when_it_is_kept_and_not_before() {
    let mut rig = rig();
    assert_eq!(*rig.mode.state().borrow(), SocketState::Connecting);
    let mut socket = rig.greeted().await;
    rig.until(SocketState::Connected).await;
    envelope(&mut socket, "e1", "wait").await;
    rig.handler.arrived.notified().await;
    envelope(&mut socket, "e2", "x").await;
    acked(&mut socket, "e2").await;
    rig.handler.go.notify_one();
    acked(&mut socket, "e1").await;
    let seen = rig.handler.seen.lock().unwrap().clone();
    let expected = [("events_api", "\"wait\""), ("events_api", "\"x\"")];
    assert_eq!(seen, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_kept_or_takes_too_long_is_not_acknowledged() {
    let mut rig = rig();
    let mut socket = rig.greeted().await;
    envelope(&mut socket, "e1", "later").await;
    envelope(&mut socket, "e2", "hang").await;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(31) {
        let second = Duration::from_secs(1);
        let heard = tokio::time::timeout(second, text(&mut socket)).await;
        assert!(heard.is_err(), "{heard:?}");
    }
    envelope(&mut socket, "e3", "x").await;
    acked(&mut socket, "e3").await;
}

#[tokio::test(start_paused = true)]
async fn the_payload_comes_as_it_was_written_and_nonsense_is_passed_over() {
    let mut rig = rig();
    let mut socket = rig.greeted().await;
    for nonsense in ["", "{", "[]", "{\"type\":7}", "{\"type\":\"events_api\"}"] {
        socket.send(Message::text(nonsense)).await.unwrap();
    }
    socket.send(Message::binary(vec![0, 1])).await.unwrap();
    let raw = r#"{ "n" : 1.0000000000000000001, "t":"\u3042" }"#;
    let whole = format!(r#"{{"type":"interactive","envelope_id":"a\"b","payload":{raw}}}"#);
    socket.send(Message::text(whole)).await.unwrap();
    acked(&mut socket, "a\"b").await;
    let seen = rig.handler.seen.lock().unwrap().clone();
    assert_eq!(seen, [("interactive".to_owned(), raw.to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_slack_takes_away_works_beside_its_successor() {
    for reason in ["warning", "refresh_requested"] {
        let mut rig = rig();
        let mut old = rig.greeted().await;
        rig.until(SocketState::Connected).await;
        tokio::time::advance(Duration::from_secs(60)).await;
        say(&mut old, disconnect(reason)).await;
        say(&mut old, disconnect(reason)).await;
        let asked = Instant::now();
        let mut new = rig.greeted().await;
        assert_eq!(asked.elapsed(), Duration::ZERO, "at once");
        envelope(&mut old, "e1", "x").await;
        envelope(&mut new, "e2", "x").await;
        acked(&mut old, "e1").await;
        acked(&mut new, "e2").await;
        assert_eq!(text(&mut old).await, None, "it is closed in the end");
        assert_eq!(asked.elapsed(), Duration::from_secs(30));
        assert_eq!(*rig.mode.state().borrow(), SocketState::Connected);
        envelope(&mut new, "e3", "x").await;
        acked(&mut new, "e3").await;
        assert_eq!(
            rig.attempts(),
            2,
            "one successor, however often it was said"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_falls_silent_is_replaced() {
    let mut rig = rig();
    let began = Instant::now();
    let silent = rig.greeted().await;
    let mut new = rig.greeted().await;
    assert_eq!(began.elapsed(), Duration::from_secs(75));
    envelope(&mut new, "e1", "x").await;
    acked(&mut new, "e1").await;
    drop(silent);
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_answers_pings_is_kept() {
    let mut rig = rig();
    let mut socket = rig.greeted().await;
    let mut pings = 0;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(600) {
        if let Some(Ok(Message::Ping(_))) = socket.next().await {
            pings += 1;
        }
    }
    assert_eq!(pings, 20, "one in thirty seconds");
    assert_eq!(rig.attempts(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_socket_without_a_hello_is_replaced() {
    let mut rig = rig();
    let began = Instant::now();
    let _mute = rig.next().await;
    let _new = rig.next().await;
    let waited = began.elapsed();
    assert!(waited >= Duration::from_millis(10_500), "{waited:?}");
    assert!(waited <= Duration::from_secs(11), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_breaks_or_says_too_much_is_replaced() {
    let mut rig = rig();
    drop(rig.greeted().await);
    let mut large = rig.greeted().await;
    let much = Message::text("x".repeat((1 << 20) + 1));
    // It may be gone before all of it is written.
    let _ = tokio::join!(large.send(much), async {
        rig.next().await;
    });
    assert_eq!(rig.attempts(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_takes_one_socket_down_and_no_more() {
    let mut rig = rig();
    let mut socket = rig.greeted().await;
    envelope(&mut socket, "e1", "panic").await;
    let mut new = rig.greeted().await;
    envelope(&mut new, "e2", "x").await;
    acked(&mut new, "e2").await;
}

#[tokio::test(start_paused = true)]
async fn many_envelopes_at_once_are_bounded_and_none_is_lost() {
    let mut rig = rig();
    let mut socket = rig.greeted().await;
    for number in 0..100 {
        envelope(&mut socket, &format!("e{number}"), "wait").await;
    }
    for _ in 0..64 {
        rig.handler.arrived.notified().await;
        tokio::task::yield_now().await;
        if rig.handler.seen.lock().unwrap().len() >= 64 {
            break;
        }
    }
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(rig.handler.seen.lock().unwrap().len(), 64);
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..100 {
        rig.handler.go.notify_waiters();
        rig.handler.go.notify_one();
        let ack = text(&mut socket).await.unwrap();
        ids.insert(ack["envelope_id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn when_socket_mode_is_turned_off_it_stops_and_says_so() {
    let mut rig = rig();
    let mut socket = rig.greeted().await;
    say(&mut socket, disconnect("link_disabled")).await;
    assert_eq!(rig.running.await.unwrap(), Stopped::LinkDisabled);
    let SocketState::Refused(why) = rig.mode.state().borrow().clone() else {
        panic!("it does not say so")
    };
    assert!(why.contains("Socket Mode is turned off"), "{why}");
    assert_eq!(rig.connect.attempts.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn too_many_sockets_make_it_wait_long() {
    let mut rig = rig();
    let mut socket = rig.greeted().await;
    let began = Instant::now();
    say(&mut socket, disconnect("too_many_websockets")).await;
    rig.next().await;
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(15), "{waited:?}");
    assert!(waited <= Duration::from_secs(30), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn nothing_makes_it_hammer_at_the_door() {
    let mut rig = rig();
    let began = Instant::now();
    // Each one says hello, is taken away at once, and breaks.
    while began.elapsed() < Duration::from_secs(600) {
        let mut socket = rig.greeted().await;
        say(&mut socket, disconnect("refresh_requested")).await;
    }
    let attempts = rig.attempts();
    assert!((10..=30).contains(&attempts), "{attempts}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_token_is_said_and_tried_again_later() {
    let mut rig = rig();
    let refusal = SlackError::said(Method::AppsConnectionsOpen, "invalid_auth");
    *rig.connect.refuse.lock().unwrap() = Some(refusal);
    let mut states = rig.mode.state();
    let refused = |state: &SocketState| matches!(state, SocketState::Refused(_));
    let why = states.wait_for(refused).await.unwrap().clone();
    assert!(format!("{why:?}").contains("app_token_file"), "{why:?}");
    *rig.connect.refuse.lock().unwrap() = Some(SlackError::RateLimited {
        method: Method::AppsConnectionsOpen,
        after: Duration::from_secs(200),
    });
    rig.until(SocketState::Connecting).await;
    let limited = Instant::now();
    *rig.connect.refuse.lock().unwrap() = None;
    let _socket = rig.greeted().await;
    assert_eq!(limited.elapsed(), Duration::from_secs(200));
    rig.until(SocketState::Connected).await;
    let attempts = rig.connect.attempts.lock().unwrap().clone();
    let first = attempts[1] - attempts[0];
    assert!(first >= Duration::from_secs(15), "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_what_was_begun_be_finished() {
    let mut rig = rig();
    let mut socket = rig.greeted().await;
    envelope(&mut socket, "e1", "wait").await;
    envelope(&mut socket, "e2", "hang").await;
    rig.handler.arrived.notified().await;
    rig.stop.cancel();
    rig.handler.go.notify_one();
    acked(&mut socket, "e1").await;
    let began = Instant::now();
    assert_eq!(rig.running.await.unwrap(), Stopped::Asked);
    assert!(began.elapsed() <= Duration::from_secs(5), "and no longer");
    assert_eq!(text(&mut socket).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_heard_while_there_is_no_socket() {
    let rig = rig();
    let error = SlackError::TimedOut { what: "x" };
    *rig.connect.refuse.lock().unwrap() = Some(error);
    tokio::time::advance(Duration::from_secs(300)).await;
    rig.stop.cancel();
    assert_eq!(rig.running.await.unwrap(), Stopped::Asked);
}

#[tokio::test]
async fn over_a_real_connection_the_token_goes_to_the_api_alone() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let link = format!("ws://{}/link/?ticket=1", listener.local_addr().unwrap());
    let fake = FakeSlack::start(move |_| Reply::Json(json!({"ok": true, "url": link}))).await;
    let slack = Slack::new(&fake.api(), &Trust::system()).unwrap();
    let token = BotToken::new("xapp-1").unwrap();
    let handler = Arc::new(Handler::default());
    let mode = SocketMode::new(slack, token, &Trust::system(), handler).unwrap();
    let stop = CancellationToken::new();
    let token = stop.clone();
    let running = tokio::spawn(async move { mode.run(token).await });
    let (connection, _) = listener.accept().await.unwrap();
    let heads = Arc::new(OnceLock::new());
    let kept = heads.clone();
    #[expect(
        clippy::result_large_err,
        reason = "the shape that the handshake asks for"
    )]
    let look = move |request: &http::Request<()>, response: http::Response<()>| {
        kept.set((request.uri().clone(), request.headers().clone()))
            .unwrap();
        Ok(response)
    };
    let socket = tokio_tungstenite::accept_hdr_async(connection, look).await;
    let mut socket = socket.unwrap();
    let (uri, headers) = heads.get().unwrap();
    assert_eq!(uri.to_string(), "/link/?ticket=1");
    assert!(headers.get("authorization").is_none());
    let asked = &fake.seen()[0];
    assert_eq!(asked.method(), "apps.connections.open");
    assert_eq!(asked.header("authorization"), Some("Bearer xapp-1"));
    let hello = json!({"type": "hello"}).to_string();
    socket.send(Message::text(hello)).await.unwrap();
    let event = json!({"type": "events_api", "envelope_id": "e1", "payload": {}});
    socket.send(Message::text(event.to_string())).await.unwrap();
    let Some(Ok(Message::Text(ack))) = socket.next().await else {
        panic!("no answer")
    };
    assert_eq!(ack.as_str(), r#"{"envelope_id":"e1"}"#);
    stop.cancel();
    assert_eq!(running.await.unwrap(), Stopped::Asked);
    assert!(matches!(socket.next().await, Some(Ok(Message::Close(_)))));
}

/// A zone's own door with TLS, which offers HTTP/2 as well, as Slack's does.
#[tokio::test]
async fn over_tls_the_socket_is_opened_with_the_trust_that_is_configured() {
    let folder = tempfile::tempdir().unwrap();
    let files = DevCa::open_or_make(folder.path(), &[]).unwrap();
    let tls = ServerTls::load(&TlsFiles {
        cert: files.cert,
        key: files.key,
        client_ca: None,
    });
    let tls = tls.unwrap();
    let (limits, metrics) = (HttpLimits::default(), Arc::new(Metrics::new()));
    let address = "127.0.0.1:0".parse().unwrap();
    let door = Listener::bind(address, tls, limits.clone(), metrics)
        .await
        .unwrap();
    let port = door.local_addr().port();
    let answer = move |request: axum::extract::Request| {
        let (mut parts, _) = request.into_parts();
        let upgraded = interzone_edge::socket::upgrade(&mut parts, &limits, ShareKey::Unattributed);
        async move {
            let Some((response, upgrade)) = upgraded else {
                let link = format!("wss://localhost:{port}/link");
                let open = json!({"ok": true, "url": link}).to_string();
                return http::Response::new(axum::body::Body::from(open));
            };
            tokio::spawn(async move {
                let mut socket = upgrade.socket().await.unwrap();
                socket
                    .say(Bytes::from_static(br#"{"type":"hello"}"#))
                    .await
                    .unwrap();
                while !matches!(socket.recv().await, interzone_edge::socket::Heard::End) {}
            });
            response
        }
    };
    let stop = CancellationToken::new();
    let routes = axum::Router::new().fallback(answer);
    let serving = tokio::spawn(door.serve(routes, stop.clone(), Duration::from_secs(5)));
    let api = format!("https://localhost:{port}/api/");
    let mode = |trust: &Trust| {
        let slack = Slack::new(&api, trust).unwrap();
        let token = BotToken::new("xapp-1").unwrap();
        let handler = Arc::new(Handler::default());
        Arc::new(SocketMode::new(slack, token, trust, handler).unwrap())
    };
    let trusting = mode(&Trust::system_and(&[files.ca]).unwrap());
    let (run, token) = (trusting.clone(), stop.clone());
    let running = tokio::spawn(async move { run.run(token).await });
    let mut states = trusting.state();
    let connected = states.wait_for(|now| *now == SocketState::Connected);
    connected.await.unwrap();
    let strange = mode(&Trust::system())
        .connect
        .connect()
        .await
        .err()
        .unwrap();
    let ConnectError::Slack(SlackError::Unreachable { .. }) = strange else {
        panic!("{strange:?}")
    };
    stop.cancel();
    assert_eq!(running.await.unwrap(), Stopped::Asked);
    serving.await.unwrap();
}

#[tokio::test]
async fn an_address_that_is_not_slacks_or_no_websocket_is_not_used() {
    let other = FakeSlack::start(|_| Reply::status(200, &[], "hello")).await;
    let plain = other.origin.replace("http://", "ws://");
    let next = Arc::new(Mutex::new(String::new()));
    let told = next.clone();
    let fake =
        FakeSlack::start(move |_| Reply::Json(json!({"ok": true, "url": *told.lock().unwrap()})))
            .await;
    let slack = Slack::new(&fake.api(), &Trust::system()).unwrap();
    let token = BotToken::new("xapp-1").unwrap();
    let connect = super::OverHttp::new(slack, token, &Trust::system()).unwrap();
    for address in [
        "wss://evil.example/link",
        "ws://wss-primary.slack.com/link",
        "https://wss-primary.slack.com/link",
        "wss://wss-primary.slack.com:8443/link",
        "nothing",
    ] {
        address.clone_into(&mut next.lock().unwrap());
        let error = connect.connect().await.err().unwrap();
        assert!(
            matches!(error, ConnectError::Address),
            "{address} {error:?}"
        );
    }
    *next.lock().unwrap() = plain;
    let error = connect.connect().await.err().unwrap();
    assert!(matches!(error, ConnectError::NoWebSocket), "{error:?}");
    assert_eq!(other.seen().len(), 1);
}
