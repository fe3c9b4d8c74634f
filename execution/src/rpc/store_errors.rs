//! What the log says when the store refuses a call.

use super::Context;
use interzone_hub::Repeats;
use interzone_hub::ports::StoreError;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A full store refuses every call for as long as it is full, so these share a line every few seconds.
static FULL: Mutex<Repeats> = Mutex::new(Repeats::new(Duration::from_secs(5)));

/// Says that the store failed at a call. The audit and the metrics have every call.
pub(super) fn log(cx: &Context<'_>, error: &StoreError) {
    let correlation = cx.correlation();
    if !matches!(error, StoreError::Full) {
        tracing::error!(%correlation, %error, "the store failed");
        return;
    }
    let mut full = FULL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(calls) = full.count(1, Instant::now()) {
        tracing::error!(%correlation, %error, calls, "the store refused calls");
    }
}
