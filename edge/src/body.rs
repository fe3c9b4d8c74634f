//! Reading a request's body within limits. What is in the body is not looked at here.

use crate::limits::{BodyRoom, HttpLimits};
use crate::patience::within;
use axum::BoxError;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, EXPECT};
use http_body::Body;
use http_body_util::BodyExt;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// How long the rest of a body that is too large may take to run out.
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
    /// The bodies of all callers together take as much memory as they may. 503, to be tried again.
    #[error("too many large bodies at this moment: send it again soon")]
    NoRoom,
    /// It did not come in time.
    #[error("the body did not arrive within {} s: send it faster", limit.as_secs_f32())]
    TooSlow {
        /// How long it may take.
        limit: Duration,
    },
    /// The connection broke, or what came is not HTTP.
    #[error("the body ended before it was complete: send it again")]
    Broken(#[source] axum::Error),
}

/// Reads the whole of `body`, at most `limits.body` bytes in at most `limits.body_time`.
///
/// A length that is announced in `headers` and too large is refused before a byte is read. What comes in
/// more than one piece takes its part of `limits.bodies` until the last clone of it is dropped.
///
/// The rest of one that is too large is let run out beside its answer; it needs a runtime.
pub async fn read<B>(body: B, headers: &HeaderMap, limits: &HttpLimits) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let (bytes, room) = read_apart(body, headers, limits).await?;
    Ok(match room {
        Room(None) => bytes,
        room => Bytes::from_owner(Held { bytes, _room: room }),
    })
}

/// The same, and its room apart from it: for those who are done with the bytes before they are done.
///
/// # Errors
///
/// As [`read`].
pub async fn read_apart<B>(
    mut body: B,
    headers: &HeaderMap,
    limits: &HttpLimits,
) -> Result<(Bytes, Room), BodyError>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
{
    let read = try_to_read(&mut body, headers, limits).await;
    // Whoever asks first sends nothing more once it is refused.
    if matches!(read, Err(BodyError::TooLarge { .. })) && !headers.contains_key(EXPECT) {
        tokio::spawn(run_out(body, limits.body, limits.body_time.min(RUN_OUT)));
    }
    read
}

/// Takes the rest of a body from whoever still sends it, and drops it. A stream or connection that is
/// closed under its sender breaks off the answer too, which then nobody reads. It takes no memory, some
/// time, and no more bytes than a body may have; then it is closed all the same.
async fn run_out<B>(mut body: B, most: usize, time: Duration)
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    let running = async {
        let mut left = most;
        while let Ok(Some(piece)) = next(&mut body).await {
            match left.checked_sub(piece.len()) {
                Some(less) => left = less,
                None => break,
            }
        }
    };
    // Either way it is over.
    let _ = tokio::time::timeout(time, running).await;
}

async fn try_to_read<B>(
    body: &mut B,
    headers: &HeaderMap,
    limits: &HttpLimits,
) -> Result<(Bytes, Room), BodyError>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let fits = |length: u64| usize::try_from(length).is_ok_and(|length| length <= limits.body);
    if announced.is_some_and(|length| !fits(length)) || !fits(body.size_hint().lower()) {
        return Err(BodyError::TooLarge { limit: limits.body });
    }
    let announced = announced.and_then(|length| usize::try_from(length).ok());
    within(
        collect(body, announced.unwrap_or(0), limits),
        limits.body_time,
    )
    .await
    .unwrap_or(Err(BodyError::TooSlow {
        limit: limits.body_time,
    }))
}

async fn collect<B>(
    body: &mut B,
    announced: usize,
    limits: &HttpLimits,
) -> Result<(Bytes, Room), BodyError>
where
    B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    let limit = limits.body;
    let Some(first) = next(body).await? else {
        return Ok((Bytes::new(), Room(None)));
    };
    if first.len() > limit {
        return Err(BodyError::TooLarge { limit });
    }
    // Nearly every request comes in one piece, which then needs no copy.
    if body.is_end_stream() {
        return Ok((first, Room(None)));
    }
    let Some(second) = next(body).await? else {
        return Ok((first, Room(None)));
    };
    let mut room = limits.bodies.take(1).ok_or(BodyError::NoRoom)?;
    // As much as was announced: what grows leaves behind what it has outgrown. Memory that nothing is
    // written into is not taken.
    let length = announced.max(first.len() + second.len());
    let mut bytes = BytesMut::with_capacity(length);
    bytes.extend_from_slice(&first);
    let mut piece = Some(second);
    while let Some(more) = piece {
        let length = bytes.len() + more.len();
        if length > limit {
            return Err(BodyError::TooLarge { limit });
        }
        let held = room.num_permits().saturating_mul(BodyRoom::PAGE);
        if length > held {
            let more = limits.bodies.take(length - held);
            room.merge(more.ok_or(BodyError::NoRoom)?);
        }
        bytes.extend_from_slice(&more);
        piece = next(body).await?;
    }
    Ok((bytes.freeze(), Room(Some(room))))
}

/// An answer to `asked` bytes, with its part of `limits.answers` until the last clone of it is dropped:
/// a few callers who do not read what they asked for cannot take all memory there is. Small ones, and
/// those that say no more than what was sent, always go through.
pub fn hold(answer: Vec<u8>, asked: usize, limits: &HttpLimits) -> Result<Bytes, BodyError> {
    if answer.len() <= BodyRoom::PAGE {
        return Ok(answer.into());
    }
    match limits.answers.take(answer.len()) {
        Some(room) => Ok(Bytes::from_owner(Held {
            bytes: answer,
            _room: Room(Some(room)),
        })),
        None if answer.len() <= asked.saturating_add(BodyRoom::PAGE) => Ok(answer.into()),
        None => Err(BodyError::NoRoom),
    }
}

/// Room for an answer of so many bytes that is sent in pieces, for as long as it lives.
pub fn room(bytes: usize, limits: &HttpLimits) -> Result<Room, BodyError> {
    let taken = if bytes <= BodyRoom::PAGE {
        None
    } else {
        Some(limits.answers.take(bytes).ok_or(BodyError::NoRoom)?)
    };
    Ok(Room(taken))
}

/// Memory that a body takes.
#[derive(Debug)]
pub struct Room(Option<OwnedSemaphorePermit>);

/// A body with the room that it takes.
struct Held<B> {
    bytes: B,
    _room: Room,
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

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use futures_util::stream;
    use http::HeaderValue;
    use std::io;

    fn limits(body: usize) -> HttpLimits {
        HttpLimits {
            body,
            body_time: Duration::from_secs(5),
            ..HttpLimits::default()
        }
    }

    fn pieces(pieces: &[&'static str]) -> Body {
        let pieces: Vec<io::Result<Bytes>> = pieces
            .iter()
            .map(|piece| Ok(Bytes::from_static(piece.as_bytes())))
            .collect();
        Body::from_stream(stream::iter(pieces))
    }

    async fn length(body: Body, limit: usize) -> Result<usize, BodyError> {
        Ok(read(body, &HeaderMap::new(), &limits(limit)).await?.len())
    }

    #[tokio::test]
    async fn takes_what_fits_in_any_number_of_pieces() {
        assert_eq!(length(Body::empty(), 0).await.unwrap(), 0);
        assert_eq!(length(Body::from("12345"), 5).await.unwrap(), 5);
        assert_eq!(length(pieces(&["12", "", "345"]), 5).await.unwrap(), 5);
        assert_eq!(length(pieces(&["", ""]), 5).await.unwrap(), 0);
        let (headers, limits) = (HeaderMap::new(), limits(usize::MAX));
        let whole = read(pieces(&["a", "b", "c"]), &headers, &limits).await;
        assert_eq!(whole.unwrap(), "abc");
    }

    #[tokio::test]
    async fn refuses_what_is_too_large() {
        for body in [
            Body::from("123456"),
            pieces(&["123456"]),
            pieces(&["123", "456"]),
            pieces(&["1", "2", "3", "4", "5", "6"]),
        ] {
            let error = length(body, 5).await.unwrap_err();
            assert!(matches!(error, BodyError::TooLarge { limit: 5 }), "{error}");
        }
    }

    #[tokio::test]
    async fn believes_an_announcement_that_is_too_large() {
        for announced in ["6", "18446744073709551615"] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static(announced));
            // A body that would never come: the refusal must not wait for it.
            let body = Body::from_stream(stream::pending::<io::Result<Bytes>>());
            let error = read(body, &headers, &limits(5)).await.unwrap_err();
            assert!(matches!(error, BodyError::TooLarge { .. }), "{error}");
        }
    }

    #[tokio::test]
    async fn large_bodies_share_their_room() {
        let limits = HttpLimits {
            bodies: BodyRoom::new(2 * BodyRoom::PAGE),
            ..limits(usize::MAX)
        };
        let headers = HeaderMap::new();
        let page = || Bytes::from(vec![b'x'; BodyRoom::PAGE]);
        let large = || Body::from_stream(stream::iter([io::Result::Ok(page()), Ok(page())]));
        let first = read(large(), &headers, &limits).await.unwrap();
        assert_eq!(first.len(), 2 * BodyRoom::PAGE);
        let part = first.slice(..1);
        drop(first);
        let second = read(large(), &headers, &limits).await.unwrap_err();
        assert!(matches!(second, BodyError::NoRoom), "{second}");
        // A small one always goes through.
        read(Body::from("small"), &headers, &limits).await.unwrap();
        drop(part);
        read(large(), &headers, &limits).await.unwrap();
        let third = stream::iter([io::Result::Ok(page()), Ok(page()), Ok(page())]);
        let third = read(Body::from_stream(third), &headers, &limits).await;
        assert!(matches!(third, Err(BodyError::NoRoom)));
        read(large(), &headers, &limits).await.unwrap();
    }

    #[tokio::test]
    async fn room_stays_taken_without_the_bytes() {
        let limits = HttpLimits {
            bodies: BodyRoom::new(2 * BodyRoom::PAGE),
            ..limits(usize::MAX)
        };
        let headers = HeaderMap::new();
        let page = || io::Result::Ok(Bytes::from(vec![b'x'; BodyRoom::PAGE]));
        let large = || Body::from_stream(stream::iter([page(), page()]));
        let (bytes, room) = read_apart(large(), &headers, &limits).await.unwrap();
        assert_eq!(bytes.len(), 2 * BodyRoom::PAGE);
        drop(bytes);
        let second = read(large(), &headers, &limits).await;
        assert!(matches!(second, Err(BodyError::NoRoom)));
        drop(room);
        read(large(), &headers, &limits).await.unwrap();
    }

    #[test]
    fn large_answers_share_their_room() {
        let limits = HttpLimits {
            answers: BodyRoom::new(2 * BodyRoom::PAGE),
            ..HttpLimits::default()
        };
        let large = || vec![b'x'; 2 * BodyRoom::PAGE];
        let first = hold(large(), 0, &limits).unwrap();
        assert_eq!(first.len(), 2 * BodyRoom::PAGE);
        let second = hold(large(), 0, &limits).unwrap_err();
        assert!(matches!(second, BodyError::NoRoom), "{second}");
        // Small ones go through, and so does what was sent.
        hold(vec![b'x'; BodyRoom::PAGE], 0, &limits).unwrap();
        hold(large(), BodyRoom::PAGE, &limits).unwrap();
        drop(first);
        hold(large(), 0, &limits).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn does_not_wait_for_ever() {
        let body = Body::from_stream(stream::pending::<io::Result<Bytes>>());
        let error = length(body, 5).await.unwrap_err();
        assert!(matches!(error, BodyError::TooSlow { .. }), "{error}");
    }

    #[tokio::test]
    async fn tells_of_a_broken_body() {
        let broken = stream::iter([Ok(Bytes::from_static(b"1")), Err(io::Error::other("cut"))]);
        let error = length(Body::from_stream(broken), 5).await.unwrap_err();
        assert!(matches!(error, BodyError::Broken(_)), "{error}");
    }
}
