//! The socket of a connection, below TLS. It shows the connection's pulse as bytes come and go, and
//! gives back the connection's place when it is dropped, wherever that happens.

use super::addresses::AddressSlot;
use super::pulse::{Entry, Order};
use crate::telemetry::Open;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

pub(super) struct Wire {
    pub(super) stream: TcpStream,
    pub(super) entry: Entry,
    pub(super) _open: Open,
    pub(super) _permit: OwnedSemaphorePermit,
    pub(super) _address: AddressSlot,
}

impl Wire {
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
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        if result.is_ready() {
            self.entry.pulse().heard();
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
