//! Reads HTTP response bodies up to a size limit. The caller limits the time.

use bytes::{Bytes, BytesMut};
use reqwest::Response;

/// Reason why a body was not read completely.
#[derive(Debug, thiserror::Error)]
pub enum BodyReadError {
    /// The body is longer than the limit.
    #[error("the response is larger than {limit} bytes")]
    TooLong {
        /// Maximum number of bytes.
        limit: usize,
    },
    /// The connection failed or timed out.
    #[error("the response ended before it was complete")]
    Connection(#[from] reqwest::Error),
}

/// Returns the complete body.
///
/// # Errors
///
/// The body has more than `limit` bytes, or the connection failed.
pub async fn read_all(mut response: Response, limit: usize) -> Result<Bytes, BodyReadError> {
    let content_length = response.content_length();
    if content_length.is_some_and(|length| usize::try_from(length).map_or(true, |n| n > limit)) {
        return Err(BodyReadError::TooLong { limit });
    }
    let mut body = BytesMut::new();
    read_prefix(&mut response, limit, &mut body).await?;
    Ok(body.freeze())
}

/// Appends the body to `body` until that has `limit` bytes. It keeps what was read if the connection fails, or if the
/// future is dropped at a timeout.
///
/// # Errors
///
/// The body has more than `limit` bytes, or the connection failed.
pub async fn read_prefix(
    response: &mut Response,
    limit: usize,
    body: &mut BytesMut,
) -> Result<(), BodyReadError> {
    while let Some(chunk) = response.chunk().await? {
        let remaining = limit.saturating_sub(body.len());
        body.extend_from_slice(chunk.get(..remaining).unwrap_or(&chunk));
        if chunk.len() > remaining {
            return Err(BodyReadError::TooLong { limit });
        }
    }
    Ok(())
}
