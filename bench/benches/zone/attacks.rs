//! Attacks on availability: each takes few bytes, and comes from one address that is not the callers'.

use crate::http2::{Http2, connect};
use rustls::ClientConfig;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Where all attacks come from.
const ATTACKER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
/// How long an attacker waits before it connects again.
const RECONNECT: Duration = Duration::from_millis(500);
const CONTENT: (&str, &str) = ("content-type", "application/json");

/// What the attacks need to know of the zone.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) port: u16,
    pub(crate) tls: Arc<ClientConfig>,
    /// `Bearer …` of a principal that the callers do not share.
    pub(crate) authorization: String,
    /// A task of that principal whose answer is large.
    pub(crate) task: String,
    /// One whose answer fills what the large ones leave.
    pub(crate) filler: String,
    /// Streams of that principal with a large event each. Watchers of one event may share its bytes, so that one
    /// stream would not do.
    pub(crate) streams: Vec<String>,
}

/// An attack.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attack {
    /// 17 HTTP/2 connections with 256 heads each, without bodies and tokens, and 70 bytes a second.
    HeadsHttp2,
    /// 4,200 HTTP/1.1 connections with a head each.
    HeadsHttp1,
    /// Large answers, with a good token, that are never read.
    UnreadAnswers,
    /// Watches of streams with large events, with a good token, that are never read.
    UnreadWatches,
    /// Bodies without a token, 512 MiB in all, of which each lacks its end.
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
            Self::UnreadAnswers => "unread answers",
            Self::UnreadWatches => "unread watches",
            Self::Bodies => "bodies, no token",
        }
    }

    /// Begins; it ends when what is given back is dropped.
    pub(crate) fn start(self, target: &Target) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        match self {
            Self::HeadsHttp2 => {
                for _ in 0..17 {
                    tasks.spawn(send_heads(target.clone()));
                }
            }
            Self::HeadsHttp1 => {
                // Few handshakes at once: what is measured is what the connections hold, not what they cost to open.
                let handshakes = Arc::new(Semaphore::new(2));
                for _ in 0..4200 {
                    tasks.spawn(hold_head(target.clone(), handshakes.clone()));
                }
            }
            Self::UnreadAnswers => {
                let call = |task: &str| Unread::Answer(crate::availability::get(task));
                let large = std::iter::repeat_n(call(&target.task), 42);
                let small = std::iter::repeat_n(call(&target.filler), 120);
                tasks.spawn(leave_unread(target.clone(), large.chain(small).collect()));
            }
            Self::UnreadWatches => {
                let path = |stream| Unread::Watch(format!("/streams/{stream}/events"));
                let watches = target.streams.iter().map(path).cycle().take(100);
                tasks.spawn(leave_unread(target.clone(), watches.collect()));
            }
            Self::Bodies => {
                // The largest that are allowed, and smaller ones for what they leave.
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

/// One of the 17 connections. Heads that were refused are sent again.
async fn send_heads(target: Target) {
    loop {
        if let Ok(mut connection) = Http2::open(ATTACKER, target.port, &target.tls, 65_535).await {
            let headers = [CONTENT, ("content-length", "100")];
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
                if connection.trickle(last).await.is_none() {
                    break;
                }
                open = open.saturating_sub(connection.take_ended());
            }
        }
        tokio::time::sleep(RECONNECT).await;
    }
}

async fn hold_head(target: Target, handshakes: Arc<Semaphore>) {
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
        // Thousands of attackers that connect twice a second would measure handshakes.
        tokio::time::sleep(RECONNECT * 60).await;
    }
}

async fn hold_body(target: Target, length: usize) {
    let piece = vec![b' '; 16 * 1024];
    loop {
        if let Ok(mut stream) = connect(ATTACKER, target.port, &target.tls, b"http/1.1").await {
            let head = format!(
                "POST /jsonrpc HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
            );
            let mut sent = 0;
            let mut going = stream.write_all(head.as_bytes()).await.is_ok();
            while going && sent + piece.len() < length {
                going = stream.write_all(&piece).await.is_ok();
                sent += piece.len();
            }
            if going && stream.flush().await.is_ok() {
                let _ = stream.read(&mut [0; 1024]).await;
            }
        }
        tokio::time::sleep(RECONNECT).await;
    }
}

/// What is asked for and then left unread.
#[derive(Clone)]
enum Unread {
    /// The answer to a call.
    Answer(String),
    /// The events of a path.
    Watch(String),
}

/// One connection with all these on it. What the server ends is asked for again, four times a second: faster, it would
/// measure what it costs to make large answers.
async fn leave_unread(target: Target, all: Vec<Unread>) {
    let authorization = ("authorization", target.authorization.as_str());
    loop {
        if let Ok(mut connection) = Http2::open(ATTACKER, target.port, &target.tls, 65_535).await {
            let mut asked = all.iter().cycle();
            let mut open = 0;
            'requests: loop {
                while open < all.len() {
                    let sent = match asked.next().unwrap() {
                        Unread::Watch(path) => {
                            let headers = [authorization, ("last-event-id", "0")];
                            connection.request("GET", path, &headers, None, true).await
                        }
                        Unread::Answer(call) => {
                            let headers = [authorization, CONTENT];
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
        tokio::time::sleep(RECONNECT).await;
    }
}
