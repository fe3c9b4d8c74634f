//! Which statements the engines run, for tests that look at their plans.
//!
//! A plan that reads a whole table is not noticed while the table is small. So the contract suite observes every
//! statement that it causes, and explains each one under statistics that would mislead a planner.

use std::sync::OnceLock;

static OBSERVER: OnceLock<fn(&str)> = OnceLock::new();

/// Calls `observer` with the text of every statement that stores which are opened from now on prepare or run. The
/// first observer of a process stays.
pub fn observe(observer: fn(&str)) {
    OBSERVER.get_or_init(|| observer);
}

/// Whom to tell, if a test observes.
pub(crate) fn observer() -> Option<fn(&str)> {
    OBSERVER.get().copied()
}
