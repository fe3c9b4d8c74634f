//! Fetching a file from where its sender put it.

use super::Intake;
use crate::files::Fault;
use axum::http::HeaderMap;
use bytes::Bytes;
use interzone_edge::egress::{EgressError, EgressLimits};
use interzone_protocol::zone::ErrorWord;
use std::time::Duration;

/// The waits between attempts: the first, and the longest. Up to half as much again is added, so that
/// not all come back at once.
pub(super) const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How long all files of a message may take together. The task holds one of the agent's runs meanwhile, which other
/// callers wait for.
pub(super) const ALL_FILES: Duration = Duration::from_secs(60);

/// Gets a file of at most so many bytes. What may pass is tried again; what is refused is not.
pub(super) async fn fetch(intake: &Intake, url: &str, most: u64) -> Result<Bytes, Fault> {
    let limits = EgressLimits {
        time: intake.input.fetch_time,
    };
    let largest = usize::try_from(most).unwrap_or(usize::MAX);
    let mut pause = intake.pause;
    let mut attempt = 1;
    loop {
        let fetched = intake.egress.fetch(url, HeaderMap::new(), largest, limits);
        let (why, wait) = match fetched.await {
            Ok(reply) if reply.status.is_success() => return Ok(reply.body),
            Ok(reply) if reply.status.is_server_error() => ("status", reply.retry_after),
            // A redirect would lead to where nobody looked; all else is final.
            Ok(_) => return Err(failed()),
            Err(EgressError::TooMuch { .. }) => return Err(intake.input.too_large()),
            Err(error) if error.may_pass() => (error.word(), None),
            Err(_) => return Err(not_available()),
        };
        tracing::debug!(attempt, why, "an attachment did not come");
        if attempt >= intake.input.fetch_attempts {
            return Err(failed());
        }
        attempt += 1;
        let wait = wait.unwrap_or_default().max(pause).min(LONGEST_PAUSE);
        tokio::time::sleep(wait + jitter(wait)).await;
        pause = pause.saturating_mul(2);
    }
}

/// Up to half of a wait.
fn jitter(wait: Duration) -> Duration {
    let id = uuid::Uuid::new_v4();
    let random = id.as_bytes().first().copied().unwrap_or_default();
    wait / 2 * u32::from(random) / 256
}

pub(super) fn failed() -> Fault {
    Fault::new(
        ErrorWord::AttachmentDownloadFailed,
        "the file could not be fetched: send it again",
    )
}

/// Which rule an address breaks is not told: it would tell what there is inside.
pub(super) fn not_available() -> Fault {
    Fault::new(
        ErrorWord::UrlNotAvailable,
        "the file is not available at the address that was given",
    )
}
