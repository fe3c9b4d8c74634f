//! Denial-of-service attacks that need few bytes, from one address that is not the callers'.

use crate::http2::{RawHttp2Connection, connect};
use rustls::ClientConfig;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Source address of all attacks.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// Delay before an attacker reconnects.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);
const CONTENT_TYPE: (&str, &str) = ("content-type", "application/json");

/// The attacked zone and prepared resources.
#[derive(Clone)]
pub(crate) struct AttackTarget {
    pub(crate) port: u16,
    pub(crate) tls: Arc<ClientConfig>,
    /// `Bearer …` of a principal that is not the callers'.
    pub(crate) authorization: String,
    /// A task of that principal with a large response.
    pub(crate) task: String,
    /// A task whose response fills the memory that the large ones leave.
    pub(crate) filler: String,
    /// Streams of that principal with a large event each. Watchers of one event may share its bytes, so one
    /// stream would not be enough.
    pub(crate) streams: Vec<String>,
}

/// An attack.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attack {
    /// 17 HTTP/2 connections with 256 request heads each, without bodies or tokens, at 70 bytes a second.
    HeadsHttp2,
    /// 4,200 HTTP/1.1 connections with a request head each.
    HeadsHttp1,
    /// Large responses, with a valid token, that are never read.
    UnreadAnswers,
    /// Watches of streams with large events, with a valid token, that are never read.
    UnreadWatches,
    /// Incomplete bodies without a token, 512 MiB in total.
    Bodies,
}

pub(crate) const ATTACKS: [Attack; 5] = [
    Attack::HeadsHttp2,
    Attack::HeadsHttp1,
    Attack::UnreadAnswers,
    Attack::UnreadWatches,
    Attack::Bodies,
];

impl Attack {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::HeadsHttp2 => "heads, HTTP/2",
            Self::HeadsHttp1 => "heads, HTTP/1.1",
            Self::UnreadAnswers => "unread responses",
            Self::UnreadWatches => "unread watches",
            Self::Bodies => "bodies, no token",
        }
    }

    /// Starts the attack; it ends when the returned set is dropped.
    pub(crate) fn start(self, target: &AttackTarget) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        match self {
            Self::HeadsHttp2 => {
                for _ in 0..17 {
                    tasks.spawn(send_heads(target.clone()));
                }
            }
            Self::HeadsHttp1 => {
                // Few handshakes at once: the benchmark measures what connections hold, not what opening them costs.
                let handshakes = Arc::new(Semaphore::new(2));
                for _ in 0..4200 {
                    tasks.spawn(hold_head(target.clone(), handshakes.clone()));
                }
            }
            Self::UnreadAnswers => {
                let call = |task: &str| UnreadRequest::Answer(crate::availability::get_call(task));
                let large = std::iter::repeat_n(call(&target.task), 42);
                let small = std::iter::repeat_n(call(&target.filler), 120);
                tasks.spawn(leave_unread(target.clone(), large.chain(small).collect()));
            }
            Self::UnreadWatches => {
                let path = |stream| UnreadRequest::Watch(format!("/streams/{stream}/events"));
                let watches = target.streams.iter().map(path).cycle().take(100);
                tasks.spawn(leave_unread(target.clone(), watches.collect()));
            }
            Self::Bodies => {
                // The largest allowed bodies, and smaller ones to fill the remaining memory.
                let sizes = [(12, 40 * 1024), (32, 1024), (64, 128)];
                for (count, kibibytes) in sizes {
                    for _ in 0..count {
                        tasks.spawn(hold_body(target.clone(), kibibytes * 1024));
                    }
                }
            }
        }
        tasks
    }
}

/// One of the 17 connections. Refused heads are sent again.
async fn send_heads(target: AttackTarget) {
    loop {
        if let Ok(mut connection) =
            RawHttp2Connection::open(ATTACKER, target.port, &target.tls, 65_535).await
        {
            let headers = [CONTENT_TYPE, ("content-length", "100")];
            let (mut open, mut last) = (0_u32, 1);
            loop {
                for _ in 0..256_u32.saturating_sub(open).min(64) {
                    match connection
                        .request("POST", "/jsonrpc", &headers, None, false)
                        .await
                    {
                        Some(stream) => (open, last) = (open + 1, stream),
                        None => break,
                    }
                }
                tokio::time::sleep(Duration::from_millis(250)).await;
                if connection.send_byte(last).await.is_none() {
                    break;
                }
                open = open.saturating_sub(connection.take_ended());
            }
        }
        tokio::time::sleep(RECONNECT_DELAY).await;
    }
}

async fn hold_head(target: AttackTarget, handshakes: Arc<Semaphore>) {
    loop {
        let permit = handshakes.acquire().await.unwrap();
        let connected = connect(ATTACKER, target.port, &target.tls, b"http/1.1").await;
        drop(permit);
        if let Ok(mut stream) = connected {
            let head = b"POST /jsonrpc HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n";
            if stream.write_all(head).await.is_ok() && stream.flush().await.is_ok() {
                let _ = stream.read(&mut [0; 1024]).await;
            }
        }
        // Thousands of attackers reconnecting twice a second would measure handshakes.
        tokio::time::sleep(RECONNECT_DELAY * 60).await;
    }
}

async fn hold_body(target: AttackTarget, length: usize) {
    let chunk = vec![b' '; 16 * 1024];
    loop {
        if let Ok(mut stream) = connect(ATTACKER, target.port, &target.tls, b"http/1.1").await {
            let head = format!(
                "POST /jsonrpc HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
            );
            let mut sent = 0;
            let mut is_open = stream.write_all(head.as_bytes()).await.is_ok();
            while is_open && sent + chunk.len() < length {
                is_open = stream.write_all(&chunk).await.is_ok();
                sent += chunk.len();
            }
            if is_open && stream.flush().await.is_ok() {
                let _ = stream.read(&mut [0; 1024]).await;
            }
        }
        tokio::time::sleep(RECONNECT_DELAY).await;
    }
}

/// A response that is requested and not read.
#[derive(Clone)]
enum UnreadRequest {
    /// The response to a call.
    Answer(String),
    /// The events of a path.
    Watch(String),
}

/// One connection with all these requests. Ended ones are repeated, four times a second: faster, it would
/// measure the cost of building large responses.
async fn leave_unread(target: AttackTarget, all: Vec<UnreadRequest>) {
    let authorization = ("authorization", target.authorization.as_str());
    loop {
        if let Ok(mut connection) =
            RawHttp2Connection::open(ATTACKER, target.port, &target.tls, 65_535).await
        {
            let mut requests = all.iter().cycle();
            let mut open = 0;
            'requests: loop {
                while open < all.len() {
                    let sent = match requests.next().unwrap() {
                        UnreadRequest::Watch(path) => {
                            let headers = [authorization, ("last-event-id", "0")];
                            connection.request("GET", path, &headers, None, true).await
                        }
                        UnreadRequest::Answer(call) => {
                            let headers = [authorization, CONTENT_TYPE];
                            connection
                                .request("POST", "/jsonrpc", &headers, Some(call.as_bytes()), true)
                                .await
                        }
                    };
                    if sent.is_none() {
                        break 'requests;
                    }
                    open += 1;
                }
                tokio::time::sleep(Duration::from_millis(250)).await;
                if connection.take_ended() > 0 {
                    open = open.saturating_sub(1);
                }
            }
        }
        tokio::time::sleep(RECONNECT_DELAY).await;
    }
}
