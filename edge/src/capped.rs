//! Reads an answer from elsewhere, but never more of it than was asked for.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

/// Why the whole answer is not there.
#[derive(Debug)]
pub(crate) enum Cut {
    /// It is longer than the limit.
    TooLong,
    /// The connection broke or was too slow.
    Broken(reqwest::Error),
}

/// The whole body, if it has at most `limit` bytes.
pub(crate) async fn whole(answer: reqwest::Response, limit: usize) -> Result<Bytes, Cut> {
    let told = answer.content_length();
    if told.is_some_and(|length| usize::try_from(length).is_ok_and(|length| length > limit)) {
        return Err(Cut::TooLong);
    }
    match read(answer, limit).await {
        (_, Some(cut)) => Err(cut),
        (body, None) => Ok(body),
    }
}

/// The first `limit` bytes of the body, whatever comes after them or goes wrong on the way.
pub(crate) async fn beginning(answer: reqwest::Response, limit: usize) -> Bytes {
    read(answer, limit).await.0
}

async fn read(answer: reqwest::Response, limit: usize) -> (Bytes, Option<Cut>) {
    let mut pieces = answer.bytes_stream();
    let mut body = BytesMut::new();
    while let Some(piece) = pieces.next().await {
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) => return (body.freeze(), Some(Cut::Broken(error))),
        };
        let room = limit.saturating_sub(body.len());
        body.extend_from_slice(piece.get(..room).unwrap_or(&piece));
        if piece.len() > room {
            return (body.freeze(), Some(Cut::TooLong));
        }
    }
    (body.freeze(), None)
}
