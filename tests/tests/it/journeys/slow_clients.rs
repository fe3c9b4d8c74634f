//! Watchers that stop reading: they are disconnected, delay no other client, and after a reconnect miss nothing and see
//! nothing twice.

use super::rpc::{RawConnection, tls_config};
use super::within_timeout;
use super::zone_process::{ZoneBuilder, ZoneProcess, user_message};
use futures_util::StreamExt;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;

/// Together far more than the buffers of both sides can hold.
const CHUNK_COUNT: u64 = 48;
const CHUNK_LENGTH: usize = 250_000;

/// Opens a connection with a tiny receive buffer.
async fn connect_with_small_buffer(zone: &ZoneProcess) -> TlsStream<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 * 1024).unwrap();
    let tcp = socket.connect(zone.address).await.unwrap();
    let connector = TlsConnector::from(tls_config(&zone.env.authority, None));
    let name = ServerName::try_from("localhost").unwrap();
    connector.connect(name, tcp).await.unwrap()
}

/// Waits until the zone has this number of open watches of this kind.
async fn wait_for_watchers(zone: &ZoneProcess, kind: &str, count: u32) {
    let line = format!("interzone_watchers{{kind=\"{kind}\"}} {count}");
    let reached = async { while !zone.metrics().await.lines().any(|it| it == line) {} };
    within_timeout(&line, reached).await;
}

/// Decodes a chunked body as far as it arrived.
fn decode_chunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|at| at == b"\r\n") {
        let length = std::str::from_utf8(&bytes[..end]).unwrap();
        let length = usize::from_str_radix(length, 16).unwrap();
        let tail = &bytes[end + 2..];
        body.extend_from_slice(&tail[..length.min(tail.len())]);
        match tail.get(length + 2..) {
            Some(next) => bytes = next,
            None => break,
        }
    }
    body
}

/// Returns the sequence number of a chunk notification.
fn chunk_sequence(notification: &Value) -> Option<u64> {
    notification["params"]["sequence"].as_u64()
}

async fn open_websocket(
    zone: &ZoneProcess,
    token: &str,
    path: &str,
    stream: TlsStream<TcpStream>,
) -> WebSocketStream<TlsStream<TcpStream>> {
    let mut request = format!("wss://localhost{path}")
        .into_client_request()
        .unwrap();
    let bearer = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    assert!(zone.url.starts_with("https://localhost"));
    let opened = tokio_tungstenite::client_async(request, stream).await;
    opened.unwrap().0
}

/// Returns the sequence numbers of all chunks until the connection ends, in whatever way.
async fn read_chunks(mut socket: WebSocketStream<TlsStream<TcpStream>>) -> Vec<u64> {
    let mut sequences = Vec::new();
    while let Some(Ok(frame)) = within_timeout("a frame", socket.next()).await {
        if let Ok(text) = frame.to_text()
            && let Ok(notification) = serde_json::from_str::<Value>(text)
        {
            sequences.extend(chunk_sequence(&notification));
        }
    }
    sequences
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_watcher_is_disconnected_and_delays_no_other() {
    let zone = ZoneBuilder::new()
        .set("limits.stall_timeout", "1s")
        .start()
        .await;
    let token = zone.token("anna");
    let started = zone.call(&token, "stream.start", json!({})).await;
    let id = started["stream"]["streamId"].as_str().unwrap().to_owned();
    let subject = format!("streams/{id}");

    let mut stalled_sse = connect_with_small_buffer(&zone).await;
    let request = format!(
        "GET /{subject}/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n"
    );
    stalled_sse.write_all(request.as_bytes()).await.unwrap();
    let stalled_ws = open_websocket(
        &zone,
        &token,
        &format!("/{subject}"),
        connect_with_small_buffer(&zone).await,
    )
    .await;
    wait_for_watchers(&zone, "sse", 1).await;
    wait_for_watchers(&zone, "ws", 1).await;

    let mut quick = zone.watch(&token, &subject, None).await;
    let text = "x".repeat(CHUNK_LENGTH);
    let sending = async {
        for sequence in 1..=CHUNK_COUNT {
            let chunk = json!({"streamId": id, "chunk": user_message(&text), "sequence": sequence});
            zone.call(&token, "stream.chunk", chunk).await;
        }
    };
    let last =
        |event: &super::sse::ReceivedSseEvent| chunk_sequence(&event.data) == Some(CHUNK_COUNT);
    let ((), received) = tokio::join!(sending, quick.until(last));
    let all: Vec<u64> = (1..=CHUNK_COUNT).collect();
    let received: Vec<u64> = received
        .iter()
        .filter_map(|event| chunk_sequence(&event.data))
        .collect();
    assert_eq!(received, all, "an active reader sees everything");

    // Only the active reader is left. Reading from the others before this would have unblocked them.
    wait_for_watchers(&zone, "sse", 1).await;
    wait_for_watchers(&zone, "ws", 0).await;
    zone.assert_serving().await;

    let mut bytes = Vec::new();
    // The connection was aborted, not closed, which is an error at this end.
    let _ = within_timeout("what was sent", stalled_sse.read_to_end(&mut bytes)).await;
    let end = bytes.windows(4).position(|at| at == b"\r\n\r\n").unwrap();
    let body = String::from_utf8(decode_chunked(&bytes[end + 4..])).unwrap();
    // The complete events and the last event id.
    let complete_events = body
        .rsplit_once("\n\n")
        .map_or("", |(complete, _)| complete);
    let mut last_event_id = None;
    let mut sequences = Vec::new();
    for block in complete_events.split("\n\n") {
        for line in block.lines() {
            if let Some(data) = line.strip_prefix("data: ") {
                sequences.extend(chunk_sequence(&serde_json::from_str(data).unwrap()));
            } else if let Some(id) = line.strip_prefix("id: ") {
                last_event_id = id.parse().ok();
            }
        }
    }
    assert!(sequences.len() < all.len(), "it was disconnected");
    let mut again = zone.watch(&token, &subject, last_event_id).await;
    if sequences.last() != Some(&CHUNK_COUNT) {
        let remaining = again.until(last).await;
        sequences.extend(
            remaining
                .iter()
                .filter_map(|event| chunk_sequence(&event.data)),
        );
    }
    assert_eq!(sequences, all, "by SSE: no gap, no duplicate");

    let mut sequences = read_chunks(stalled_ws).await;
    assert!(sequences.len() < all.len(), "it was disconnected");
    // The stream's start is the first event, so each chunk's event id is its sequence number plus one.
    let last_event_id = sequences.last().map_or(0, |sequence| sequence + 1);
    let path = format!("/{subject}?after={last_event_id}");
    let again = open_websocket(&zone, &token, &path, zone.raw_connection().await.0).await;
    let remaining = tokio::spawn(read_chunks(again));
    wait_for_watchers(&zone, "ws", 1).await;
    zone.call(&token, "stream.end", json!({"streamId": id}))
        .await;
    sequences.extend(remaining.await.unwrap());
    assert_eq!(sequences, all, "by WebSocket: no gap, no duplicate");
}

/// Sends the head of a call and waits until the zone asks for the body.
async fn begin_call_with_expect(
    zone: &ZoneProcess,
    token: Option<&str>,
    length: usize,
) -> RawConnection {
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n"));
    let head = format!(
        "POST /jsonrpc HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{}\
         content-length: {length}\r\nexpect: 100-continue\r\n\r\n",
        token.unwrap_or_default()
    );
    let mut raw = zone.raw_connection().await;
    raw.send(head.as_bytes()).await;
    assert_eq!(raw.reply().await.unwrap().status, 100);
    raw
}

/// When an address reaches its limit of unfinished calls, calls with a valid token are not the ones to be ended.
#[tokio::test(flavor = "multi_thread")]
async fn authenticated_call_is_not_evicted_by_address_limit() {
    let zone = ZoneBuilder::new()
        .set("limits.pending_bodies", 32)
        .start()
        .await;
    let token = zone.token("anna");
    let id = zone.create_task(&token, "demo", "echo hello").await;
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks.get", "params": {"taskId": id}});
    let call = call.to_string();
    let mut others = vec![begin_call_with_expect(&zone, None, 10).await];
    let mut own = begin_call_with_expect(&zone, Some(&token), call.len()).await;
    for _ in 0..8 {
        others.push(begin_call_with_expect(&zone, None, 10).await);
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
