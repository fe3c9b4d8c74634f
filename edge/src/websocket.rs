//! WebSockets: the handshake of RFC 6455, 4.2, and messages that count against the memory budget for bodies from the
//! header of their first frame until they are dropped.

mod metered_io;
#[cfg(test)]
mod tests;

use crate::budget::{Reservation, ShareKey};
use crate::limits::HttpLimits;
use axum::body::Body;
use bytes::Bytes;
use futures_util::{FutureExt, SinkExt, StreamExt};
use http::header::{CONNECTION, HeaderName, HeaderValue, UPGRADE};
use http::header::{SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION};
use http::request::Parts;
use http::{Response, StatusCode};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use metered_io::{FrameMeter, FrameRejection, MeteredIo};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// Size of the read and write buffers. There are many sockets, mostly idle.
const BUFFER_BYTES: usize = 8 * 1024;
/// A longer message is sent in frames of this many bytes (RFC 6455, 5.4). The WebSocket library copies each frame and
/// never shrinks the buffer, so unfragmented messages would hold their size twice, and again when idle.
const MAX_FRAME_BYTES: usize = 64 * 1024;
/// Maximum number of unsent bytes: a frame, and pongs. Beyond it only the newest ping is answered.
const MAX_UNSENT_BYTES: usize = 4 * MAX_FRAME_BYTES;

/// An accepted WebSocket request that is not upgraded yet.
pub struct WsUpgrade {
    on: OnUpgrade,
    meter: FrameMeter,
    max_bytes: usize,
    stall_timeout: Duration,
}

/// Event received from a WebSocket.
pub enum WsEvent {
    /// A text message.
    Text(WsText),
    /// A binary message.
    Binary,
    /// A ping or pong.
    KeepAlive,
    /// The memory budget, or the caller's share of it, is used up.
    MemoryLimit,
    /// A message was not completed in time.
    Timeout,
    /// The socket is closed.
    Closed,
}

/// A text message. Holds its part of the memory budget for bodies until it is dropped.
pub struct WsText {
    text: Utf8Bytes,
    _reservation: Option<Arc<Reservation>>,
}

impl WsText {
    /// Returns the bytes of the message.
    pub fn as_bytes(&self) -> &[u8] {
        self.text.as_str().as_bytes()
    }
}

/// Error of a send: the peer has disconnected or does not read, or the message is not valid text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the socket is closed: open another")]
pub struct WsClosed;

type WsConnection = MeteredIo<TokioIo<Upgraded>>;

/// An open WebSocket.
pub struct WebSocket {
    /// None once it is no longer usable.
    inner: Option<WebSocketStream<WsConnection>>,
    config: WebSocketConfig,
    /// Maximum time for the peer to read one frame.
    stall_timeout: Duration,
}

/// Returns the response to a WebSocket request, and the upgrade that becomes the socket once the response is sent;
/// `None` if it is no such request. Received messages count against `share`.
pub fn accept_upgrade(
    parts: &mut Parts,
    limits: &HttpLimits,
    share: ShareKey,
) -> Option<(Response<Body>, WsUpgrade)> {
    let header_contains = |name: HeaderName, token: &str| {
        let values = parts.headers.get_all(name).iter();
        let mut tokens = values.flat_map(|value| value.to_str().unwrap_or_default().split(','));
        tokens.any(|value| value.trim().eq_ignore_ascii_case(token))
    };
    let is_websocket = header_contains(CONNECTION, "upgrade")
        && header_contains(UPGRADE, "websocket")
        && header_contains(SEC_WEBSOCKET_VERSION, "13");
    let key = parts
        .headers
        .get(SEC_WEBSOCKET_KEY)
        .filter(|_| is_websocket)?;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).ok()?;
    let on = parts.extensions.remove::<OnUpgrade>()?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    let upgrade = WsUpgrade {
        on,
        meter: FrameMeter::new(
            limits.body_memory.clone(),
            share,
            limits.body_bytes,
            limits.body_timeout,
        ),
        max_bytes: limits.body_bytes,
        stall_timeout: limits.stall_timeout,
    };
    Some((response, upgrade))
}

impl WsUpgrade {
    /// Returns the socket once the response has been sent; `None` if the peer has disconnected by then.
    pub async fn into_socket(self) -> Option<WebSocket> {
        let io = TokioIo::new(self.on.await.ok()?);
        let io = MeteredIo::new(io, self.meter);
        let config = WebSocketConfig::default()
            .read_buffer_size(BUFFER_BYTES)
            .write_buffer_size(BUFFER_BYTES)
            .max_write_buffer_size(MAX_UNSENT_BYTES)
            .max_message_size(Some(self.max_bytes))
            .max_frame_size(Some(self.max_bytes));
        let inner = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        Some(WebSocket {
            inner: Some(inner),
            config,
            stall_timeout: self.stall_timeout,
        })
    }
}

impl WebSocket {
    /// Receives the next event. Cancel-safe.
    pub async fn recv(&mut self) -> WsEvent {
        let stall = self.stall_timeout;
        let Some(inner) = &mut self.inner else {
            return WsEvent::Closed;
        };
        if inner.get_mut().meter().buffer_is_replaceable() {
            // Pending pongs would be lost.
            match timeout(stall, inner.flush()).await {
                Ok(Ok(())) => self.replace_buffers().await,
                Ok(Err(_)) | Err(_) => return WsEvent::Closed,
            }
        }
        let Some(inner) = &mut self.inner else {
            return WsEvent::Closed;
        };
        match inner.next().await {
            Some(Ok(Message::Text(text))) => WsEvent::Text(WsText {
                text,
                _reservation: inner.get_mut().meter().finished_reservation(),
            }),
            Some(Ok(Message::Binary(_))) => WsEvent::Binary,
            Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => WsEvent::KeepAlive,
            Some(Ok(Message::Close(_))) | None => WsEvent::Closed,
            Some(Err(_)) => match inner.get_mut().meter().rejection() {
                Some(rejection) => self.reject(rejection).await,
                None => WsEvent::Closed,
            },
        }
    }

    /// Frees a partly received message before its sender reads why it is rejected. A peer that does not read gets no
    /// reason.
    async fn reject(&mut self, rejection: FrameRejection) -> WsEvent {
        let flushed = self.inner.as_mut().and_then(|it| it.flush().now_or_never());
        if !matches!(flushed, Some(Ok(()))) {
            self.inner = None;
            return WsEvent::Closed;
        }
        self.replace_buffers().await;
        match rejection {
            FrameRejection::NoMemory => WsEvent::MemoryLimit,
            FrameRejection::Timeout => WsEvent::Timeout,
            FrameRejection::Invalid => WsEvent::Closed,
        }
    }

    /// Drops the buffers of the WebSocket library, which never shrink, and their content.
    async fn replace_buffers(&mut self) {
        if let Some(inner) = self.inner.take() {
            let mut io = inner.into_inner();
            io.meter().buffer_was_replaced();
            let inner = WebSocketStream::from_raw_socket(io, Role::Server, Some(self.config)).await;
            self.inner = Some(inner);
        }
    }

    /// Sends a text message. Its bytes may be shared with other sockets. The peer has the stall timeout to read each
    /// frame.
    ///
    /// # Errors
    /// The peer has disconnected, or does not read.
    pub async fn send_text(&mut self, text: Bytes) -> Result<(), WsClosed> {
        let text = Utf8Bytes::try_from(text).map_err(|_| WsClosed)?;
        if text.len() <= MAX_FRAME_BYTES {
            return self.send(Message::Text(text)).await;
        }
        let mut remaining = Bytes::from(text);
        let mut kind = Data::Text;
        while !remaining.is_empty() {
            let frame = remaining.split_to(MAX_FRAME_BYTES.min(remaining.len()));
            let frame = Frame::message(frame, OpCode::Data(kind), remaining.is_empty());
            self.send(Message::Frame(frame)).await?;
            kind = Data::Continue;
        }
        Ok(())
    }

    /// Sends a ping.
    ///
    /// # Errors
    /// The peer has disconnected.
    pub async fn ping(&mut self) -> Result<(), WsClosed> {
        self.send(Message::Ping(Bytes::new())).await
    }

    /// Closes the socket with a reason.
    ///
    /// # Errors
    /// The peer has disconnected.
    pub async fn close(&mut self, code: u16, reason: &'static str) -> Result<(), WsClosed> {
        let frame = CloseFrame {
            code: CloseCode::from(code),
            reason: Utf8Bytes::from_static(reason),
        };
        self.send(Message::Close(Some(frame))).await
    }

    async fn send(&mut self, message: Message) -> Result<(), WsClosed> {
        let inner = self.inner.as_mut().ok_or(WsClosed)?;
        match timeout(self.stall_timeout, inner.send(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(WsClosed),
        }
    }
}
