//! Plans: no statement reads a whole table that grows, whatever the statistics say.
//!
//! Every contract test observes the statements that it causes ([`observe`]); when it has passed, each of them is
//! explained ([`sqlite::check`], [`postgres::check`]). A new statement is covered by the first test that runs it.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

pub(crate) mod postgres;
pub(crate) mod sqlite;

static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Observes all statements of this process from now on.
pub(crate) fn observe() {
    interzone_store::statements::observe(note);
}

fn note(sql: &str) {
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if !seen.contains(sql) {
        seen.insert(sql.to_owned());
    }
}

/// The statements that read or write tables, of those that were seen.
pub(crate) fn observed_statements() -> Vec<String> {
    let seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    let words = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"];
    let is_planned = |sql: &&String| {
        let first = sql.split_whitespace().next().unwrap_or_default();
        words.iter().any(|word| first.eq_ignore_ascii_case(word))
    };
    seen.iter().filter(is_planned).cloned().collect()
}

/// The statement in one line, for messages and for comparing.
pub(crate) fn one_line(sql: &str) -> String {
    sql.split_whitespace().collect::<Vec<_>>().join(" ")
}
