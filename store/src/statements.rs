//! Observer for executed SQL statements, used by tests that check query plans.
//!
//! A plan that scans a whole table goes unnoticed while the table is small. So the contract suite observes every
//! statement that it causes, and runs EXPLAIN on each under statistics that would mislead a planner.

use std::sync::OnceLock;

static OBSERVER: OnceLock<fn(&str)> = OnceLock::new();

/// Calls `observer` with the text of every statement that is prepared or run by stores opened from now on. The
/// first observer of a process stays.
pub fn set_observer(observer: fn(&str)) {
    OBSERVER.get_or_init(|| observer);
}

/// Returns the observer, if a test has set one.
pub(crate) fn observer() -> Option<fn(&str)> {
    OBSERVER.get().copied()
}
