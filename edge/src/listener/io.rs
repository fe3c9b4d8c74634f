//! The socket of a connection, as hyper and its heirs see it. It keeps the connection's pulse, and
//! gives back the connection's place when it is dropped, wherever that happens.

use super::pulse::{Entry, Order};
use crate::telemetry::Open;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_rustls::server::TlsStream;

pub(super) struct Io {
    pub(super) stream: TokioIo<TlsStream<TcpStream>>,
    pub(super) entry: Entry,
    pub(super) _open: Open,
    pub(super) _permit: OwnedSemaphorePermit,
}

impl Io {
    fn wrote<T>(&self, result: Poll<T>) -> Poll<T> {
        self.entry.pulse().flowing(result.is_ready());
        result
    }
}

impl Read for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<Result<()>> {
        let pulse = self.entry.pulse();
        // While hyper drives the connection, its driver listens for orders; after that only we can.
        if pulse.is_released() && pulse.order(cx.waker()) == Order::Cut {
            return Poll::Ready(Err(Error::from(ErrorKind::ConnectionAborted)));
        }
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        if result.is_ready() {
            self.entry.pulse().heard();
        }
        result
    }
}

impl Write for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(cx);
        self.wrote(result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.wrote(result)
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
