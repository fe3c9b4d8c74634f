//! The body of a request as it arrives. When its last byte is there the request counts as work.

use super::admission::{Sender, SenderEnded};
use axum::BoxError;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A request's body, which may still be on its way.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
    /// None once it is complete, or if there is no body.
    sender: Option<Sender>,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, sender: Option<Sender>) -> Self {
        Self { incoming, sender }
    }

    /// The request as one that is still being sent; `None` once its body is complete.
    pub fn sender(&self) -> Option<&Sender> {
        self.sender.as_ref()
    }

    /// All of it is there. Says whether its request may be worked on.
    fn complete(&mut self) -> bool {
        let admitted = self.sender.as_ref().is_none_or(Sender::complete);
        if admitted {
            self.sender = None;
        }
        admitted
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(sender) = &self.sender
            && let Err(SenderEnded) = ready!(sender.poll_reading(cx))
        {
            return Poll::Ready(Some(Err(SenderEnded.into())));
        }
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(cx));
        if let (Some(sender), Some(Ok(frame))) = (&self.sender, &frame)
            && let Some(data) = frame.data_ref()
        {
            let is_chunked = self.incoming.size_hint().exact().is_none();
            sender.consume(data.len(), is_chunked);
        }
        let ended = frame.is_none() || self.incoming.is_end_stream();
        if ended && let Some(sender) = &self.sender {
            sender.finish_body();
        }
        if ended && !self.complete() {
            // The listener answers in the handler's place.
            return Poll::Pending;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some(sender) = self.sender.take() {
            // The HTTP library discards the rest, or closes the connection.
            let rest = self.incoming.size_hint().lower();
            sender.consume(usize::try_from(rest).unwrap_or(usize::MAX), false);
            sender.abandon();
        }
    }
}
