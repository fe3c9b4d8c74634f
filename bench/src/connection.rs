//! A connection over TLS that is kept.
//!
//! It is as thin as it can be, for it runs on the same cores as the server: prepared bytes out, the
//! head looked at just enough to know where the answer ends.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that fails has nothing to say"
)]

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A connection that is kept.
#[derive(Debug)]
pub struct Connection {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects to a port of this machine.
    pub async fn open(port: u16, tls: &Arc<ClientConfig>) -> Self {
        // From many addresses in turn, for a server gives each of them only a share of its connections.
        static OPENED: AtomicU8 = AtomicU8::new(0);
        let host = OPENED.fetch_add(1, Ordering::Relaxed) % 32 + 1;
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, host], 0).into()).unwrap();
        let server = ([127, 0, 0, 1], port).into();
        let socket = socket.connect(server).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let connector = TlsConnector::from(tls.clone());
        let stream = connector.connect(name, socket).await.unwrap();
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    /// Sends a request, and does not wait.
    pub async fn send(&mut self, request: &[u8]) {
        self.stream.write_all(request).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Sends a request and reads its answer: the status and the body.
    pub async fn ask(&mut self, request: &[u8]) -> (u16, &[u8]) {
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
    pub async fn more(&mut self) {
        let read = self.stream.read_buf(&mut self.buffer).await.unwrap();
        assert!(read > 0, "the server hung up");
    }

    /// Everything read so far is forgotten.
    pub fn forget(&mut self) {
        self.buffer = Vec::new();
    }

    /// What came and is not forgotten.
    pub fn read(&self) -> &[u8] {
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
