//! Socket of a connection, below TLS. Reports reads and writes to the connection state, and releases the connection's
//! permits when it is dropped.

use super::addresses::AddressSlot;
use super::conn_registry::{Registration, ShutdownOrder};
use super::tls_records::TlsRecordTracker;
use crate::telemetry::GaugeGuard;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

pub(super) struct TrackedSocket {
    pub(super) stream: TcpStream,
    pub(super) registration: Registration,
    /// None for plain HTTP.
    pub(super) records: Option<TlsRecordTracker>,
    /// Bytes of the handshake.
    pub(super) handshake_bytes: usize,
    pub(super) _open: GaugeGuard,
    pub(super) _permit: OwnedSemaphorePermit,
    pub(super) _address: AddressSlot,
}

impl TrackedSocket {
    /// Counts bytes that the TLS library buffers.
    fn count_received(&mut self, bytes: &[u8]) {
        let Some(records) = &mut self.records else {
            return;
        };
        let before = records.incomplete_bytes();
        records.track(bytes);
        let after = records.incomplete_bytes();
        let conn = self.registration.conn();
        if !conn.is_serving_http() {
            // Handshake messages may span records, and are buffered until they are complete.
            self.handshake_bytes = self.handshake_bytes.saturating_add(bytes.len());
            conn.heads().set_record(self.handshake_bytes);
        } else if before != after {
            conn.heads().set_record(after);
        } else {
            return;
        }
        conn.update_head_charge();
    }

    fn on_write(&self, result: Poll<Result<usize>>) -> Poll<Result<usize>> {
        match &result {
            Poll::Ready(Ok(written)) => self.registration.conn().add_written(*written),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.registration.conn().set_write_blocked(),
        }
        result
    }
}

impl AsyncRead for TrackedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let conn = self.registration.conn();
        // While HTTP is served, its driver handles the orders; otherwise this is the only place.
        if !conn.is_serving_http() && conn.poll_order(cx.waker()) == ShutdownOrder::Abort {
            return Poll::Ready(Err(Error::from(ErrorKind::ConnectionAborted)));
        }
        ready!(conn.heads().poll_may_read(cx));
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        if result.is_ready() {
            self.registration.conn().on_read();
            self.count_received(buf.filled().get(before..).unwrap_or_default());
        }
        result
    }
}

impl AsyncWrite for TrackedSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.on_write(result)
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
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.on_write(result)
    }
}

impl Drop for TrackedSocket {
    fn drop(&mut self) {
        self.registration.conn().heads().release();
    }
}
