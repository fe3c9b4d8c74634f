//! WebSockets: the handshake of RFC 6455, 4.2, and messages that take their part of the memory for
//! bodies, from the header of their first frame until they are dropped. What they say is not looked at here.

mod counted;
#[cfg(test)]
mod tests;

use crate::budget::{Reservation, ShareKey};
use crate::limits::HttpLimits;
use axum::body::Body;
use bytes::Bytes;
use counted::{Counted, Meter, Refusal};
use futures_util::{FutureExt, SinkExt, StreamExt};
use http::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use http::header::{SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION};
use http::request::Parts;
use http::{Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// Room for reading and for writing. Sockets are many, and mostly idle.
const BUFFER: usize = 8 * 1024;
/// A longer message is sent in frames of this many bytes (RFC 6455, 5.4). The WebSocket library copies each
/// frame and keeps the room for it, so whole messages would hold their size twice, and again when idle.
const FRAME: usize = 64 * 1024;
/// The most that waits to be sent: a frame, and answers to pings. Beyond it only the newest ping
/// is answered.
const UNSENT: usize = 4 * FRAME;

/// A socket that is about to be one.
pub struct Upgrade {
    on: OnUpgrade,
    meter: Meter,
    most: usize,
    stall: Duration,
}

/// Something that came.
pub enum Heard {
    /// A message in text.
    Text(Text),
    /// A message in bytes.
    Binary,
    /// A sign of life.
    Sign,
    /// The messages and bodies of all callers together, or of this one, take as much memory as they may.
    NoRoom,
    /// A message was begun and not finished in time.
    TooSlow,
    /// Nothing more will come.
    End,
}

/// A message in text. It takes its part of the memory for bodies until it is dropped.
pub struct Text {
    text: Utf8Bytes,
    _reservation: Option<Arc<Reservation>>,
}

impl Text {
    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.text.as_str().as_bytes()
    }
}

/// The other side is gone or does not read, or what was to be said is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the socket is closed: open another")]
pub struct Gone;

type Connection = Counted<TokioIo<Upgraded>>;

/// An open socket.
pub struct Socket {
    /// Nothing once it cannot be used any more.
    inner: Option<WebSocketStream<Connection>>,
    config: WebSocketConfig,
    /// How long the other side may take to read one frame.
    stall: Duration,
}

/// The answer to a request for a WebSocket, and the socket that it becomes once the answer is sent;
/// nothing if it is no such request. What comes by it counts to this share.
pub fn upgrade(
    parts: &mut Parts,
    limits: &HttpLimits,
    share: ShareKey,
) -> Option<(Response<Body>, Upgrade)> {
    let says = |name: HeaderName, word: &str| {
        let values = parts.headers.get_all(name).iter();
        let mut words = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
        words.any(|said| said.trim().eq_ignore_ascii_case(word))
    };
    let asked = says(CONNECTION, "upgrade")
        && says(UPGRADE, "websocket")
        && says(SEC_WEBSOCKET_VERSION, "13");
    let key = parts.headers.get(SEC_WEBSOCKET_KEY).filter(|_| asked)?;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).ok()?;
    let on = parts.extensions.remove::<OnUpgrade>()?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    let upgrade = Upgrade {
        on,
        meter: Meter::new(limits.bodies.clone(), share, limits.body, limits.body_time),
        most: limits.body,
        stall: limits.stall,
    };
    Some((response, upgrade))
}

impl Upgrade {
    /// The socket, when the answer has been sent; nothing if the other side is gone by then.
    pub async fn socket(self) -> Option<Socket> {
        let io = TokioIo::new(self.on.await.ok()?);
        let io = Counted::new(io, self.meter);
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .write_buffer_size(BUFFER)
            .max_write_buffer_size(UNSENT)
            .max_message_size(Some(self.most))
            .max_frame_size(Some(self.most));
        let inner = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        Some(Socket {
            inner: Some(inner),
            config,
            stall: self.stall,
        })
    }
}

impl Socket {
    /// What comes next. It may be broken off: nothing is lost.
    pub async fn recv(&mut self) -> Heard {
        let stall = self.stall;
        let Some(inner) = &mut self.inner else {
            return Heard::End;
        };
        if inner.get_mut().meter().buffer_is_replaceable() {
            // Answers to pings may wait to be sent, and would be lost.
            match timeout(stall, inner.flush()).await {
                Ok(Ok(())) => self.replace_buffers().await,
                Ok(Err(_)) | Err(_) => return Heard::End,
            }
        }
        let Some(inner) = &mut self.inner else {
            return Heard::End;
        };
        match inner.next().await {
            Some(Ok(Message::Text(text))) => Heard::Text(Text {
                text,
                _reservation: inner.get_mut().meter().finished(),
            }),
            Some(Ok(Message::Binary(_))) => Heard::Binary,
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => Heard::Sign,
            Some(Ok(Message::Close(_))) | None => Heard::End,
            Some(Err(_)) => match inner.get_mut().meter().refusal() {
                Some(refusal) => self.refuse(refusal).await,
                None => Heard::End,
            },
        }
    }

    /// Frees what has arrived of a message before its sender reads why it is refused. A sender that does not read is
    /// not told.
    async fn refuse(&mut self, refusal: Refusal) -> Heard {
        let flushed = self.inner.as_mut().and_then(|it| it.flush().now_or_never());
        if !matches!(flushed, Some(Ok(()))) {
            self.inner = None;
            return Heard::End;
        }
        self.replace_buffers().await;
        match refusal {
            Refusal::NoMemory => Heard::NoRoom,
            Refusal::TooSlow => Heard::TooSlow,
            Refusal::Invalid => Heard::End,
        }
    }

    /// Gives up the buffers of the WebSocket library, which never shrink, and what they hold.
    async fn replace_buffers(&mut self) {
        if let Some(inner) = self.inner.take() {
            let mut io = inner.into_inner();
            io.meter().buffer_was_replaced();
            let inner = WebSocketStream::from_raw_socket(io, Role::Server, Some(self.config)).await;
            self.inner = Some(inner);
        }
    }

    /// Sends a text message. Its bytes may be shared with other sockets. The peer has the stall time of the limits to
    /// read each frame.
    ///
    /// # Errors
    /// The other side is gone, or does not read.
    pub async fn say(&mut self, text: Bytes) -> Result<(), Gone> {
        let text = Utf8Bytes::try_from(text).map_err(|_| Gone)?;
        if text.len() <= FRAME {
            return self.send(Message::Text(text)).await;
        }
        let mut rest = Bytes::from(text);
        let mut kind = Data::Text;
        while !rest.is_empty() {
            let frame = rest.split_to(FRAME.min(rest.len()));
            let frame = Frame::message(frame, OpCode::Data(kind), rest.is_empty());
            self.send(Message::Frame(frame)).await?;
            kind = Data::Continue;
        }
        Ok(())
    }

    /// Asks for a sign of life.
    ///
    /// # Errors
    /// The other side is gone.
    pub async fn ping(&mut self) -> Result<(), Gone> {
        self.send(Message::Ping(Bytes::new())).await
    }

    /// Closes the socket, and says why.
    ///
    /// # Errors
    /// The other side is gone.
    pub async fn close(&mut self, code: u16, why: &'static str) -> Result<(), Gone> {
        let frame = CloseFrame {
            code: CloseCode::from(code),
            reason: Utf8Bytes::from_static(why),
        };
        self.send(Message::Close(Some(frame))).await
    }

    async fn send(&mut self, message: Message) -> Result<(), Gone> {
        let inner = self.inner.as_mut().ok_or(Gone)?;
        match timeout(self.stall, inner.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }
}
