//! Attachment download with retries.

use super::AttachmentLoader;
use crate::files::FileError;
use axum::http::HeaderMap;
use bytes::Bytes;
use interzone_edge::egress::{EgressError, EgressLimits};
use interzone_protocol::zone::ErrorReason;
use std::time::Duration;

/// Initial and maximum retry delay. Up to half of the delay is added as jitter.
pub(super) const INITIAL_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);

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
    let mut retry_delay = loader.retry_delay;
    let mut attempt = 1;
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
            attempt,
            reason,
            "attachment download failed, retrying if allowed"
        );
        if attempt >= loader.input.fetch_attempts {
            return Err(download_failed());
        }
        attempt += 1;
        let delay = retry_after
            .unwrap_or_default()
            .max(retry_delay)
            .min(MAX_RETRY_DELAY);
        tokio::time::sleep(delay + jitter(delay)).await;
        retry_delay = retry_delay.saturating_mul(2);
    }
}

/// Returns a random duration of up to half the delay.
fn jitter(delay: Duration) -> Duration {
    let id = uuid::Uuid::new_v4();
    let random = id.as_bytes().first().copied().unwrap_or_default();
    delay / 2 * u32::from(random) / 256
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
