//! Incomplete heads, header blocks and handshakes: the memory they hold is bounded over all connections.

use crate::fixture::{ListenerFixture, ListenerSetup, read_to_close, send_get, within_timeout};
use crate::h2_frames::{
    self, CONTINUATION, END_HEADERS, END_STREAM, Frame, FrameReader, FrameWriter, HEADERS,
};
use axum::{Router, routing::get};
use interzone_edge::budget::Shares;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Number of opened connections. Each counts 64 KiB or a little more.
const OPENED_CONNECTIONS: usize = 40;
/// Number of them that may stay open.
const MAX_OPEN: u64 = 16;

/// Listener on which only the limit of incomplete heads closes connections.
async fn start_server(address_share: usize) -> ListenerFixture {
    let app = Router::new()
        .route("/", get(|| async { "here" }))
        .route("/wait", get(std::future::pending::<&'static str>));
    let plan = ListenerSetup {
        // Requests for `/wait` never end.
        grace: Duration::from_millis(100),
        ..ListenerSetup::new(app)
    };
    plan.with_limits(|limits| {
        limits.partial_head_bytes = MAX_OPEN * 64 * 1024;
        limits.shares = Shares {
            address: address_share,
            ..Shares::default()
        };
        limits.header_timeout = Duration::from_secs(600);
        limits.handshake_timeout = Duration::from_secs(600);
    })
    .start()
    .await
}

/// Incomplete head of a request.
fn partial_head() -> Vec<u8> {
    let mut head = b"GET / HTTP/1.1\r\nhost: localhost\r\n".to_vec();
    for number in 0..70 {
        let line = format!("x-{number}: {}\r\n", "v".repeat(420));
        head.extend_from_slice(line.as_bytes());
    }
    head
}

async fn send_partial_head(server: &ListenerFixture) -> TlsStream<TcpStream> {
    let mut stream = server.connect().await;
    stream.write_all(&partial_head()).await.unwrap();
    stream
}

/// Returns true if a client from another address is answered.
async fn is_served(server: &ListenerFixture) -> bool {
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));
    let client = server.client().local_address(address).build().unwrap();
    let answer = within_timeout("an answer", client.get(server.url("/")).send()).await;
    within_timeout("its text", answer.unwrap().text())
        .await
        .unwrap()
        == "here"
}

fn closed_count(server: &ListenerFixture) -> u64 {
    let metrics = server.metrics.encode();
    let prefix = "interzone_client_terminations_total{reason=\"unfinished_head\"} ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(prefix));
    line.map_or(0, |count| count.parse().unwrap())
}

/// Waits until no more of the opened connections are open than allowed.
async fn wait_until_closed(server: &ListenerFixture, opened: usize) {
    let least = u64::try_from(opened).unwrap() - MAX_OPEN;
    within_timeout("closing", async {
        while closed_count(server) < least {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn oldest_partial_heads_are_closed_first() {
    let server = start_server(1).await;
    let mut open = Vec::new();
    for _ in 0..OPENED_CONNECTIONS {
        open.push(send_partial_head(&server).await);
    }
    assert!(is_served(&server).await);
    wait_until_closed(&server, OPENED_CONNECTIONS).await;
    assert_eq!(read_to_close(&mut open[0]).await, "");
    // The newest is still answered.
    let newest = open.last_mut().unwrap();
    newest.write_all(b"\r\n").await.unwrap();
    let mut answer = vec![0; 4096];
    let read = within_timeout("an answer", newest.read(&mut answer))
        .await
        .unwrap();
    assert!(answer[..read].ends_with(b"here"));
    // It does not count any more, nor does its next request.
    assert!(send_get(newest, "/").await.unwrap().ends_with("here"));
    drop(open);
    server.shut_down().await;
}

#[tokio::test]
async fn partial_heads_of_one_address_spare_others() {
    let server = start_server(4).await;
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 7));
    let mut other = server.connect_from(address).await;
    other.write_all(&partial_head()).await.unwrap();
    let mut open = Vec::new();
    for _ in 0..OPENED_CONNECTIONS {
        open.push(send_partial_head(&server).await);
    }
    within_timeout("closing", async {
        while closed_count(&server) < 36 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    other.write_all(b"\r\n").await.unwrap();
    let mut answer = vec![0; 4096];
    let read = within_timeout("an answer", other.read(&mut answer))
        .await
        .unwrap();
    assert!(answer[..read].ends_with(b"here"));
    drop(open);
    server.shut_down().await;
}

#[tokio::test]
async fn partial_head_after_complete_request_counts() {
    let server = start_server(1).await;
    let mut open = Vec::new();
    for _ in 0..OPENED_CONNECTIONS {
        let mut stream = server.connect().await;
        let mut bytes = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec();
        bytes.extend(partial_head());
        stream.write_all(&bytes).await.unwrap();
        open.push(stream);
    }
    wait_until_closed(&server, OPENED_CONNECTIONS).await;
    assert!(is_served(&server).await);
    drop(open);
    server.shut_down().await;
}

#[tokio::test]
async fn partial_head_after_running_request_counts() {
    let server = start_server(1).await;
    let mut open = Vec::new();
    for _ in 0..OPENED_CONNECTIONS {
        let mut stream = server.connect().await;
        stream
            .write_all(b"GET /wait HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        stream.write_all(&partial_head()).await.unwrap();
        open.push(stream);
    }
    wait_until_closed(&server, OPENED_CONNECTIONS).await;
    assert!(is_served(&server).await);
    drop(open);
    server.shut_down().await;
}

/// Opens a connection with a header block that does not end.
async fn open_header_block(
    server: &ListenerFixture,
    path: Option<&str>,
) -> (FrameReader, FrameWriter) {
    let (reader, mut writer) = h2_frames::connect(server, 65_535).await;
    if let Some(path) = path {
        writer.send(&Frame::get(1, path)).await;
    }
    // Field lines without indexing: "x" is "v…".
    let mut field = b"\x00\x01x\x7f\x01".to_vec();
    field.extend([b'v'; 128]);
    let fields = field.repeat(8);
    writer
        .send(&Frame::new(HEADERS, END_STREAM, 3, &fields))
        .await;
    writer.send(&Frame::new(CONTINUATION, 0, 3, &fields)).await;
    (reader, writer)
}

#[tokio::test]
async fn oldest_open_header_blocks_are_closed_first() {
    let server = start_server(1).await;
    let mut open = Vec::new();
    for _ in 0..OPENED_CONNECTIONS {
        open.push(open_header_block(&server, None).await);
    }
    assert!(is_served(&server).await);
    wait_until_closed(&server, OPENED_CONNECTIONS).await;
    let (oldest, _writer) = open.swap_remove(0);
    within_timeout("its end", oldest.read_to_close()).await;
    drop(open);
    server.shut_down().await;
}

#[tokio::test]
async fn open_header_blocks_with_running_requests_are_bounded() {
    let server = start_server(1).await;
    let mut open = Vec::new();
    for _ in 0..OPENED_CONNECTIONS {
        open.push(open_header_block(&server, Some("/wait")).await);
    }
    wait_until_closed(&server, OPENED_CONNECTIONS).await;
    assert!(is_served(&server).await);
    drop(open);
    server.shut_down().await;
}

#[tokio::test]
async fn header_block_of_many_frames_is_answered() {
    let server = start_server(1).await;
    let (mut reader, mut writer) = h2_frames::connect(&server, 65_535).await;
    let request = Frame::get(1, "/");
    let (first, second) = request.payload.split_at(3);
    let start = Frame::new(HEADERS, END_STREAM, 1, first);
    writer.send(&start).await;
    writer
        .send(&Frame::new(CONTINUATION, END_HEADERS, 1, second))
        .await;
    let answer = reader.read_until(h2_frames::DATA).await;
    assert_eq!(answer.payload, b"here");
    drop((reader, writer));
    server.shut_down().await;
}

#[tokio::test]
async fn oldest_partial_handshakes_are_closed_first() {
    let server = start_server(1).await;
    // Two full records of a ClientHello that is longer.
    let mut hello = Vec::new();
    for number in 0..2 {
        hello.extend([0x16, 3, 1, 0x40, 0]);
        let mut payload = vec![b'x'; 0x4000];
        if number == 0 {
            payload[..4].copy_from_slice(&[1, 0, 0xf0, 0]);
        }
        hello.extend(payload);
    }
    let mut open = Vec::new();
    for _ in 0..OPENED_CONNECTIONS {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(&hello).await.unwrap();
        open.push(stream);
    }
    assert!(is_served(&server).await);
    wait_until_closed(&server, OPENED_CONNECTIONS).await;
    // Closed cleanly or reset.
    let read = within_timeout("its end", open[0].read(&mut [0; 16])).await;
    assert!(matches!(read, Ok(0) | Err(_)));
    drop(open);
    server.shut_down().await;
}
