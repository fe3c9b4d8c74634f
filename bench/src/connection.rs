//! Minimal keep-alive HTTP/1.1 client over TLS. It shares the cores with the server, so it sends prepared
//! bytes and parses only as much of the response head as needed to find its end.

#![expect(clippy::unwrap_used, reason = "a failed benchmark has no result")]

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A keep-alive connection.
#[derive(Debug)]
pub struct Connection {
    stream: TlsStream<TcpStream>,
    buffer: Vec<u8>,
}

impl Connection {
    /// Connects to a port of this machine.
    pub async fn open(port: u16, tls: &Arc<ClientConfig>) -> Self {
        // From many source addresses in turn, because servers limit connections per address.
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

    /// Sends a request without waiting for the response.
    pub async fn send(&mut self, request: &[u8]) {
        self.stream.write_all(request).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Sends a request and reads its response: status and body.
    pub async fn request(&mut self, request: &[u8]) -> (u16, &[u8]) {
        self.try_request(request).await.unwrap()
    }

    /// Like [`request`](Self::request), for benchmarks in which connections may be lost.
    pub async fn try_request(&mut self, request: &[u8]) -> std::io::Result<(u16, &[u8])> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        self.buffer.clear();
        loop {
            self.try_read_more().await?;
            if let Some(head) = ResponseHead::parse(&self.buffer) {
                while self.buffer.len() < head.end + head.length {
                    self.try_read_more().await?;
                }
                return Ok((head.status, self.buffer.get(head.end..).unwrap()));
            }
        }
    }

    /// Reads more bytes into the buffer.
    pub async fn read_more(&mut self) {
        self.try_read_more().await.unwrap();
    }

    async fn try_read_more(&mut self) -> std::io::Result<()> {
        match self.stream.read_buf(&mut self.buffer).await? {
            0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Clears the buffer.
    pub fn clear(&mut self) {
        self.buffer = Vec::new();
    }

    /// Returns the buffered bytes.
    pub fn buffered(&self) -> &[u8] {
        &self.buffer
    }
}

/// Head of a response.
struct ResponseHead {
    status: u16,
    end: usize,
    length: usize,
}

impl ResponseHead {
    fn parse(buffer: &[u8]) -> Option<Self> {
        let end = buffer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let text = std::str::from_utf8(buffer.get(..end)?).unwrap();
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
            end,
            length,
        })
    }
}
