//! Reading a request's body within limits. What is in the body is not looked at here.
//!
//! A body is read in two steps: its start, at most 64 KiB, is read from any caller; the rest only once the
//! caller has been authenticated, and then counts against that caller's share of the memory for bodies.

mod drain;
mod pace;
#[cfg(test)]
mod tests;

use crate::budget::{MemoryBudget, Reservation, ShareKey};
use crate::limits::HttpLimits;
use crate::listener::Sender;
use axum::BoxError;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, EXPECT};
use http_body::Body;
use http_body_util::BodyExt;
use pace::Pace;
use std::sync::Arc;
use std::time::Duration;

/// How much of a body is read before its caller is authenticated.
const START: usize = MemoryBudget::PAGE;
/// How long the rest of a body that is refused may take to run out.
const RUN_OUT: Duration = Duration::from_secs(10);

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// There is more of it than is allowed.
    #[error("the body is larger than {limit} bytes: send less, or raise limits.body")]
    TooLarge {
        /// How many bytes are allowed.
        limit: usize,
    },
    /// The bodies of all callers together, or of this one, take as much memory as they may. 503, to be tried
    /// again.
    #[error("too many large bodies at this moment: send it again soon")]
    NoRoom,
    /// It did not come in time, or too little of it.
    #[error("the body did not arrive within {} s: send it faster", after.as_secs_f32())]
    TooSlow {
        /// How long it was waited for.
        after: Duration,
    },
    /// The connection broke, or what came is not HTTP.
    #[error("the body ended before it was complete: send it again")]
    Broken(#[source] axum::Error),
}

/// Reads the whole of `body`, at most `limits.body` bytes in at most `limits.body_time`, for a caller who is
/// known by `key` and need not be authenticated first.
///
/// A length that is announced in `headers` and too large is refused before a byte is read. One of more than
/// 64 KiB takes its part of `limits.bodies` until the last clone of it is dropped; smaller ones are bounded
/// by the number of requests.
///
/// The rest of one that is too large is let run out beside its answer; it needs a runtime.
pub async fn read<B>(
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
        reader.read_rest().await
    };
    if let Err(error) = read.await {
        if matches!(error, BodyError::TooLarge { .. }) {
            reader.run_out();
        }
        return Err(error);
    }
    let (bytes, reservation) = reader.finish();
    Ok(match reservation {
        None => bytes,
        held => Bytes::from_owner(Held {
            bytes,
            _reservation: held,
        }),
    })
}

/// Reads a body step by step, so that its caller can be authenticated in between.
pub struct BodyReader<'r, B> {
    body: B,
    limits: &'r HttpLimits,
    /// To whose share it counts.
    key: ShareKey,
    sender: Option<Sender>,
    /// The length that is announced, whether or not it is true.
    announced: Option<u64>,
    /// Whether the caller asks before it sends, and so sends nothing once it is refused.
    asks_first: bool,
    first: Bytes,
    /// All of it, once there is more than one piece.
    whole: BytesMut,
    reservation: Option<Reservation>,
    complete: bool,
    pace: Pace,
}

impl<'r, B> BodyReader<'r, B>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    /// A reader that has read nothing yet. `sender` is how the listener knows the request, if it came by one.
    pub fn new(
        body: B,
        headers: &HeaderMap,
        limits: &'r HttpLimits,
        key: ShareKey,
        sender: Option<Sender>,
    ) -> Self {
        let announced = headers.get(CONTENT_LENGTH);
        Self {
            body,
            limits,
            key,
            sender,
            announced: announced.and_then(|length| length.to_str().ok()?.parse().ok()),
            asks_first: headers.contains_key(EXPECT),
            first: Bytes::new(),
            whole: BytesMut::new(),
            reservation: None,
            complete: false,
            pace: Pace::new(limits),
        }
    }

    /// Refuses a length that is announced and too large.
    pub fn check_size(&self) -> Result<(), BodyError> {
        let length = self.announced.unwrap_or(0);
        let length = length.max(self.body.size_hint().lower());
        match usize::try_from(length) {
            Ok(length) if length <= self.limits.body => Ok(()),
            _ => Err(self.too_large()),
        }
    }

    /// Reads the start of the body. Says whether that was all of it: if not, the caller is to be authenticated
    /// before the rest is read. Of a body that is announced to be large nothing is read yet.
    pub async fn read_start(&mut self) -> Result<bool, BodyError> {
        if self.announced.is_some_and(|length| length > START as u64) {
            return Ok(false);
        }
        self.read_until(START).await?;
        Ok(self.complete)
    }

    /// Whether the callers of the same address send so much at this moment that this one should be
    /// authenticated at once, so that it no longer counts as one of them.
    pub fn is_crowded(&self) -> bool {
        self.sender.as_ref().is_some_and(Sender::is_crowded)
    }

    /// The caller has been authenticated: what is read counts against the principal's share from now on.
    pub fn authenticated(&mut self, principal: &Arc<str>) -> Result<(), BodyError> {
        let key = ShareKey::Principal(Arc::clone(principal));
        if let Some(reservation) = &mut self.reservation
            && !reservation.transfer(&key)
        {
            return Err(BodyError::NoRoom);
        }
        self.key = key;
        if let Some(sender) = &self.sender {
            sender.authenticated(principal);
        }
        Ok(())
    }

    /// Reads what is left of the body.
    pub async fn read_rest(&mut self) -> Result<(), BodyError> {
        self.read_until(usize::MAX).await
    }

    /// The body, and the memory that it takes apart from it: for those who are done with the bytes first.
    pub fn finish(self) -> (Bytes, Option<Reservation>) {
        let bytes = match self.whole.is_empty() {
            true => self.first,
            false => self.whole.freeze(),
        };
        (bytes, self.reservation)
    }

    /// Discards the rest of a refused body beside its answer. A connection or stream that is closed while its caller
    /// still sends breaks off the answer too. It takes no memory, at most some time and as many bytes as a body may
    /// have, and all refused bodies together only so much a second; then it is closed all the same.
    pub fn run_out(self) {
        if self.complete || self.asks_first {
            return;
        }
        let Ok(permit) = drain::SLOTS.try_acquire() else {
            return;
        };
        let (mut body, mut left) = (self.body, self.limits.body);
        let time = self.limits.body_time.min(RUN_OUT);
        tokio::spawn(async move {
            let _permit = permit;
            let discard = async {
                while let Ok(Some(piece)) = next(&mut body).await {
                    match left.checked_sub(piece.len()) {
                        Some(less) => left = less,
                        None => break,
                    }
                    drain::pace(piece.len()).await;
                }
            };
            // Either way it is over.
            let _ = tokio::time::timeout(time, discard).await;
        });
    }

    fn too_large(&self) -> BodyError {
        BodyError::TooLarge {
            limit: self.limits.body,
        }
    }

    fn received(&self) -> usize {
        self.whole.len().max(self.first.len())
    }

    /// Reads until it is complete, or until more than `most` bytes are there.
    async fn read_until(&mut self, most: usize) -> Result<(), BodyError> {
        while !self.complete && self.received() <= most {
            let received = self.received();
            let Some(piece) = self.pace.next(&mut self.body, received).await? else {
                self.complete = true;
                break;
            };
            self.keep(piece)?;
            self.complete = self.body.is_end_stream();
        }
        Ok(())
    }

    fn keep(&mut self, piece: Bytes) -> Result<(), BodyError> {
        let length = self.received().saturating_add(piece.len());
        if length > self.limits.body {
            return Err(self.too_large());
        }
        // Nearly every request comes in one piece, which then needs no copy.
        if self.first.is_empty() {
            self.first = piece;
            return Ok(());
        }
        if length > START {
            self.reserve(length)?;
        }
        if self.whole.is_empty() {
            // As much as was announced: what grows leaves behind what it has outgrown. Memory that nothing
            // is written into is not taken.
            let announced = self.announced.and_then(|length| length.try_into().ok());
            let announced = announced.unwrap_or(0_usize).min(self.limits.body);
            self.whole.reserve(announced.max(length));
            self.whole.extend_from_slice(&self.first);
        }
        self.whole.extend_from_slice(&piece);
        Ok(())
    }

    fn reserve(&mut self, length: usize) -> Result<(), BodyError> {
        let held = match &mut self.reservation {
            Some(reservation) => reservation.grow_to(length),
            None => {
                self.reservation = self.limits.bodies.reserve(&self.key, length);
                self.reservation.is_some()
            }
        };
        if held { Ok(()) } else { Err(BodyError::NoRoom) }
    }
}

/// An answer to `asked` bytes, with its part of `limits.answers` until the last clone of it is dropped:
/// a few callers who do not read what they asked for cannot take all memory there is. Small ones, and
/// those that say no more than what was sent, always go through.
pub fn hold(
    answer: Vec<u8>,
    asked: usize,
    limits: &HttpLimits,
    key: &ShareKey,
) -> Result<Bytes, BodyError> {
    hold_within(answer, asked, limits, key, &mut None)
}

/// As [`hold`], where memory was reserved before the answer was made: its part is taken out of that.
pub fn hold_within(
    answer: Vec<u8>,
    asked: usize,
    limits: &HttpLimits,
    key: &ShareKey,
    reserved: &mut Option<Reservation>,
) -> Result<Bytes, BodyError> {
    if answer.len() <= MemoryBudget::PAGE {
        return Ok(answer.into());
    }
    match reserve_within(answer.len(), limits, key, reserved) {
        Some(reservation) => Ok(Bytes::from_owner(Held {
            bytes: answer,
            _reservation: Some(reservation),
        })),
        None if answer.len() <= asked.saturating_add(MemoryBudget::PAGE) => Ok(answer.into()),
        None => Err(BodyError::NoRoom),
    }
}

/// Memory for an answer of so many bytes that is sent in pieces, for as long as the reservation lives. Small
/// ones need none. It is taken out of what was reserved before as far as that goes.
pub fn reserve_answer(
    bytes: usize,
    limits: &HttpLimits,
    key: &ShareKey,
    reserved: &mut Option<Reservation>,
) -> Result<Option<Reservation>, BodyError> {
    if bytes <= MemoryBudget::PAGE {
        return Ok(None);
    }
    let reserved = reserve_within(bytes, limits, key, reserved);
    reserved.map(Some).ok_or(BodyError::NoRoom)
}

/// Memory for so many bytes, out of what was reserved before as far as that goes.
fn reserve_within(
    bytes: usize,
    limits: &HttpLimits,
    key: &ShareKey,
    reserved: &mut Option<Reservation>,
) -> Option<Reservation> {
    match reserved {
        None => limits.answers.reserve(key, bytes),
        Some(before) => {
            let mut part = before.split(bytes);
            match part.grow_to(bytes) {
                true => Some(part),
                false => {
                    before.merge(part);
                    None
                }
            }
        }
    }
}

/// A body with the memory that it takes.
struct Held<B> {
    bytes: B,
    _reservation: Option<Reservation>,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Held<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// The next piece that is not empty. Trailers are not for us.
async fn next<B>(body: &mut B) -> Result<Option<Bytes>, BodyError>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    let broken = |error: B::Error| BodyError::Broken(axum::Error::new(error));
    while let Some(frame) = body.frame().await {
        match frame.map_err(broken)?.into_data() {
            Ok(data) if !data.is_empty() => return Ok(Some(data)),
            _ => {}
        }
    }
    Ok(None)
}
