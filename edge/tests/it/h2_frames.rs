//! HTTP/2 client that sends and reads raw frames, and so can violate the protocol.

use crate::fixture::{ListenerFixture, TlsClientOptions, within_timeout};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

pub(crate) const DATA: u8 = 0x0;
pub(crate) const HEADERS: u8 = 0x1;
pub(crate) const PRIORITY: u8 = 0x2;
pub(crate) const RST_STREAM: u8 = 0x3;
pub(crate) const SETTINGS: u8 = 0x4;
pub(crate) const PING: u8 = 0x6;
pub(crate) const WINDOW_UPDATE: u8 = 0x8;
pub(crate) const CONTINUATION: u8 = 0x9;

pub(crate) const END_STREAM: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;

const INITIAL_WINDOW_SIZE: u8 = 0x4;

pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn new(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Self {
        Self {
            kind,
            flags,
            stream,
            payload: payload.to_vec(),
        }
    }

    /// Request in HPACK literals without indexing (RFC 7541, 6.2.2).
    pub(crate) fn request(method: u8, flags: u8, stream: u32, path: &str) -> Self {
        let mut block = vec![method, 0x87, 0x04, u8::try_from(path.len()).unwrap()];
        block.extend_from_slice(path.as_bytes());
        block.extend_from_slice(b"\x01\x09localhost");
        Self::new(HEADERS, flags | END_HEADERS, stream, &block)
    }

    pub(crate) fn get(stream: u32, path: &str) -> Self {
        Self::request(0x82, END_STREAM, stream, path)
    }

    pub(crate) fn post(stream: u32, path: &str) -> Self {
        Self::request(0x83, 0, stream, path)
    }

    pub(crate) fn window_update(stream: u32, bytes: u32) -> Self {
        Self::new(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes())
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap().to_be_bytes();
        let mut bytes = length[1..].to_vec();
        bytes.extend([self.kind, self.flags]);
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }
}

pub(crate) struct FrameReader(ReadHalf<TlsStream<TcpStream>>);
pub(crate) struct FrameWriter(WriteHalf<TlsStream<TcpStream>>);

/// Opens a connection whose streams have an initial window of `window` bytes.
pub(crate) async fn connect(server: &ListenerFixture, window: u32) -> (FrameReader, FrameWriter) {
    let caller = TlsClientOptions {
        alpn: b"h2",
        ..TlsClientOptions::default()
    };
    let stream = server.connect_as(&caller).await.unwrap();
    let (read, write) = tokio::io::split(stream);
    let mut writer = FrameWriter(write);
    let mut settings = vec![0, INITIAL_WINDOW_SIZE];
    settings.extend(window.to_be_bytes());
    let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    hello.extend(Frame::new(SETTINGS, 0, 0, &settings).bytes());
    writer.send_bytes(&hello).await.unwrap();
    (FrameReader(read), writer)
}

impl FrameWriter {
    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes).await?;
        self.0.flush().await
    }

    pub(crate) async fn send(&mut self, frame: &Frame) {
        self.send_bytes(&frame.bytes()).await.unwrap();
    }
}

impl FrameReader {
    /// Reads the next frame; `None` when the server has closed.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        within_timeout("a frame", self.0.read_exact(&mut head))
            .await
            .ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).unwrap()];
        within_timeout("a payload", self.0.read_exact(&mut payload))
            .await
            .ok()?;
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        })
    }

    /// Reads until a frame of this type.
    pub(crate) async fn read_until(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next().await.expect("the connection is open");
            if frame.kind == kind {
                return frame;
            }
        }
    }

    /// Reads until the server closes.
    pub(crate) async fn read_to_close(mut self) {
        while self.next().await.is_some() {}
    }
}
