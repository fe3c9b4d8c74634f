//! Reads request bodies within size, time and memory limits.
//!
//! A body is read in two steps: the first 64 KiB are read from any caller, the remainder only once the caller is
//! authenticated, and then counts against that caller's share of the memory budget.

mod deadline;
mod drain;
#[cfg(test)]
mod tests;

use crate::budget::{MemoryBudget, Reservation, ShareKey};
use crate::limits::HttpLimits;
use crate::listener::PendingUpload;
use axum::BoxError;
use bytes::{Bytes, BytesMut};
use deadline::BodyDeadline;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, EXPECT};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of bytes that are read before the caller is authenticated.
const UNAUTHENTICATED_BYTES: usize = MemoryBudget::PAGE;
/// Timeout for draining the remainder of a rejected body.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Error reading a request body.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The body exceeds the size limit.
    #[error("the body is larger than {limit} bytes: send less, or raise limits.body")]
    TooLarge {
        /// Maximum number of bytes.
        limit: usize,
    },
    /// The memory budget for bodies, or the caller's share of it, is used up. 503, retryable.
    #[error("too many large bodies at this moment: send it again soon")]
    MemoryLimit,
    /// The body did not arrive in time, or too slowly.
    #[error("the body did not arrive within {} s: send it faster", after.as_secs_f32())]
    TooSlow {
        /// Time waited.
        after: Duration,
    },
    /// The connection failed, or the body is invalid HTTP.
    #[error("the body ended before it was complete: send it again")]
    Incomplete(#[source] axum::Error),
}

/// Reads the complete `body`, at most `limits.body_bytes` in at most `limits.body_timeout`, for a caller identified by
/// `key` that need not be authenticated first.
///
/// A `Content-Length` over the limit is rejected before a byte is read. A body of more than 64 KiB holds its part of
/// `limits.body_memory` until the last clone is dropped; smaller ones are bounded by the number of requests.
///
/// The remainder of a body that is too large is drained in the background; needs a runtime.
pub async fn read_body<B>(
    body: B,
    headers: &HeaderMap,
    limits: &HttpLimits,
    key: ShareKey,
) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let mut reader = BodyReader::new(body, headers, limits, key, None);
    let read = async {
        reader.check_size()?;
        reader.read_remaining().await
    };
    if let Err(error) = read.await {
        if matches!(error, BodyError::TooLarge { .. }) {
            reader.drain();
        }
        return Err(error);
    }
    let (bytes, reservation) = reader.finish();
    Ok(match reservation {
        None => bytes,
        reservation => Bytes::from_owner(ReservedBytes {
            bytes,
            _reservation: reservation,
        }),
    })
}

/// Reads a small body, such as a form, of at most `limit` bytes within `timeout`. It takes no memory budget: small
/// bodies are bounded by the number of requests.
pub async fn read_form(
    body: axum::body::Body,
    limit: usize,
    timeout: Duration,
) -> Result<Bytes, BodyError> {
    let read = tokio::time::timeout(timeout, axum::body::to_bytes(body, limit));
    match read.await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_length_limit(&error) => Err(BodyError::TooLarge { limit }),
        Ok(Err(error)) => Err(BodyError::Incomplete(error)),
        Err(_) => Err(BodyError::TooSlow { after: timeout }),
    }
}

fn is_length_limit(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<LengthLimitError>())
}

/// Reads a body in steps, so that the caller can be authenticated in between.
pub struct BodyReader<'r, B> {
    body: B,
    limits: &'r HttpLimits,
    /// Caller whose share the memory counts against.
    key: ShareKey,
    upload: Option<PendingUpload>,
    /// Value of `Content-Length`, which may be wrong.
    content_length: Option<u64>,
    /// The request has an `Expect` header, so the client sends nothing once it is rejected.
    expects_continue: bool,
    first_chunk: Bytes,
    /// All received bytes, once there is more than one chunk.
    buffer: BytesMut,
    reservation: Option<Reservation>,
    complete: bool,
    pace: BodyDeadline,
}

impl<'r, B> BodyReader<'r, B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    /// Creates a reader that has read nothing. `upload` is the request's handle in the listener, if it has one.
    pub fn new(
        body: B,
        headers: &HeaderMap,
        limits: &'r HttpLimits,
        key: ShareKey,
        upload: Option<PendingUpload>,
    ) -> Self {
        let announced = headers.get(CONTENT_LENGTH);
        Self {
            body,
            limits,
            key,
            upload,
            content_length: announced.and_then(|length| length.to_str().ok()?.parse().ok()),
            expects_continue: headers.contains_key(EXPECT),
            first_chunk: Bytes::new(),
            buffer: BytesMut::new(),
            reservation: None,
            complete: false,
            pace: BodyDeadline::new(limits),
        }
    }

    /// Rejects a `Content-Length` over the limit.
    pub fn check_size(&self) -> Result<(), BodyError> {
        let length = self.content_length.unwrap_or(0);
        let length = length.max(self.body.size_hint().lower());
        match usize::try_from(length) {
            Ok(length) if length <= self.limits.body_bytes => Ok(()),
            _ => Err(self.too_large()),
        }
    }

    /// Reads the first bytes of the body. Returns true if that is all of it; otherwise the caller must be authenticated
    /// before the remainder is read. Nothing is read of a body with a large `Content-Length`.
    pub async fn read_start(&mut self) -> Result<bool, BodyError> {
        if self
            .content_length
            .is_some_and(|length| length > UNAUTHENTICATED_BYTES as u64)
        {
            return Ok(false);
        }
        self.read_until(UNAUTHENTICATED_BYTES).await?;
        Ok(self.complete)
    }

    /// Returns true if callers of the same address send so much that this one should be authenticated at once, so that
    /// it no longer counts against the address.
    pub fn is_address_crowded(&self) -> bool {
        self.upload.as_ref().is_some_and(PendingUpload::is_crowded)
    }

    /// Records that the caller is authenticated: the body now counts against the principal's share.
    pub fn set_authenticated(&mut self, principal: &Arc<str>) -> Result<(), BodyError> {
        let key = ShareKey::Principal(Arc::clone(principal));
        if let Some(reservation) = &mut self.reservation
            && !reservation.transfer(&key)
        {
            return Err(BodyError::MemoryLimit);
        }
        self.key = key;
        if let Some(upload) = &self.upload {
            upload.set_authenticated(principal);
        }
        Ok(())
    }

    /// Reads the remainder of the body.
    pub async fn read_remaining(&mut self) -> Result<(), BodyError> {
        self.read_until(usize::MAX).await
    }

    /// Returns the body and its memory reservation separately, for callers that drop the bytes first.
    pub fn finish(self) -> (Bytes, Option<Reservation>) {
        let bytes = match self.buffer.is_empty() {
            true => self.first_chunk,
            false => self.buffer.freeze(),
        };
        (bytes, self.reservation)
    }

    /// Discards the remainder of a rejected body in the background. Closing a connection or stream while the client
    /// still sends would abort the response too. Takes no memory, a limited time and at most as many bytes as a body
    /// may have; all rejected bodies together are rate limited. Then the connection is closed anyway.
    pub fn drain(self) {
        if self.complete || self.expects_continue {
            return;
        }
        let Ok(permit) = drain::SLOTS.try_acquire() else {
            return;
        };
        let (mut body, mut remaining) = (self.body, self.limits.body_bytes);
        let time = self.limits.body_timeout.min(DRAIN_TIMEOUT);
        tokio::spawn(async move {
            let _permit = permit;
            let discard = async {
                while let Ok(Some(chunk)) = next_chunk(&mut body).await {
                    match remaining.checked_sub(chunk.len()) {
                        Some(remainder) => remaining = remainder,
                        None => break,
                    }
                    drain::throttle(chunk.len()).await;
                }
            };
            // Finished or timed out.
            let _ = tokio::time::timeout(time, discard).await;
        });
    }

    fn too_large(&self) -> BodyError {
        BodyError::TooLarge {
            limit: self.limits.body_bytes,
        }
    }

    fn received_bytes(&self) -> usize {
        self.buffer.len().max(self.first_chunk.len())
    }

    /// Reads until the body is complete, or until more than `max_bytes` bytes have arrived.
    async fn read_until(&mut self, max_bytes: usize) -> Result<(), BodyError> {
        while !self.complete && self.received_bytes() <= max_bytes {
            let received = self.received_bytes();
            let Some(chunk) = self
                .pace
                .next_within_deadline(&mut self.body, received)
                .await?
            else {
                self.complete = true;
                break;
            };
            self.append(chunk)?;
            self.complete = self.body.is_end_stream();
        }
        Ok(())
    }

    fn append(&mut self, chunk: Bytes) -> Result<(), BodyError> {
        let length = self.received_bytes().saturating_add(chunk.len());
        if length > self.limits.body_bytes {
            return Err(self.too_large());
        }
        // Nearly every request arrives in one chunk, which needs no copy.
        if self.first_chunk.is_empty() && self.buffer.is_empty() {
            self.first_chunk = chunk;
            return Ok(());
        }
        if length > UNAUTHENTICATED_BYTES {
            self.reserve(length)?;
        }
        if self.buffer.is_empty() {
            // Reserve the announced length: growing leaves the old buffers behind. Memory that is not written to is
            // not taken.
            let announced = self
                .content_length
                .and_then(|length| length.try_into().ok());
            let announced = announced.unwrap_or(0_usize).min(self.limits.body_bytes);
            self.buffer.reserve(announced.max(length));
            self.buffer.extend_from_slice(&self.first_chunk);
            // It keeps the read buffer of its connection.
            self.first_chunk = Bytes::new();
        }
        self.buffer.extend_from_slice(&chunk);
        Ok(())
    }

    fn reserve(&mut self, length: usize) -> Result<(), BodyError> {
        let is_reserved = match &mut self.reservation {
            Some(reservation) => reservation.grow_to(length),
            None => {
                self.reservation = self.limits.body_memory.reserve(&self.key, length);
                self.reservation.is_some()
            }
        };
        if is_reserved {
            Ok(())
        } else {
            Err(BodyError::MemoryLimit)
        }
    }
}

/// Attaches a response to its part of `limits.response_memory`, held until the last clone is dropped: a few clients
/// that do not read their responses cannot take all memory. Small responses, and those that are no longer than the
/// request (`request_bytes`), always pass. Takes the memory from `reserved`, a reservation made before the response was
/// built, as far as possible.
pub fn reserve_response(
    response: Vec<u8>,
    request_bytes: usize,
    limits: &HttpLimits,
    key: &ShareKey,
    reserved: &mut Option<Reservation>,
) -> Result<Bytes, BodyError> {
    if response.len() <= MemoryBudget::PAGE {
        return Ok(response.into());
    }
    match reserve_within(response.len(), limits, key, reserved) {
        Some(reservation) => Ok(Bytes::from_owner(ReservedBytes {
            bytes: response,
            _reservation: Some(reservation),
        })),
        None if response.len() <= request_bytes.saturating_add(MemoryBudget::PAGE) => {
            Ok(response.into())
        }
        None => Err(BodyError::MemoryLimit),
    }
}

/// Reserves memory for a response of `bytes` bytes that is sent in chunks. Small ones need none. Takes it from
/// `reserved` as far as possible.
pub fn reserve_streamed_response(
    bytes: usize,
    limits: &HttpLimits,
    key: &ShareKey,
    reserved: &mut Option<Reservation>,
) -> Result<Option<Reservation>, BodyError> {
    if bytes <= MemoryBudget::PAGE {
        return Ok(None);
    }
    let reserved = reserve_within(bytes, limits, key, reserved);
    reserved.map(Some).ok_or(BodyError::MemoryLimit)
}

/// Reserves `bytes` bytes, from `reserved` as far as possible.
fn reserve_within(
    bytes: usize,
    limits: &HttpLimits,
    key: &ShareKey,
    reserved: &mut Option<Reservation>,
) -> Option<Reservation> {
    match reserved {
        None => limits.response_memory.reserve(key, bytes),
        Some(existing) => {
            let mut part = existing.split(bytes);
            match part.grow_to(bytes) {
                true => Some(part),
                false => {
                    existing.merge(part);
                    None
                }
            }
        }
    }
}

/// Bytes with their memory reservation.
struct ReservedBytes<B> {
    bytes: B,
    _reservation: Option<Reservation>,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for ReservedBytes<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// Returns the next non-empty chunk. Skips trailers.
async fn next_chunk<B>(body: &mut B) -> Result<Option<Bytes>, BodyError>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    let incomplete = |error: B::Error| BodyError::Incomplete(axum::Error::new(error));
    while let Some(frame) = body.frame().await {
        match frame.map_err(incomplete)?.into_data() {
            Ok(data) if !data.is_empty() => return Ok(Some(data)),
            _ => {}
        }
    }
    Ok(None)
}
