//! Retry policy and retry backoff of calls. A call is never retried where that could execute it twice.

use crate::error::{Error, is_transient};
use crate::transport::TransportError;
use http::StatusCode;
use interzone_backoff::Backoff;
use interzone_protocol::acp::codes;
use interzone_protocol::zone::codes::PLATFORM_THROTTLED;
use std::time::Duration;

/// Retry backoff: exponential, with full jitter and a maximum number of retries.
///
/// The wait before retry `n` is random between 0 and `base` × 2ⁿ, at most `cap`: the jitter keeps many clients
/// from retrying at the same time.
///
/// ```
/// use interzone_client::{Client, RetryPolicy};
///
/// let client = Client::builder("https://agent.example").retry(RetryPolicy::never()).build()?;
/// # Ok::<(), interzone_client::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Maximum number of retries.
    pub retries: u32,
    /// Maximum wait before the first retry.
    pub base: Duration,
    /// Maximum wait before any retry.
    pub cap: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            retries: 3,
            base: Duration::from_millis(200),
            cap: Duration::from_secs(5),
        }
    }
}

impl RetryPolicy {
    /// Disables retries.
    pub fn never() -> Self {
        Self {
            retries: 0,
            ..Self::default()
        }
    }

    /// Sets the maximum number of retries.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the maximum waits: before the first retry, and before any.
    #[must_use]
    pub fn backoff(mut self, base: Duration, cap: Duration) -> Self {
        self.base = base;
        self.cap = cap;
        self
    }

    /// Returns the wait before retry `attempt`, counted from 0.
    pub(crate) fn backoff_for(&self, attempt: u32) -> Duration {
        Backoff::new(self.base, self.cap.min(MAX_WAIT)).full_jitter(attempt)
    }
}

/// Upper limit of every wait.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Tells if a request can be sent twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idempotency {
    /// Sending it twice has the same effect as once.
    Idempotent,
    /// Sending it twice may execute it twice.
    NotIdempotent,
}

/// Returns true if the request should be retried after this error.
pub(crate) fn should_retry(error: &Error, idempotency: Idempotency) -> bool {
    let is_idempotent = idempotency == Idempotency::Idempotent;
    match error {
        // The peer did not receive the request.
        Error::Transport(TransportError::NotConnected(_)) => true,
        Error::Transport(TransportError::Broken(_)) => is_idempotent,
        // Rate limits are checked before a call is executed.
        Error::Http { status, .. } if *status == StatusCode::TOO_MANY_REQUESTS => true,
        Error::Rpc(refusal) if refusal.code == codes::RATE_LIMITED => true,
        Error::Rpc(refusal) if refusal.code == PLATFORM_THROTTLED => true,
        Error::Http { status, .. } => is_idempotent && is_transient(*status),
        Error::Rpc(refusal) => is_idempotent && is_transient(refusal.status),
        _ => false,
    }
}
