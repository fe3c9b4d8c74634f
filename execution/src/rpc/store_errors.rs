//! Logging of store errors during calls.

use super::CallContext;
use interzone_hub::LogThrottle;
use interzone_hub::ports::StoreError;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A full store fails every call, so these errors share one log line every few seconds.
static STORE_FULL_THROTTLE: Mutex<LogThrottle> =
    Mutex::new(LogThrottle::new(Duration::from_secs(5)));

/// Logs a store error of a call. Audit and metrics have every call.
pub(super) fn log(cx: &CallContext<'_>, error: &StoreError) {
    let correlation = cx.correlation();
    if !matches!(error, StoreError::Full) {
        tracing::error!(%correlation, %error, "store operation failed");
        return;
    }
    let mut throttle = STORE_FULL_THROTTLE
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(calls) = throttle.record(1, Instant::now()) {
        tracing::error!(%correlation, %error, calls, "store is full, calls rejected");
    }
}
