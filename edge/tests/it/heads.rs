//! Connections that send the beginning of something and not its end: what they hold is bounded over all connections.

use crate::frames::{
    self, CONTINUATION, END_HEADERS, END_STREAM, Frame, FrameReader, FrameWriter, HEADERS,
};
use crate::house::{House, Plan, ask, read_to_close, soon};
use axum::{Router, routing::get};
use interzone_edge::budget::Shares;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// How many connections are opened. Each counts 64 KiB or a little more.
const MANY: usize = 40;
/// How many of them may be open.
const MOST: u64 = 16;

/// A listener on which only the limit of unfinished heads ends anything.
async fn house(part: usize) -> House {
    let app = Router::new()
        .route("/", get(|| async { "here" }))
        .route("/wait", get(std::future::pending::<&'static str>));
    let plan = Plan {
        // Requests for `/wait` never end.
        grace: Duration::from_millis(100),
        ..Plan::new(app)
    };
    plan.limits(|limits| {
        limits.heads = MOST * 64 * 1024;
        limits.shares = Shares {
            address: part,
            ..Shares::default()
        };
        limits.header_time = Duration::from_secs(600);
        limits.handshake = Duration::from_secs(600);
    })
    .build()
    .await
}

/// The beginning of a head.
fn beginning() -> Vec<u8> {
    let mut head = b"GET / HTTP/1.1\r\nhost: localhost\r\n".to_vec();
    for number in 0..70 {
        let line = format!("x-{number}: {}\r\n", "v".repeat(420));
        head.extend_from_slice(line.as_bytes());
    }
    head
}

async fn begin_head(house: &House) -> TlsStream<TcpStream> {
    let mut stream = house.connect().await;
    stream.write_all(&beginning()).await.unwrap();
    stream
}

/// Whether a new caller is answered, from another address.
async fn is_served(house: &House) -> bool {
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));
    let client = house.client().local_address(address).build().unwrap();
    let answer = soon("an answer", client.get(house.url("/")).send()).await;
    soon("its text", answer.unwrap().text()).await.unwrap() == "here"
}

fn closed(house: &House) -> u64 {
    let metrics = house.metrics.encode();
    let prefix = "interzone_cut_off_total{reason=\"unfinished_head\"} ";
    let line = metrics.lines().find_map(|line| line.strip_prefix(prefix));
    line.map_or(0, |count| count.parse().unwrap())
}

/// Waits until no more of so many connections are open than are allowed.
async fn until_closed(house: &House, opened: usize) {
    let least = u64::try_from(opened).unwrap() - MOST;
    soon("closing", async {
        while closed(house) < least {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn oldest_unfinished_heads_make_room_for_newer_ones() {
    let house = house(1).await;
    let mut open = Vec::new();
    for _ in 0..MANY {
        open.push(begin_head(&house).await);
    }
    assert!(is_served(&house).await);
    until_closed(&house, MANY).await;
    assert_eq!(read_to_close(&mut open[0]).await, "");
    // The newest still gets its answer.
    let newest = open.last_mut().unwrap();
    newest.write_all(b"\r\n").await.unwrap();
    let mut answer = vec![0; 4096];
    let read = soon("an answer", newest.read(&mut answer)).await.unwrap();
    assert!(answer[..read].ends_with(b"here"));
    // It counts no more, nor does what it asks next.
    assert!(ask(newest, "/").await.unwrap().ends_with("here"));
    drop(open);
    house.end().await;
}

#[tokio::test]
async fn heads_of_one_address_leave_the_share_of_others() {
    let house = house(4).await;
    let address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 7));
    let mut other = house.connect_from(address).await;
    other.write_all(&beginning()).await.unwrap();
    let mut open = Vec::new();
    for _ in 0..MANY {
        open.push(begin_head(&house).await);
    }
    soon("closing", async {
        while closed(&house) < 36 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    other.write_all(b"\r\n").await.unwrap();
    let mut answer = vec![0; 4096];
    let read = soon("an answer", other.read(&mut answer)).await.unwrap();
    assert!(answer[..read].ends_with(b"here"));
    drop(open);
    house.end().await;
}

#[tokio::test]
async fn head_behind_a_complete_request_counts_too() {
    let house = house(1).await;
    let mut open = Vec::new();
    for _ in 0..MANY {
        let mut stream = house.connect().await;
        let mut bytes = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec();
        bytes.extend(beginning());
        stream.write_all(&bytes).await.unwrap();
        open.push(stream);
    }
    until_closed(&house, MANY).await;
    assert!(is_served(&house).await);
    drop(open);
    house.end().await;
}

#[tokio::test]
async fn head_behind_a_running_request_counts_too() {
    let house = house(1).await;
    let mut open = Vec::new();
    for _ in 0..MANY {
        let mut stream = house.connect().await;
        stream
            .write_all(b"GET /wait HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        stream.write_all(&beginning()).await.unwrap();
        open.push(stream);
    }
    until_closed(&house, MANY).await;
    assert!(is_served(&house).await);
    drop(open);
    house.end().await;
}

/// A connection with a header block that has no end.
async fn open_block(house: &House, path: Option<&str>) -> (FrameReader, FrameWriter) {
    let (reader, mut writer) = frames::connect(house, 65_535).await;
    if let Some(path) = path {
        writer.send(&Frame::get(1, path)).await;
    }
    // Fields that say nothing: "x" is "v…", without a table.
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
async fn oldest_open_header_blocks_make_room_for_newer_ones() {
    let house = house(1).await;
    let mut open = Vec::new();
    for _ in 0..MANY {
        open.push(open_block(&house, None).await);
    }
    assert!(is_served(&house).await);
    until_closed(&house, MANY).await;
    let (oldest, _writer) = open.swap_remove(0);
    soon("its end", oldest.close()).await;
    drop(open);
    house.end().await;
}

#[tokio::test]
async fn open_header_blocks_beside_running_requests_are_bounded_too() {
    let house = house(1).await;
    let mut open = Vec::new();
    for _ in 0..MANY {
        open.push(open_block(&house, Some("/wait")).await);
    }
    until_closed(&house, MANY).await;
    assert!(is_served(&house).await);
    drop(open);
    house.end().await;
}

#[tokio::test]
async fn header_block_of_many_frames_is_answered() {
    let house = house(1).await;
    let (mut reader, mut writer) = frames::connect(&house, 65_535).await;
    let request = Frame::get(1, "/");
    let (first, rest) = request.payload.split_at(3);
    let start = Frame::new(HEADERS, END_STREAM, 1, first);
    writer.send(&start).await;
    writer
        .send(&Frame::new(CONTINUATION, END_HEADERS, 1, rest))
        .await;
    let answer = reader.until(frames::DATA).await;
    assert_eq!(answer.payload, b"here");
    drop((reader, writer));
    house.end().await;
}

#[tokio::test]
async fn oldest_unfinished_handshakes_make_room_for_newer_ones() {
    let house = house(1).await;
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
    for _ in 0..MANY {
        let mut stream = TcpStream::connect(house.address).await.unwrap();
        stream.write_all(&hello).await.unwrap();
        open.push(stream);
    }
    assert!(is_served(&house).await);
    until_closed(&house, MANY).await;
    // How it closes makes no difference.
    let read = soon("its end", open[0].read(&mut [0; 16])).await;
    assert!(matches!(read, Ok(0) | Err(_)));
    drop(open);
    house.end().await;
}
