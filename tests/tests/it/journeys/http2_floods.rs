//! HTTP/2 floods: thousands of hand-made frames that cost the sender nothing. The zone stays up, other callers are
//! answered, memory does not grow, and where the protocol has a limit the connection is closed.

use super::certificates::Authority;
use super::rpc::tls_config;
use super::within_timeout;
use super::zone_process::{ZoneBuilder, ZoneProcess};
use rustls::pki_types::ServerName;
use std::fs;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, split};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// RFC 9113, 7.
const ENHANCE_YOUR_CALM: u32 = 11;

/// One frame (RFC 9113, 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Encodes the headers of a request as plain HPACK literals.
fn header_block(method: u8, path: &str) -> Vec<u8> {
    let text = |block: &mut Vec<u8>, name: u8, value: &str| {
        block.extend([name, u8::try_from(value.len()).unwrap()]);
        block.extend(value.as_bytes());
    };
    // `:method` and `:scheme` are complete entries of the static table.
    let mut block = vec![method, 0x87];
    text(&mut block, 4, path);
    text(&mut block, 1, "localhost");
    block
}

const GET: u8 = 0x82;
const POST: u8 = 0x83;

fn client_stream_id(number: u32) -> u32 {
    number * 2 + 1
}

/// Opens a connection and sends the HTTP/2 preface.
async fn connect(zone: &ZoneProcess) -> TlsStream<TcpStream> {
    let mut stream = connect_tls_h2(&zone.env.authority, zone).await;
    let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    hello.extend(frame(SETTINGS, 0, 0, &[]));
    stream.write_all(&hello).await.unwrap();
    stream
}

async fn connect_tls_h2(authority: &Authority, zone: &ZoneProcess) -> TlsStream<TcpStream> {
    let mut config = Arc::unwrap_or_clone(tls_config(authority, None));
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tcp = TcpStream::connect(zone.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, tcp).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    stream
}

/// Builds the frame with this number.
type MakeFrame = dyn Fn(u32) -> Vec<u8>;

/// Result of a flood.
#[derive(Debug, PartialEq)]
enum FloodResult {
    /// The zone read all frames and answers on the same connection.
    Served,
    /// The zone closed the connection, with this GOAWAY error code if it sent one.
    Closed(Option<u32>),
}

/// Sends all frames as fast as the zone reads them, then a ping to see if the connection still works.
async fn flood(
    zone: &ZoneProcess,
    first_frames: Vec<u8>,
    make_frame: impl Fn(u32) -> Vec<u8>,
    times: u32,
) -> FloodResult {
    let (mut read, mut write) = split(connect(zone).await);
    let ping = *b"lifesign";
    let reader = tokio::spawn(async move {
        let mut goaway_code = None;
        loop {
            let mut header = [0; 9];
            if read.read_exact(&mut header).await.is_err() {
                return FloodResult::Closed(goaway_code);
            }
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            if read.read_exact(&mut payload).await.is_err() {
                return FloodResult::Closed(goaway_code);
            }
            match header[3] {
                GOAWAY => goaway_code = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap())),
                PING if payload == ping => return FloodResult::Served,
                _ => {}
            }
        }
    });
    let send = async {
        write.write_all(&first_frames).await?;
        let mut number = 0;
        while number < times {
            let some: Vec<u8> = (number..times.min(number + 500))
                .flat_map(&make_frame)
                .collect();
            number += 500;
            write.write_all(&some).await?;
        }
        write.write_all(&frame(PING, 0, 0, &ping)).await?;
        write.flush().await
    };
    // After a close the remaining frames cannot be sent.
    let _ = within_timeout("the flood", send).await;
    within_timeout("the end of the flood", reader)
        .await
        .unwrap()
}

/// Returns the zone's resident memory in KiB.
fn resident_kib(zone: &ZoneProcess) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", zone.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_frame_floods_are_contained() {
    let zone = ZoneBuilder::new().start().await;
    zone.assert_serving().await;
    let before = resident_kib(&zone);
    let ask = header_block(GET, "/health");
    let post = frame(HEADERS, END_HEADERS, 1, &header_block(POST, "/jsonrpc"));
    let none = Vec::new;

    // Streams opened and reset at once (rapid reset, CVE-2023-44487).
    let reset = |number: u32| {
        let mut both = frame(
            HEADERS,
            END_STREAM | END_HEADERS,
            client_stream_id(number),
            &ask,
        );
        both.extend(frame(
            RST_STREAM,
            0,
            client_stream_id(number),
            &8_u32.to_be_bytes(),
        ));
        both
    };
    let ended = flood(&zone, none(), reset, 50_000).await;
    assert_eq!(
        ended,
        FloodResult::Closed(Some(ENHANCE_YOUR_CALM)),
        "resets"
    );
    zone.assert_serving().await;

    // Headers that never end (CVE-2024-27316).
    let endless = frame(HEADERS, 0, 1, &ask);
    let more = |_| frame(CONTINUATION, 0, 1, &[0, 1, b'a', 1, b'b']);
    let ended = flood(&zone, endless, more, 200_000).await;
    assert_eq!(
        ended,
        FloodResult::Closed(Some(ENHANCE_YOUR_CALM)),
        "continuations"
    );
    zone.assert_serving().await;

    // Requests that make the zone reset them again and again (made you reset, CVE-2025-8671).
    let wrong = |number: u32| {
        let mut both = frame(HEADERS, END_HEADERS, client_stream_id(number), &ask);
        both.extend(frame(
            WINDOW_UPDATE,
            0,
            client_stream_id(number),
            &0_u32.to_be_bytes(),
        ));
        both
    };
    let ended = flood(&zone, none(), wrong, 50_000).await;
    assert!(
        matches!(ended, FloodResult::Closed(_)),
        "made you reset: {ended:?}"
    );
    zone.assert_serving().await;

    // An endless body of empty DATA frames.
    let empty = |_| frame(DATA, 0, 1, &[]);
    let ended = flood(&zone, post, empty, 200_000).await;
    assert_eq!(
        ended,
        FloodResult::Closed(Some(ENHANCE_YOUR_CALM)),
        "empty data"
    );
    zone.assert_serving().await;

    // Frames without a request: a few are answered, a flood closes the connection. A request is sent first, because a
    // connection without any is closed by its time limit on a busy machine.
    let get = || frame(HEADERS, END_STREAM | END_HEADERS, 1, &ask);
    let ping = |_| frame(PING, 0, 0, b"pingpong");
    let settings = |_| frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]);
    let window = |_| frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes());
    let priority = |number: u32| frame(PRIORITY, 0, client_stream_id(number), &[0, 0, 0, 0, 1]);
    let kinds: [(&str, &MakeFrame); 4] = [
        ("pings", &ping),
        ("settings", &settings),
        ("window updates", &window),
        ("priorities", &priority),
    ];
    for (name, again) in kinds {
        assert_eq!(
            flood(&zone, get(), again, 200).await,
            FloodResult::Served,
            "{name}"
        );
        let ended = flood(&zone, get(), again, 200_000).await;
        assert!(matches!(ended, FloodResult::Closed(_)), "{name}: {ended:?}");
        zone.assert_serving().await;
    }
    let after = resident_kib(&zone);
    assert!(
        after < before + 64 * 1024,
        "{before} KiB became {after} KiB"
    );
}

/// A client that sends requests without reading the responses cannot make them accumulate.
#[tokio::test(flavor = "multi_thread")]
async fn unread_responses_do_not_accumulate() {
    let zone = ZoneBuilder::new()
        .set("limits.stall_timeout", "1s")
        .start()
        .await;
    zone.assert_serving().await;
    let before = resident_kib(&zone);
    for flood_frame in [
        frame(PING, 0, 0, b"pingpong"),
        frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]),
    ] {
        let mut stream = connect(&zone).await;
        let many = flood_frame.repeat(10_000);
        let pushing = async { while stream.write_all(&many).await.is_ok() {} };
        within_timeout("the zone to close the connection", pushing).await;
        zone.assert_serving().await;
    }
    let after = resident_kib(&zone);
    assert!(
        after < before + 64 * 1024,
        "{before} KiB became {after} KiB"
    );
}

/// Request heads without bodies, on many connections of one address and without a token, block neither other callers
/// nor health checks.
#[tokio::test(flavor = "multi_thread")]
async fn heads_without_bodies_do_not_block_callers() {
    let zone = ZoneBuilder::new().start().await;
    zone.assert_serving().await;
    let before = resident_kib(&zone);
    let mut call = header_block(POST, "/jsonrpc");
    // `content-type` is entry 31 of the static table.
    call.extend([0x0f, 0x10, 16]);
    call.extend(b"application/json");
    let mut open = Vec::new();
    for _ in 0..17 {
        let mut stream = connect(&zone).await;
        let heads: Vec<u8> = (0..256)
            .flat_map(|number| frame(HEADERS, END_HEADERS, client_stream_id(number), &call))
            .collect();
        stream.write_all(&heads).await.unwrap();
        // The answer to this ping shows that the zone has read everything.
        stream
            .write_all(&frame(PING, 0, 0, b"lifesign"))
            .await
            .unwrap();
        within_timeout("an answer", read_ping_ack(&mut stream)).await;
        open.push(stream);
    }
    zone.assert_serving().await;
    assert_eq!(zone.get("/readyz").await.status, 200);
    let after = resident_kib(&zone);
    assert!(
        after < before + 64 * 1024,
        "{before} KiB became {after} KiB"
    );
}

/// Reads until a ping is answered.
async fn read_ping_ack(stream: &mut TlsStream<TcpStream>) {
    loop {
        let mut header = [0; 9];
        stream.read_exact(&mut header).await.unwrap();
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        stream.read_exact(&mut payload).await.unwrap();
        if header[3] == PING {
            return;
        }
    }
}
