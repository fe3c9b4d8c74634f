//! What is answered to a first request whose head cannot be read: the HTTP library does so by itself, with a
//! status and nothing else, before anybody of ours hears of it. Here the listener's own answer takes the
//! place of that one, on its way to the socket.
//!
//! Only until a request has begun: what is written before that can be nothing else, and what is written
//! later may be anybody's words, whatever they look like.

use super::pulse::Pulse;
use super::{Shared, TurnedAway};
use crate::request::Correlation;
use bytes::{Buf, Bytes, BytesMut};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream on which no first request is refused without a word.
pub(super) struct Explained<S> {
    stream: S,
    shared: Arc<Shared>,
    pulse: Arc<Pulse>,
    /// Whether a request was seen to have begun.
    begun: bool,
    /// What is being written in place of something else.
    own: Option<Box<Bytes>>,
}

impl<S> Explained<S> {
    pub(super) fn new(stream: S, shared: Arc<Shared>, pulse: Arc<Pulse>) -> Self {
        Self {
            stream,
            shared,
            pulse,
            begun: false,
            own: None,
        }
    }
}

impl<S: AsyncWrite + Unpin> Explained<S> {
    /// Writes our answer in place of `bare`, if that is one without a word; `None` if it is not.
    fn instead(&mut self, cx: &mut Context<'_>, bare: &[u8]) -> Option<Poll<Result<()>>> {
        if self.own.is_none() {
            self.begun = self.begun || self.pulse.has_begun();
            if self.begun {
                return None;
            }
            let own = answer(&self.shared, unread(bare)?)?;
            self.own = Some(Box::new(own));
        }
        let own = self.own.as_mut()?;
        while own.has_remaining() {
            match Pin::new(&mut self.stream).poll_write(cx, own) {
                Poll::Ready(Ok(0)) => {
                    return Some(Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())));
                }
                Poll::Ready(Ok(written)) => own.advance(written),
                Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error))),
                Poll::Pending => return Some(Poll::Pending),
            }
        }
        self.own = None;
        Some(Poll::Ready(Ok(())))
    }
}

/// Why a request was refused, by the head of the answer.
fn unread(head: &[u8]) -> Option<TurnedAway> {
    let status = head.strip_prefix(b"HTTP/1.1 ")?;
    match status.get(..3)? {
        b"400" => Some(TurnedAway::Unreadable),
        b"414" | b"431" => Some(TurnedAway::HeadTooLarge),
        _ => None,
    }
}

/// Our answer, as it goes over the wire. The connection ends with it, for nobody knows where the next
/// request would begin.
fn answer(shared: &Shared, why: TurnedAway) -> Option<Bytes> {
    let response = shared.turned_away(why, Correlation::fresh());
    let (parts, body) = response.into_parts();
    // It is at hand, or it is no answer for this place.
    let body = body.collect().now_or_never()?.ok()?.to_bytes();
    let mut out = BytesMut::with_capacity(512);
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(parts.status.as_str().as_bytes());
    out.extend_from_slice(b" ");
    let reason = parts.status.canonical_reason().unwrap_or_default();
    out.extend_from_slice(reason.as_bytes());
    for (name, value) in &parts.headers {
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
    }
    let date = httpdate::fmt_http_date(SystemTime::now());
    let rest = format!("\r\ndate: {date}\r\ncontent-length: {}", body.len());
    out.extend_from_slice(rest.as_bytes());
    out.extend_from_slice(b"\r\nconnection: close\r\n\r\n");
    out.extend_from_slice(&body);
    Some(out.freeze())
}

impl<S: AsyncRead + Unpin> AsyncRead for Explained<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let arrived = buf.filled().len() - before;
        self.pulse
            .heads()
            .add_received(arrived, self.pulse.is_idle());
        self.pulse.settle_heads();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Explained<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        match self.instead(cx, buf) {
            Some(written) => {
                ready!(written)?;
                Poll::Ready(Ok(buf.len()))
            }
            None => Pin::new(&mut self.stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        // A refusal has no body, so it is one piece.
        if let [only] = bufs
            && let Some(written) = self.instead(cx, only)
        {
            ready!(written)?;
            return Poll::Ready(Ok(only.len()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}
