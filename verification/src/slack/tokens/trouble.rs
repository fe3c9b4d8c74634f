//! What is wrong with our tokens, as sentences for an operator. Nothing secret may enter.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The most that is remembered; an operator has enough to do with these.
const MOST: usize = 64;

/// What is wrong, by what it is about.
#[derive(Default)]
pub(super) struct Trouble(Mutex<BTreeMap<String, String>>);

impl Trouble {
    /// Something is wrong; it is logged once.
    pub(super) fn note(&self, about: &str, what: String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.get(about) == Some(&what) || all.len() >= MOST && !all.contains_key(about) {
            return;
        }
        tracing::warn!(about, what, "trouble with a token of slack's");
        all.insert(about.to_owned(), what);
    }

    /// It is right again.
    pub(super) fn over(&self, about: &str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(about);
    }

    pub(super) fn all(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.values().cloned().collect()
    }
}
