//! Reads HTTP response bodies up to a size limit.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;

/// Reason why a body was not read completely.
#[derive(Debug)]
pub(crate) enum BodyReadError {
    /// The body is longer than the limit.
    TooLong,
    /// The connection failed or timed out.
    Connection(reqwest::Error),
}

/// Returns the complete body, or an error if it has more than `limit` bytes.
pub(crate) async fn read_all(
    response: reqwest::Response,
    limit: usize,
) -> Result<Bytes, BodyReadError> {
    let content_length = response.content_length();
    if content_length
        .is_some_and(|length| usize::try_from(length).is_ok_and(|length| length > limit))
    {
        return Err(BodyReadError::TooLong);
    }
    match read_up_to(response, limit).await {
        (_, Some(cut)) => Err(cut),
        (body, None) => Ok(body),
    }
}

/// Returns at most the first `limit` bytes of the body. Ignores read errors and the remainder.
pub(crate) async fn read_prefix(response: reqwest::Response, limit: usize) -> Bytes {
    read_up_to(response, limit).await.0
}

async fn read_up_to(response: reqwest::Response, limit: usize) -> (Bytes, Option<BodyReadError>) {
    let mut chunks = response.bytes_stream();
    let mut body = BytesMut::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(error) => return (body.freeze(), Some(BodyReadError::Connection(error))),
        };
        let remaining = limit.saturating_sub(body.len());
        body.extend_from_slice(chunk.get(..remaining).unwrap_or(&chunk));
        if chunk.len() > remaining {
            return (body.freeze(), Some(BodyReadError::TooLong));
        }
    }
    (body.freeze(), None)
}
