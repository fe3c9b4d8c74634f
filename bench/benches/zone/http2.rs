//! Raw HTTP/2 client for attacks: sends heads without bodies, never updates its windows, and leaves
//! responses unread.

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Frame types (RFC 9113, 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
/// Flags: ACK and END_STREAM have the same bit, on different frames.
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const INITIAL_WINDOW_SIZE: [u8; 2] = [0, 4];

/// Connects over TLS from a given loopback address.
pub(crate) async fn connect(
    from: Ipv4Addr,
    port: u16,
    tls: &Arc<ClientConfig>,
    protocol: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from((from, 0)))?;
    let stream = socket
        .connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .await?;
    stream.set_nodelay(true)?;
    let mut tls = ClientConfig::clone(tls);
    tls.alpn_protocols = vec![protocol.to_vec()];
    let name = ServerName::try_from("localhost").map_err(std::io::Error::other)?;
    TlsConnector::from(Arc::new(tls))
        .connect(name, stream)
        .await
}

/// A connection. Answers pings and settings, and drops all other frames.
pub(crate) struct RawHttp2Connection {
    frames: mpsc::Sender<Vec<u8>>,
    next_stream: u32,
    ended: Arc<AtomicU32>,
}

impl RawHttp2Connection {
    /// Connects. Every stream has this window, which is never enlarged.
    pub(crate) async fn open(
        from: Ipv4Addr,
        port: u16,
        tls: &Arc<ClientConfig>,
        window: u32,
    ) -> std::io::Result<Self> {
        let stream = connect(from, port, tls, b"h2").await?;
        let (read, mut write) = tokio::io::split(stream);
        let (frames, mut queue) = mpsc::channel::<Vec<u8>>(1024);
        let mut setting = INITIAL_WINDOW_SIZE.to_vec();
        setting.extend(window.to_be_bytes());
        let mut preface = PREFACE.to_vec();
        preface.extend(frame(SETTINGS, 0, 0, &setting));
        // The connection window never limits a stream.
        preface.extend(frame(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes()));
        write.write_all(&preface).await?;
        write.flush().await?;
        tokio::spawn(async move {
            while let Some(frame) = queue.recv().await {
                if write.write_all(&frame).await.is_err() || write.flush().await.is_err() {
                    return;
                }
            }
        });
        let ended = Arc::new(AtomicU32::new(0));
        // The reader holds a weak sender, so that the connection ends when this value is dropped.
        tokio::spawn(read_frames(read, frames.downgrade(), ended.clone()));
        Ok(Self {
            frames,
            next_stream: 1,
            ended,
        })
    }

    /// Opens a stream; returns its id, or `None` if the connection is closed.
    pub(crate) async fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
        end: bool,
    ) -> Option<u32> {
        let mut block = Vec::new();
        let pseudo = [
            (":method", method),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", path),
        ];
        for (name, value) in pseudo.iter().chain(headers) {
            // A literal without indexing, with a new name (RFC 7541, 6.2.2).
            block.push(0);
            for text in [name, value] {
                write_length(&mut block, text.len());
                block.extend(text.as_bytes());
            }
        }
        let stream = self.next_stream;
        self.next_stream += 2;
        let last = if end && body.is_none() { END_STREAM } else { 0 };
        let mut bytes = frame(HEADERS, END_HEADERS | last, stream, &block);
        if let Some(body) = body {
            bytes.extend(frame(DATA, if end { END_STREAM } else { 0 }, stream, body));
        }
        self.frames.send(bytes).await.ok().map(|()| stream)
    }

    /// Sends one byte of a body.
    pub(crate) async fn send_byte(&self, stream: u32) -> Option<()> {
        self.frames.send(frame(DATA, 0, stream, b" ")).await.ok()
    }

    /// Number of streams that the server has reset or ended since the last call.
    pub(crate) fn take_ended(&self) -> u32 {
        self.ended.swap(0, Ordering::Relaxed)
    }
}

async fn read_frames(
    mut read: ReadHalf<TlsStream<TcpStream>>,
    frames: mpsc::WeakSender<Vec<u8>>,
    ended: Arc<AtomicU32>,
) {
    let mut head = [0; 9];
    let mut payload = Vec::new();
    while read.read_exact(&mut head).await.is_ok() {
        let [a, b, c, kind, flags, ..] = head;
        let size = u32::from_be_bytes([0, a, b, c]);
        payload.resize(usize::try_from(size).unwrap(), 0);
        if read.read_exact(&mut payload).await.is_err() {
            break;
        }
        let reply = match kind {
            PING if flags & ACK == 0 => frame(PING, ACK, 0, &payload),
            SETTINGS if flags & ACK == 0 => frame(SETTINGS, ACK, 0, &[]),
            RST_STREAM => {
                ended.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            HEADERS | DATA if flags & END_STREAM != 0 => {
                ended.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            _ => continue,
        };
        let Some(frames) = frames.upgrade() else {
            return;
        };
        if frames.send(reply).await.is_err() {
            return;
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![a, b, c, kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Writes a length with a seven-bit prefix (RFC 7541, 5.1).
fn write_length(block: &mut Vec<u8>, length: usize) {
    let Some(mut remaining) = length.checked_sub(127) else {
        block.push(u8::try_from(length).unwrap());
        return;
    };
    block.push(127);
    while remaining >= 128 {
        block.push(u8::try_from(remaining % 128).unwrap() | 128);
        remaining /= 128;
    }
    block.push(u8::try_from(remaining).unwrap());
}
