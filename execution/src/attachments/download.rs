//! Attachment download with retries.

use super::AttachmentLoader;
use crate::files::FileError;
use axum::http::HeaderMap;
use bytes::Bytes;
use interzone_backoff::{Backoff, random_up_to};
use interzone_edge::egress::{EgressError, EgressLimits};
use interzone_protocol::zone::ErrorReason;
use std::time::Duration;

/// Retry delays. Up to half of the delay is added as jitter.
pub(super) const RETRY_BACKOFF: Backoff =
    Backoff::new(Duration::from_secs(1), Duration::from_secs(30));

/// Total time for all files of a message. Meanwhile the task occupies one of the agent's run slots.
pub(super) const TOTAL_DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// Downloads a file of at most this many bytes. Transient errors are retried, permanent ones are not.
pub(super) async fn download(
    loader: &AttachmentLoader,
    url: &str,
    limit: u64,
) -> Result<Bytes, FileError> {
    let limits = EgressLimits {
        timeout: loader.input.fetch_timeout,
    };
    let max_bytes = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut retry = 0;
    loop {
        let fetched = loader
            .egress
            .fetch(url, HeaderMap::new(), max_bytes, limits);
        let (reason, retry_after) = match fetched.await {
            Ok(reply) if reply.status.is_success() => return Ok(reply.body),
            Ok(reply) if reply.status.is_server_error() => ("status", reply.retry_after),
            // Redirects are not followed: their target is not checked. All other statuses are final.
            Ok(_) => return Err(download_failed()),
            Err(EgressError::ResponseTooLarge { .. }) => {
                return Err(loader.input.too_large_error());
            }
            Err(error) if error.is_retryable() => (error.code(), None),
            Err(_) => return Err(url_not_available()),
        };
        tracing::debug!(
            attempt = retry + 1,
            reason,
            "attachment download failed, retrying if allowed"
        );
        if retry + 1 >= loader.input.fetch_attempts {
            return Err(download_failed());
        }
        let requested = retry_after.unwrap_or_default();
        let delay = loader
            .backoff
            .delay(retry)
            .max(requested.min(loader.backoff.cap));
        tokio::time::sleep(delay + random_up_to(delay / 2)).await;
        retry += 1;
    }
}

pub(super) fn download_failed() -> FileError {
    FileError::new(
        ErrorReason::AttachmentDownloadFailed,
        "the file could not be downloaded: send it again",
    )
}

/// Error for a blocked URL. It does not name the rule, which would disclose the internal network.
pub(super) fn url_not_available() -> FileError {
    FileError::new(
        ErrorReason::UrlNotAvailable,
        "the file is not available at the given URL",
    )
}
