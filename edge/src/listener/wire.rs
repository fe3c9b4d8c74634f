//! The socket of a connection, below TLS. It shows the connection's pulse as bytes come and go, and
//! gives back the connection's place when it is dropped, wherever that happens.

use super::addresses::AddressSlot;
use super::pulse::{Entry, Order};
use super::records::Records;
use crate::telemetry::Open;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

pub(super) struct Wire {
    pub(super) stream: TcpStream,
    pub(super) entry: Entry,
    /// None where HTTP is spoken plainly.
    pub(super) records: Option<Records>,
    /// Bytes of the handshake.
    pub(super) handshake: usize,
    pub(super) _open: Open,
    pub(super) _permit: OwnedSemaphorePermit,
    pub(super) _address: AddressSlot,
}

impl Wire {
    /// Counts bytes that the TLS library keeps.
    fn count_received(&mut self, bytes: &[u8]) {
        let Some(records) = &mut self.records else {
            return;
        };
        let before = records.incomplete();
        records.follow(bytes);
        let after = records.incomplete();
        let pulse = self.entry.pulse();
        if !pulse.is_driven() {
            // Messages of a handshake may span records, and are kept until they are complete.
            self.handshake = self.handshake.saturating_add(bytes.len());
            pulse.heads().set_record(self.handshake);
        } else if before != after {
            pulse.heads().set_record(after);
        } else {
            return;
        }
        pulse.settle_heads();
    }

    fn wrote(&self, result: Poll<Result<usize>>) -> Poll<Result<usize>> {
        match &result {
            Poll::Ready(Ok(written)) => self.entry.pulse().add_written(*written),
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.entry.pulse().block(),
        }
        result
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let pulse = self.entry.pulse();
        // While HTTP drives the connection, its driver listens for orders; otherwise only we can.
        if !pulse.is_driven() && pulse.order(cx.waker()) == Order::Cut {
            return Poll::Ready(Err(Error::from(ErrorKind::ConnectionAborted)));
        }
        ready!(pulse.heads().poll_read_on(cx));
        let before = buf.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        if result.is_ready() {
            self.entry.pulse().heard();
            self.count_received(buf.filled().get(before..).unwrap_or_default());
        }
        result
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(result)
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
        self.wrote(result)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.entry.pulse().heads().release();
    }
}
