//! When a call is tried again, and how long to wait before. It is never tried again where that
//! could do a thing twice.

use crate::error::{Error, is_passing};
use crate::transport::TransportError;
use http::StatusCode;
use interzone_protocol::acp::codes;
use interzone_protocol::zone::codes::PLATFORM_THROTTLED;
use std::time::Duration;

/// How often and how patiently to retry.
///
/// The wait before try `n` is anything up to `base` × 2ⁿ, at most `cap`: spreading the tries over
/// the whole span keeps many clients from coming back at the same moment.
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
    /// How many tries may follow the first.
    pub retries: u32,
    /// The longest wait before the second try.
    pub base: Duration,
    /// The longest wait before any try.
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
    /// One try, and that is that.
    pub fn never() -> Self {
        Self {
            retries: 0,
            ..Self::default()
        }
    }

    /// Changes how many tries may follow the first.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Changes the longest waits: before the second try, and before any.
    #[must_use]
    pub fn waits(mut self, base: Duration, cap: Duration) -> Self {
        self.base = base;
        self.cap = cap;
        self
    }

    /// The wait before try `attempt`, where the second try is 0.
    pub(crate) fn wait(&self, attempt: u32) -> Duration {
        let factor = 2_u32.saturating_pow(attempt);
        let most = self.base.saturating_mul(factor).min(self.cap).min(DAY);
        most.mul_f64(fraction())
    }
}

/// No wait is longer, whatever a policy says.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A random number from 0 up to 1. Ids are random already, so no other source is needed.
pub(crate) fn fraction() -> f64 {
    let bytes = uuid::Uuid::new_v4();
    let (first, ..) = bytes.as_fields();
    f64::from(first) / f64::from(u32::MAX)
}

/// Whether doing a thing twice is the same as doing it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Safety {
    /// It only reads.
    Read,
    /// It may change something.
    Write,
}

/// Whether to try again after this error.
pub(crate) fn helps(error: &Error, safety: Safety) -> bool {
    let read = safety == Safety::Read;
    match error {
        // The peer has seen nothing of it.
        Error::Transport(TransportError::NotConnected(_)) => true,
        Error::Transport(TransportError::Broken(_)) => read,
        // A rate limit is checked before anything is done.
        Error::Http { status, .. } if *status == StatusCode::TOO_MANY_REQUESTS => true,
        Error::Refused(refusal) if refusal.code == codes::RATE_LIMITED => true,
        Error::Refused(refusal) if refusal.code == PLATFORM_THROTTLED => true,
        Error::Http { status, .. } => read && is_passing(*status),
        Error::Refused(refusal) => read && is_passing(refusal.status),
        _ => false,
    }
}
