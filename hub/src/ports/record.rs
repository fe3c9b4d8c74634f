//! Store port for records: small values under a kind and a key, such as OAuth clients. Their content is opaque to the
//! store.

use super::StoreError;
use async_trait::async_trait;
use interzone_protocol::vocab::Timestamp;
use std::sync::Arc;

/// A stored record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Content of the record.
    pub value: Arc<str>,
    /// Changes with every write. A revision is never reused for the same name, not even after the record was
    /// removed.
    pub revision: u64,
    /// Expiry time, if any; exclusive.
    pub expires_at: Option<Timestamp>,
}

impl StoredRecord {
    /// Maximum bytes of a value.
    pub const MAX_VALUE_BYTES: usize = 64 * 1024;

    /// Maximum bytes of a kind and of a key.
    pub const MAX_NAME_BYTES: usize = 256;

    /// Checks the sizes of a record.
    ///
    /// # Errors
    /// [`TooLarge`](StoreError::TooLarge).
    pub fn check_sizes(kind: &str, key: &str, value: &str) -> Result<(), StoreError> {
        for (what, length, limit) in [
            ("the kind of a record", kind.len(), Self::MAX_NAME_BYTES),
            ("the key of a record", key.len(), Self::MAX_NAME_BYTES),
            ("a record", value.len(), Self::MAX_VALUE_BYTES),
        ] {
            if length > limit {
                return Err(StoreError::TooLarge { what, limit });
            }
        }
        Ok(())
    }
}

/// Records, each under a kind and a key. An expired record counts as absent.
#[async_trait]
pub trait RecordStore: Send + Sync {
    /// Returns a record.
    async fn record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError>;

    /// Returns all records of a kind with their keys, ordered by the bytes of the key. Meant for kinds with few
    /// records.
    async fn records(
        &self,
        kind: &str,
        now: Timestamp,
    ) -> Result<Vec<(String, StoredRecord)>, StoreError>;

    /// Writes a record by compare-and-swap: `expected` is zero for an absent record, else the current revision;
    /// `None` writes unconditionally. Returns whether it was written.
    ///
    /// **Atomic:** of several writers that expect the same revision, one succeeds.
    ///
    /// # Errors
    /// [`TooLarge`](StoreError::TooLarge), or the store operation failed.
    async fn put_record(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        expected: Option<u64>,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// Removes a record and returns it.
    ///
    /// **Atomic:** of several takers, one gets it.
    async fn take_record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError>;
}
