//! Watchers that stop reading: they are cut off, nobody waits for them, and when they come back they miss
//! nothing and see nothing twice.

use super::soon;
use super::wire::{Raw, tls};
use super::zone::{Setup, Zone, said};
use futures_util::StreamExt;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

/// Together far more than what may be on its way in the buffers of both sides.
const CHUNKS: u64 = 48;
const LENGTH: usize = 250_000;

/// A connection whose own side buffers next to nothing.
async fn narrow(zone: &Zone) -> TlsStream<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 * 1024).unwrap();
    let tcp = socket.connect(zone.address).await.unwrap();
    let connector = TlsConnector::from(tls(&zone.world.authority, None));
    let name = ServerName::try_from("localhost").unwrap();
    connector.connect(name, tcp).await.unwrap()
}

/// Waits until the zone has so many open watches of this kind.
async fn watchers(zone: &Zone, kind: &str, count: u32) {
    let line = format!("interzone_watchers{{kind=\"{kind}\"}} {count}");
    let seen = async { while !zone.metrics().await.lines().any(|it| it == line) {} };
    soon(&line, seen).await;
}

/// The bytes of a chunked body, as far as they came.
fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|at| at == b"\r\n") {
        let length = std::str::from_utf8(&bytes[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        let rest = &bytes[end + 2..];
        body.extend_from_slice(&rest[..length.min(rest.len())]);
        match rest.get(length + 2..) {
            Some(next) => bytes = next,
            None => break,
        }
    }
    body
}

/// The chunk that an event is about.
fn number(notification: &Value) -> Option<u64> {
    notification["params"]["sequence"].as_u64()
}

async fn socket(
    zone: &Zone,
    token: &str,
    path: &str,
    on: TlsStream<TcpStream>,
) -> WebSocketStream<TlsStream<TcpStream>> {
    let mut request = format!("wss://localhost{path}")
        .into_client_request()
        .unwrap();
    let bearer = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    assert!(zone.url.starts_with("https://localhost"));
    let opened = tokio_tungstenite::client_async(request, on).await;
    opened.unwrap().0
}

/// All chunks that come until it ends, one way or another.
async fn chunks(mut socket: WebSocketStream<TlsStream<TcpStream>>) -> Vec<u64> {
    let mut seen = Vec::new();
    while let Some(Ok(frame)) = soon("a frame", socket.next()).await {
        if let Ok(text) = frame.to_text()
            && let Ok(note) = serde_json::from_str::<Value>(text)
        {
            seen.extend(number(&note));
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_does_not_read_is_cut_off_and_holds_nobody_up() {
    let zone = Setup::new().set("limits.stall_time", "1s").start().await;
    let token = zone.token("anna");
    let started = zone.call(&token, "stream.start", json!({})).await;
    let id = started["stream"]["streamId"].as_str().unwrap().to_owned();
    let subject = format!("streams/{id}");

    let mut lazy = narrow(&zone).await;
    let request = format!(
        "GET /{subject}/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    lazy.write_all(request.as_bytes()).await.unwrap();
    let idle = socket(&zone, &token, &format!("/{subject}"), narrow(&zone).await).await;
    watchers(&zone, "sse", 1).await;
    watchers(&zone, "ws", 1).await;

    let mut quick = zone.watch(&token, &subject, None).await;
    let words = "x".repeat(LENGTH);
    let speaking = async {
        for sequence in 1..=CHUNKS {
            let chunk = json!({"streamId": id, "chunk": said(&words), "sequence": sequence});
            zone.call(&token, "stream.chunk", chunk).await;
        }
    };
    let last = |event: &super::watching::Event| number(&event.data) == Some(CHUNKS);
    let ((), heard) = tokio::join!(speaking, quick.until(last));
    let all: Vec<u64> = (1..=CHUNKS).collect();
    let heard: Vec<u64> = heard
        .iter()
        .filter_map(|event| number(&event.data))
        .collect();
    assert_eq!(heard, all, "whoever reads sees all of it");

    // Only the one that reads is left. Reading before that would be no stopping.
    watchers(&zone, "sse", 1).await;
    watchers(&zone, "ws", 0).await;
    zone.serves().await;

    let mut bytes = Vec::new();
    // The connection was cut, not closed, which is an error at this end.
    let _ = soon("what was sent", lazy.read_to_end(&mut bytes)).await;
    let end = bytes.windows(4).position(|at| at == b"\r\n\r\n").unwrap();
    let body = String::from_utf8(unchunked(&bytes[end + 4..])).unwrap();
    // What came whole, and its place.
    let whole = body.rsplit_once("\n\n").map_or("", |(whole, _)| whole);
    let mut place = None;
    let mut seen = Vec::new();
    for block in whole.split("\n\n") {
        for line in block.lines() {
            if let Some(data) = line.strip_prefix("data: ") {
                seen.extend(number(&serde_json::from_str(data).unwrap()));
            } else if let Some(id) = line.strip_prefix("id: ") {
                place = id.parse().ok();
            }
        }
    }
    assert!(seen.len() < all.len(), "it was cut off");
    let mut again = zone.watch(&token, &subject, place).await;
    if seen.last() != Some(&CHUNKS) {
        let rest = again.until(last).await;
        seen.extend(rest.iter().filter_map(|event| number(&event.data)));
    }
    assert_eq!(seen, all, "by SSE: no gap, no double");

    let mut seen = chunks(idle).await;
    assert!(seen.len() < all.len(), "it was cut off");
    // The stream's beginning is the first event, so each chunk's place is one further on.
    let place = seen.last().map_or(0, |sequence| sequence + 1);
    let path = format!("/{subject}?after={place}");
    let again = socket(&zone, &token, &path, zone.raw().await.0).await;
    let rest = tokio::spawn(chunks(again));
    watchers(&zone, "ws", 1).await;
    zone.call(&token, "stream.end", json!({"streamId": id}))
        .await;
    seen.extend(rest.await.unwrap());
    assert_eq!(seen, all, "by WebSocket: no gap, no double");
}

/// The head of a call whose body waits until the zone asks for it.
async fn call_in_two_steps(zone: &Zone, token: Option<&str>, length: usize) -> Raw {
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
    let head = format!(
        "POST /jsonrpc HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{}\
         content-length: {length}\r\nexpect: 100-continue\r\n\r\n",
        token.unwrap_or_default()
    );
    let mut raw = zone.raw().await;
    raw.send(head.as_bytes()).await;
    assert_eq!(raw.reply().await.unwrap().status, 100);
    raw
}

/// When an address has as many unfinished calls as it may, those with a good token are not among them.
#[tokio::test(flavor = "multi_thread")]
async fn call_with_a_token_is_not_ended_for_others_of_its_address() {
    let zone = Setup::new().set("limits.arriving", 32).start().await;
    let token = zone.token("anna");
    let id = zone.create(&token, "demo", "echo hello").await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks.get", "params": {"taskId": id}});
    let call = call.to_string();
    let mut others = vec![call_in_two_steps(&zone, None, 10).await];
    let mut own = call_in_two_steps(&zone, Some(&token), call.len()).await;
    for _ in 0..8 {
        others.push(call_in_two_steps(&zone, None, 10).await);
    }
    for other in &mut others[..7] {
        let reply = other.reply().await.unwrap();
        assert_eq!(reply.status, 503, "{reply:?}");
        assert_eq!(reply.headers["connection"], "close");
    }
    own.send(call.as_bytes()).await;
    let reply = own.reply().await.unwrap();
    assert_eq!(reply.status, 200, "{reply:?}");
}
