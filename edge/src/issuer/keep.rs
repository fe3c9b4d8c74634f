//! Where the issuer keeps its records, whatever that is.
//!
//! A record is a short text under a kind and a key. The port asks for little, so that any store can
//! fill it; no SQL and no file may enter here.

use crate::clock::Clock;
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Keeps small records under a kind and a key, for all nodes of one installation.
///
/// A record whose `expires_at` (seconds since 1970) has come is as good as gone: no method gives it,
/// and it does not stand in the way of a new one.
#[async_trait]
pub trait Keep: Send + Sync {
    /// The record under this key.
    ///
    /// # Errors
    ///
    /// If the records cannot be reached.
    async fn get(&self, kind: &str, key: &str) -> Result<Option<Kept>, KeepError>;

    /// All records of a kind, in the order of their keys.
    ///
    /// # Errors
    ///
    /// If the records cannot be reached.
    async fn list(&self, kind: &str) -> Result<Vec<Kept>, KeepError>;

    /// Writes a record, durably before it answers, if what is there is what the caller expects:
    /// nothing for `None`, else the record at this revision. False if it is not; then nothing
    /// changes. Of two callers that expect the same, one is told false.
    ///
    /// # Errors
    ///
    /// If the records cannot be reached.
    async fn put(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        expected: Option<u64>,
        expires_at: Option<u64>,
    ) -> Result<bool, KeepError>;

    /// Removes a record and gives it, in one step: of several callers only one gets it.
    ///
    /// # Errors
    ///
    /// If the records cannot be reached.
    async fn take(&self, kind: &str, key: &str) -> Result<Option<Kept>, KeepError>;
}

/// A record. Its value may hold keys and hashes, so it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its key.
    pub key: String,
    /// What it says.
    pub value: String,
    /// Grows with every change.
    pub revision: u64,
    /// When it ends, in seconds since 1970.
    pub expires_at: Option<u64>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("key", &self.key)
            .field("revision", &self.revision)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// The records cannot be reached.
#[derive(Debug, thiserror::Error)]
#[error("the records of the issuer cannot be reached")]
pub struct KeepError(#[source] pub Box<dyn Error + Send + Sync>);

/// Keeps records in memory, for as long as it lives.
#[derive(Clone, Debug, Default)]
pub struct MemoryKeep {
    records: Arc<Mutex<BTreeMap<(String, String), Kept>>>,
    clock: Clock,
}

impl MemoryKeep {
    /// Nothing kept yet, under this clock.
    pub fn new(clock: Clock) -> Self {
        Self {
            records: Arc::default(),
            clock,
        }
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<(String, String), Kept>) -> T) -> T {
        let now = self.clock.unix();
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.retain(|_, kept| kept.expires_at.is_none_or(|end| now < end));
        act(&mut records)
    }
}

#[async_trait]
impl Keep for MemoryKeep {
    async fn get(&self, kind: &str, key: &str) -> Result<Option<Kept>, KeepError> {
        Ok(self.with(|records| records.get(&place(kind, key)).cloned()))
    }

    async fn list(&self, kind: &str) -> Result<Vec<Kept>, KeepError> {
        Ok(self.with(|records| {
            let all = records.iter().filter(|((held, _), _)| held == kind);
            all.map(|(_, kept)| kept.clone()).collect()
        }))
    }

    async fn put(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        expected: Option<u64>,
        expires_at: Option<u64>,
    ) -> Result<bool, KeepError> {
        Ok(self.with(|records| {
            let there = records.get(&place(kind, key)).map(|kept| kept.revision);
            if there != expected {
                return false;
            }
            let kept = Kept {
                key: key.to_owned(),
                value: value.to_owned(),
                revision: there.unwrap_or(0).saturating_add(1),
                expires_at,
            };
            records.insert(place(kind, key), kept);
            true
        }))
    }

    async fn take(&self, kind: &str, key: &str) -> Result<Option<Kept>, KeepError> {
        Ok(self.with(|records| records.remove(&place(kind, key))))
    }
}

fn place(kind: &str, key: &str) -> (String, String) {
    (kind.to_owned(), key.to_owned())
}
