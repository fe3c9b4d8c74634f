//! Operator warnings about tokens, without secrets.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Maximum number of warnings.
const MAX_WARNINGS: usize = 64;

/// Active warnings by subject.
#[derive(Default)]
pub(super) struct TokenWarnings(Mutex<BTreeMap<String, String>>);

impl TokenWarnings {
    /// Sets the warning of a subject; logs it if it is new.
    pub(super) fn set(&self, subject: &str, warning: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.get(subject) == Some(&warning)
            || all.len() >= MAX_WARNINGS && !all.contains_key(subject)
        {
            return;
        }
        tracing::warn!(subject, warning, "slack token problem");
        all.insert(subject.to_owned(), warning);
    }

    /// Clears the warning of a subject.
    pub(super) fn clear(&self, subject: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(subject);
    }

    pub(super) fn all(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().cloned().collect()
    }
}
