//! HTTP/2 as an attacker speaks it: frames by hand, thousands of them, that cost the sender nothing.
//! The zone stays up, others are answered, memory does not grow, and where the protocol has a limit the
//! connection is ended.

use super::certificates::Authority;
use super::soon;
use super::wire::tls;
use super::zone::{Setup, Zone};
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

/// The headers of a request, in the plainest form that HPACK has.
fn head(method: u8, path: &str) -> Vec<u8> {
    let text = |block: &mut Vec<u8>, name: u8, value: &str| {
        block.extend([name, u8::try_from(value.len()).unwrap()]);
        block.extend(value.as_bytes());
    };
    // `:method` and `:scheme` are whole entries of the static table.
    let mut block = vec![method, 0x87];
    text(&mut block, 4, path);
    text(&mut block, 1, "localhost");
    block
}

const GET: u8 = 0x82;
const POST: u8 = 0x83;

fn odd(number: u32) -> u32 {
    number * 2 + 1
}

/// A connection that has said hello.
async fn connect(zone: &Zone) -> TlsStream<TcpStream> {
    let mut stream = speaks_h2(&zone.world.authority, zone).await;
    let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    hello.extend(frame(SETTINGS, 0, 0, &[]));
    stream.write_all(&hello).await.unwrap();
    stream
}

async fn speaks_h2(authority: &Authority, zone: &Zone) -> TlsStream<TcpStream> {
    let mut config = Arc::unwrap_or_clone(tls(authority, None));
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tcp = TcpStream::connect(zone.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector.connect(name, tcp).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    stream
}

/// Makes the frame with this number.
type MakeFrame = dyn Fn(u32) -> Vec<u8>;

/// How a flood ended.
#[derive(Debug, PartialEq)]
enum End {
    /// The zone took all of it and answers on the same connection.
    Served,
    /// The zone ended the connection, and said why if it could.
    Ended(Option<u32>),
}

/// Sends all of it as fast as it is taken, reading what comes, then asks for a sign of life.
async fn flood(zone: &Zone, begin: Vec<u8>, again: impl Fn(u32) -> Vec<u8>, times: u32) -> End {
    let (mut read, mut write) = split(connect(zone).await);
    let sign = *b"lifesign";
    let heard = tokio::spawn(async move {
        let mut why = None;
        loop {
            let mut header = [0; 9];
            if read.read_exact(&mut header).await.is_err() {
                return End::Ended(why);
            }
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
            let mut payload = vec![0; usize::try_from(length).unwrap()];
            if read.read_exact(&mut payload).await.is_err() {
                return End::Ended(why);
            }
            match header[3] {
                GOAWAY => why = Some(u32::from_be_bytes(payload[4..8].try_into().unwrap())),
                PING if payload == sign => return End::Served,
                _ => {}
            }
        }
    });
    let send = async {
        write.write_all(&begin).await?;
        let mut number = 0;
        while number < times {
            let some: Vec<u8> = (number..times.min(number + 500)).flat_map(&again).collect();
            number += 500;
            write.write_all(&some).await?;
        }
        write.write_all(&frame(PING, 0, 0, &sign)).await?;
        write.flush().await
    };
    // Whoever is thrown out cannot send the rest.
    let _ = soon("the flood", send).await;
    soon("the end of the flood", heard).await.unwrap()
}

/// Memory that the zone has, in KiB.
fn memory(zone: &Zone) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", zone.pid())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let number = line.unwrap().split_whitespace().nth(1).unwrap();
    number.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn floods_of_frames_harm_nobody() {
    let zone = Setup::new().start().await;
    zone.serves().await;
    let before = memory(&zone);
    let ask = head(GET, "/health");
    let post = frame(HEADERS, END_HEADERS, 1, &head(POST, "/jsonrpc"));
    let none = Vec::new;

    // Opened and called off at once (CVE-2023-44487).
    let reset = |number: u32| {
        let mut both = frame(HEADERS, END_STREAM | END_HEADERS, odd(number), &ask);
        both.extend(frame(RST_STREAM, 0, odd(number), &8_u32.to_be_bytes()));
        both
    };
    let ended = flood(&zone, none(), reset, 50_000).await;
    assert_eq!(ended, End::Ended(Some(ENHANCE_YOUR_CALM)), "resets");
    zone.serves().await;

    // Headers that never end (CVE-2024-27316).
    let endless = frame(HEADERS, 0, 1, &ask);
    let more = |_| frame(CONTINUATION, 0, 1, &[0, 1, b'a', 1, b'b']);
    let ended = flood(&zone, endless, more, 200_000).await;
    assert_eq!(ended, End::Ended(Some(ENHANCE_YOUR_CALM)), "continuations");
    zone.serves().await;

    // Requests that make the zone reset them, again and again (CVE-2025-8671).
    let wrong = |number: u32| {
        let mut both = frame(HEADERS, END_HEADERS, odd(number), &ask);
        both.extend(frame(WINDOW_UPDATE, 0, odd(number), &0_u32.to_be_bytes()));
        both
    };
    let ended = flood(&zone, none(), wrong, 50_000).await;
    assert!(matches!(ended, End::Ended(_)), "made you reset: {ended:?}");
    zone.serves().await;

    // A body that never ends and never is more.
    let empty = |_| frame(DATA, 0, 1, &[]);
    let ended = flood(&zone, post, empty, 200_000).await;
    assert_eq!(ended, End::Ended(Some(ENHANCE_YOUR_CALM)), "empty data");
    zone.serves().await;

    // Frames that ask for nothing: some are answered in turn, a flood of them ends the connection. A request comes
    // first, because a connection without any is ended by its time limit on a busy machine.
    let get = || frame(HEADERS, END_STREAM | END_HEADERS, 1, &ask);
    let ping = |_| frame(PING, 0, 0, b"pingpong");
    let settings = |_| frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]);
    let window = |_| frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes());
    let priority = |number: u32| frame(PRIORITY, 0, odd(number), &[0, 0, 0, 0, 1]);
    let kinds: [(&str, &MakeFrame); 4] = [
        ("pings", &ping),
        ("settings", &settings),
        ("window updates", &window),
        ("priorities", &priority),
    ];
    for (name, again) in kinds {
        assert_eq!(flood(&zone, get(), again, 200).await, End::Served, "{name}");
        let ended = flood(&zone, get(), again, 200_000).await;
        assert!(matches!(ended, End::Ended(_)), "{name}: {ended:?}");
        zone.serves().await;
    }
    let after = memory(&zone);
    assert!(
        after < before + 64 * 1024,
        "{before} KiB became {after} KiB"
    );
}

/// Whoever asks and does not read the answers cannot make them pile up.
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_nobody_reads_do_not_pile_up() {
    let zone = Setup::new().set("limits.stall_time", "1s").start().await;
    zone.serves().await;
    let before = memory(&zone);
    for again in [
        frame(PING, 0, 0, b"pingpong"),
        frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]),
    ] {
        let mut stream = connect(&zone).await;
        let many = again.repeat(10_000);
        let pushing = async { while stream.write_all(&many).await.is_ok() {} };
        soon("the zone to hang up", pushing).await;
        zone.serves().await;
    }
    let after = memory(&zone);
    assert!(
        after < before + 64 * 1024,
        "{before} KiB became {after} KiB"
    );
}

/// Heads of calls whose bodies never come, by many connections of one address and without a token, do not
/// keep other callers out, nor those who look whether the zone is well.
#[tokio::test(flavor = "multi_thread")]
async fn heads_without_bodies_do_not_keep_callers_out() {
    let zone = Setup::new().start().await;
    zone.serves().await;
    let before = memory(&zone);
    let mut call = head(POST, "/jsonrpc");
    // `content-type` is entry 31 of the static table.
    call.extend([0x0f, 0x10, 16]);
    call.extend(b"application/json");
    let mut open = Vec::new();
    for _ in 0..17 {
        let mut stream = connect(&zone).await;
        let heads: Vec<u8> = (0..256)
            .flat_map(|number| frame(HEADERS, END_HEADERS, odd(number), &call))
            .collect();
        stream.write_all(&heads).await.unwrap();
        // That the zone has read all of it is told by its answer to this.
        stream
            .write_all(&frame(PING, 0, 0, b"lifesign"))
            .await
            .unwrap();
        soon("an answer", heard_ping(&mut stream)).await;
        open.push(stream);
    }
    zone.serves().await;
    assert_eq!(zone.get("/readyz").await.status, 200);
    let after = memory(&zone);
    assert!(
        after < before + 64 * 1024,
        "{before} KiB became {after} KiB"
    );
}

/// Reads until a ping is answered.
async fn heard_ping(stream: &mut TlsStream<TcpStream>) {
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
