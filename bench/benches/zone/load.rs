//! The load: connections that are kept, each asking again as soon as it has its answer.
//!
//! The client is as thin as it can be, for it runs on the same cores as the server: prepared bytes
//! out, the head looked at just enough to know where the answer ends.

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// What one measurement gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Answers a second, over all connections.
    pub(crate) rate: f64,
    /// The wait that one in two exceeds.
    pub(crate) median: Duration,
    /// The wait that one in a hundred exceeds.
    pub(crate) p99: Duration,
    /// How many answers there were.
    pub(crate) answers: usize,
}

/// A connection that is kept.
pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(port: u16, tls: &Arc<ClientConfig>) -> Self {
        let socket = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(tls.clone());
        let stream = connector.connect(name, socket).await.unwrap();
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    pub(crate) async fn send(&mut self, request: &[u8]) {
        self.stream.write_all(request).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Sends a request and reads its answer: the status and the body.
    pub(crate) async fn ask(&mut self, request: &[u8]) -> (u16, &[u8]) {
        self.send(request).await;
        self.buffer.clear();
        loop {
            self.more().await;
            if let Some(head) = Head::read(&self.buffer) {
                while self.buffer.len() < head.ends + head.length {
                    self.more().await;
                }
                return (head.status, self.buffer.get(head.ends..).unwrap());
            }
        }
    }

    /// Reads on, whatever comes.
    pub(crate) async fn more(&mut self) {
        let read = self.stream.read_buf(&mut self.buffer).await.unwrap();
        assert!(read > 0, "the server hung up");
    }

    /// Everything read so far is forgotten.
    pub(crate) fn forget(&mut self) {
        self.buffer = Vec::new();
    }

    pub(crate) fn read(&self) -> &[u8] {
        &self.buffer
    }
}

/// The head of an answer.
struct Head {
    status: u16,
    ends: usize,
    length: usize,
}

impl Head {
    fn read(buffer: &[u8]) -> Option<Self> {
        let ends = buffer.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let text = std::str::from_utf8(buffer.get(..ends)?).unwrap();
        let status = text.get(9..12)?.parse().unwrap();
        let mut length = 0;
        for line in text.split("\r\n").skip(1) {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap();
            }
        }
        Some(Self {
            status,
            ends,
            length,
        })
    }
}

/// Opens so many connections.
pub(crate) async fn open(
    port: u16,
    tls: &Arc<ClientConfig>,
    connections: usize,
) -> Vec<Connection> {
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(Connection::open(port, tls).await);
    }
    open
}

/// Asks on these connections for so long, and gives them back. Every answer must have status 200 and no
/// error in it.
pub(crate) async fn measure(
    open: Vec<Connection>,
    request: &Arc<[u8]>,
    time: Duration,
) -> (Figures, Vec<Connection>) {
    let began = Instant::now();
    let over = began + time;
    let tasks: Vec<_> = open
        .into_iter()
        .map(|mut connection| {
            let request = request.clone();
            tokio::spawn(async move {
                let mut waits = Vec::with_capacity(4096);
                while Instant::now() < over {
                    let asked = Instant::now();
                    let (status, body) = connection.ask(&request).await;
                    let fine = status == 200 && !contains(body, b"\"error\":{");
                    assert!(fine, "{status} {}", String::from_utf8_lossy(body));
                    waits.push(asked.elapsed());
                }
                (waits, connection)
            })
        })
        .collect();
    let (mut waits, mut open) = (Vec::new(), Vec::new());
    for task in tasks {
        let (more, connection) = task.await.unwrap();
        waits.extend(more);
        open.push(connection);
    }
    let took = began.elapsed();
    waits.sort_unstable();
    let exceeded_by = |percent: usize| {
        let place = waits.len() * (100 - percent) / 100;
        waits.get(place).copied().unwrap_or(took)
    };
    let (median, p99) = (exceeded_by(50), exceeded_by(1));
    #[expect(clippy::cast_precision_loss, reason = "a rate, not a count")]
    let rate = waits.len() as f64 / took.as_secs_f64();
    let answers = waits.len();
    let figures = Figures {
        rate,
        median,
        p99,
        answers,
    };
    (figures, open)
}

fn contains(text: &[u8], wanted: &[u8]) -> bool {
    text.windows(wanted.len()).any(|window| window == wanted)
}
