//! Request body as it is received. The request counts as in flight once the body is complete.

use super::admission::{PendingUpload, UploadAborted};
use axum::BoxError;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Body of a request, which may still be being received.
pub(super) struct RequestBody {
    incoming: Incoming,
    /// None once the body is complete, or if there is none.
    upload: Option<PendingUpload>,
}

impl RequestBody {
    pub(super) fn new(incoming: Incoming, upload: Option<PendingUpload>) -> Self {
        Self { incoming, upload }
    }

    /// Marks the body as complete. Returns true if the request is admitted.
    fn try_admit(&mut self) -> bool {
        let admitted = self.upload.as_ref().is_none_or(PendingUpload::complete);
        if admitted {
            self.upload = None;
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
        if let Some(upload) = &self.upload
            && let Err(UploadAborted) = ready!(upload.poll_may_read(cx))
        {
            return Poll::Ready(Some(Err(UploadAborted.into())));
        }
        let frame = ready!(Pin::new(&mut self.incoming).poll_frame(cx));
        if let (Some(upload), Some(Ok(frame))) = (&self.upload, &frame)
            && let Some(data) = frame.data_ref()
        {
            let is_chunked = self.incoming.size_hint().exact().is_none();
            upload.consume(data.len(), is_chunked);
        }
        let is_end = frame.is_none() || self.incoming.is_end_stream();
        if is_end && let Some(sender) = &self.upload {
            sender.finish_body();
        }
        if is_end && !self.try_admit() {
            // The listener responds instead of the handler.
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
        if let Some(upload) = self.upload.take() {
            // The HTTP library discards the remainder, or closes the connection.
            let remaining = self.incoming.size_hint().lower();
            upload.discard(usize::try_from(remaining).unwrap_or(usize::MAX));
            upload.abandon();
        }
    }
}
