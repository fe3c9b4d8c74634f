//! Port for the issuer's record store.
//!
//! A record is a short text under a kind and a key. The port is small so that any store can implement it; it
//! depends on no SQL and no file system.

use async_trait::async_trait;
use interzone_edge::clock::Clock;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Key-value store for small records by kind and key, shared by all nodes of an installation.
///
/// An expired record (`expires_at`, seconds since 1970) counts as absent: no method returns it, and it can be
/// replaced as if it did not exist.
#[async_trait]
pub trait IssuerStore: Send + Sync {
    /// Returns the record under this key.
    ///
    /// # Errors
    ///
    /// If the store fails.
    async fn get(&self, kind: &str, key: &str) -> Result<Option<IssuerRecord>, IssuerStoreError>;

    /// Returns all records of a kind, ordered by key.
    ///
    /// # Errors
    ///
    /// If the store fails.
    async fn list(&self, kind: &str) -> Result<Vec<IssuerRecord>, IssuerStoreError>;

    /// Writes a record durably if the current state is the expected one: no record for `None`, else the record
    /// with this revision (compare-and-swap). Returns false if it is not; then nothing changes. Of two callers
    /// with the same expectation, one gets false.
    ///
    /// # Errors
    ///
    /// If the store fails.
    async fn put(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        expected: Option<u64>,
        expires_at: Option<u64>,
    ) -> Result<bool, IssuerStoreError>;

    /// Removes and returns a record atomically: of several callers only one gets it.
    ///
    /// # Errors
    ///
    /// If the store fails.
    async fn take(&self, kind: &str, key: &str) -> Result<Option<IssuerRecord>, IssuerStoreError>;
}

/// A stored record. Its value may contain keys and hashes, so `Debug` omits it.
#[derive(Clone, PartialEq, Eq)]
pub struct IssuerRecord {
    /// Key of the record.
    pub key: String,
    /// Content of the record.
    pub value: String,
    /// Increases with every change.
    pub revision: u64,
    /// Expiry time, in seconds since 1970.
    pub expires_at: Option<u64>,
}

impl fmt::Debug for IssuerRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuerRecord")
            .field("key", &self.key)
            .field("revision", &self.revision)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// The record store failed.
#[derive(Debug, thiserror::Error)]
#[error("the issuer's records cannot be read or written")]
pub struct IssuerStoreError(#[source] pub Box<dyn Error + Send + Sync>);

/// In-memory record store.
#[derive(Clone, Debug, Default)]
pub struct MemoryIssuerStore {
    records: Arc<Mutex<BTreeMap<(String, String), IssuerRecord>>>,
    clock: Clock,
}

impl MemoryIssuerStore {
    /// Creates an empty store with this clock.
    pub fn new(clock: Clock) -> Self {
        Self {
            records: Arc::default(),
            clock,
        }
    }

    fn with_live_records<T>(
        &self,
        action: impl FnOnce(&mut BTreeMap<(String, String), IssuerRecord>) -> T,
    ) -> T {
        let now = self.clock.unix();
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.retain(|_, record| record.expires_at.is_none_or(|end| now < end));
        action(&mut records)
    }
}

#[async_trait]
impl IssuerStore for MemoryIssuerStore {
    async fn get(&self, kind: &str, key: &str) -> Result<Option<IssuerRecord>, IssuerStoreError> {
        Ok(self.with_live_records(|records| records.get(&map_key(kind, key)).cloned()))
    }

    async fn list(&self, kind: &str) -> Result<Vec<IssuerRecord>, IssuerStoreError> {
        Ok(self.with_live_records(|records| {
            let all = records
                .iter()
                .filter(|((record_kind, _), _)| record_kind == kind);
            all.map(|(_, record)| record.clone()).collect()
        }))
    }

    async fn put(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        expected: Option<u64>,
        expires_at: Option<u64>,
    ) -> Result<bool, IssuerStoreError> {
        Ok(self.with_live_records(|records| {
            let current = records
                .get(&map_key(kind, key))
                .map(|record| record.revision);
            if current != expected {
                return false;
            }
            let record = IssuerRecord {
                key: key.to_owned(),
                value: value.to_owned(),
                revision: current.unwrap_or(0).saturating_add(1),
                expires_at,
            };
            records.insert(map_key(kind, key), record);
            true
        }))
    }

    async fn take(&self, kind: &str, key: &str) -> Result<Option<IssuerRecord>, IssuerStoreError> {
        Ok(self.with_live_records(|records| records.remove(&map_key(kind, key))))
    }
}

fn map_key(kind: &str, key: &str) -> (String, String) {
    (kind.to_owned(), key.to_owned())
}
