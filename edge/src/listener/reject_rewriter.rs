//! Replaces hyper's empty 400/431 response to an unparsable first request with the listener's own response, on the way
//! to the socket.
//!
//! Only before the first request: data written before can be nothing else, and later data may be any response.

use super::conn_registry::ConnState;
use super::{ListenerShared, RejectReason};
use crate::request_context::CorrelationId;
use bytes::{Buf, Bytes, BytesMut};
use futures_util::FutureExt;
use http_body_util::BodyExt;
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Stream that rewrites hyper's rejection of an unparsable first request.
pub(super) struct RejectRewriter<S> {
    stream: S,
    shared: Arc<ListenerShared>,
    conn: Arc<ConnState>,
    /// A request has been started.
    has_started: bool,
    /// Response being written instead.
    replacement: Option<Box<Bytes>>,
}

impl<S> RejectRewriter<S> {
    pub(super) fn new(stream: S, shared: Arc<ListenerShared>, conn: Arc<ConnState>) -> Self {
        Self {
            stream,
            shared,
            conn,
            has_started: false,
            replacement: None,
        }
    }
}

impl<S: AsyncWrite + Unpin> RejectRewriter<S> {
    /// Writes our response instead of `original`, if that is a rejection by hyper; `None` if it is not.
    fn rewrite(&mut self, cx: &mut Context<'_>, original: &[u8]) -> Option<Poll<Result<()>>> {
        if self.replacement.is_none() {
            self.has_started = self.has_started || self.conn.has_started_request();
            if self.has_started {
                return None;
            }
            let replacement = encode_response(&self.shared, parse_rejection(original)?)?;
            self.replacement = Some(Box::new(replacement));
        }
        let replacement = self.replacement.as_mut()?;
        while replacement.has_remaining() {
            match Pin::new(&mut self.stream).poll_write(cx, replacement) {
                Poll::Ready(Ok(0)) => {
                    return Some(Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())));
                }
                Poll::Ready(Ok(written)) => replacement.advance(written),
                Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error))),
                Poll::Pending => return Some(Poll::Pending),
            }
        }
        self.replacement = None;
        Some(Poll::Ready(Ok(())))
    }
}

/// Returns the reject reason of a response head.
fn parse_rejection(head: &[u8]) -> Option<RejectReason> {
    let status = head.strip_prefix(b"HTTP/1.1 ")?;
    match status.get(..3)? {
        b"400" => Some(RejectReason::Malformed),
        b"414" | b"431" => Some(RejectReason::HeadTooLarge),
        _ => None,
    }
}

/// Encodes our response. Closes the connection, because the start of a next request is unknown.
fn encode_response(shared: &ListenerShared, reason: RejectReason) -> Option<Bytes> {
    let response = shared.reject(reason, CorrelationId::generate());
    let (parts, body) = response.into_parts();
    // The body must be available at once.
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
    let headers = format!("\r\ndate: {date}\r\ncontent-length: {}", body.len());
    out.extend_from_slice(headers.as_bytes());
    out.extend_from_slice(b"\r\nconnection: close\r\n\r\n");
    out.extend_from_slice(&body);
    Some(out.freeze())
}

impl<S: AsyncRead + Unpin> AsyncRead for RejectRewriter<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let received = buf.filled().len() - before;
        self.conn
            .heads()
            .add_received(received, self.conn.is_idle());
        self.conn.update_head_charge();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RejectRewriter<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        match self.rewrite(cx, buf) {
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
        // A rejection has no body, so it is one buffer.
        if let [only] = bufs
            && let Some(written) = self.rewrite(cx, only)
        {
            ready!(written)?;
            return Poll::Ready(Ok(only.len()));
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }
}
