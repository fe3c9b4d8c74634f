//! Query plans: no statement scans a growing table, whatever the statistics are.
//!
//! Every contract test records the statements that it causes ([`observe`]); when it has passed, each of them is
//! explained ([`sqlite::check`], [`postgres::check`]). A new statement is covered by the first test that runs it.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

pub(crate) mod postgres;
pub(crate) mod sqlite;

static OBSERVED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Records all statements of this process from now on.
pub(crate) fn observe() {
    interzone_store::statements::set_observer(record);
}

fn record(sql: &str) {
    let mut observed = OBSERVED.lock().unwrap_or_else(PoisonError::into_inner);
    if !observed.contains(sql) {
        observed.insert(sql.to_owned());
    }
}

/// Recorded statements that read or write tables.
pub(crate) fn observed_statements() -> Vec<String> {
    let observed = OBSERVED.lock().unwrap_or_else(PoisonError::into_inner);
    let keywords = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"];
    let is_planned = |sql: &&String| {
        let first = sql.split_whitespace().next().unwrap_or_default();
        keywords
            .iter()
            .any(|keyword| first.eq_ignore_ascii_case(keyword))
    };
    observed.iter().filter(is_planned).cloned().collect()
}

/// The statement in one line, for messages and comparisons.
pub(crate) fn one_line(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}
