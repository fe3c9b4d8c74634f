//! Store port for records: small values under a kind and a key, such as OAuth clients. Their content is opaque to the
//! store.

use super::StoreError;
use async_trait::async_trait;
use interzone_protocol::vocab::Timestamp;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A stored record. Its value may contain keys and hashes, so `Debug` omits it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredRecord {
    /// Content of the record.
    pub value: Arc<str>,
    /// Changes with every write. A revision is never reused for the same name, not even after the record was
    /// removed.
    pub revision: u64,
    /// Expiry time, if any; exclusive.
    pub expires_at: Option<Timestamp>,
}

impl fmt::Debug for StoredRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredRecord")
            .field("revision", &self.revision)
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
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

/// Records in memory.
#[derive(Debug, Default)]
pub struct MemoryRecordStore {
    state: Mutex<MemoryRecords>,
}

#[derive(Debug, Default)]
struct MemoryRecords {
    by_name: BTreeMap<(String, String), StoredRecord>,
    /// Of the last write of any record, so that no revision is reused.
    last_revision: u64,
}

impl MemoryRecordStore {
    /// Locks the records, without those that have expired.
    fn live(&self, now: Timestamp) -> MutexGuard<'_, MemoryRecords> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_live = |record: &StoredRecord| record.expires_at.is_none_or(|end| now < end);
        state.by_name.retain(|_, record| is_live(record));
        state
    }
}

#[async_trait]
impl RecordStore for MemoryRecordStore {
    async fn record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError> {
        let name = (kind.to_owned(), key.to_owned());
        Ok(self.live(now).by_name.get(&name).cloned())
    }

    async fn records(
        &self,
        kind: &str,
        now: Timestamp,
    ) -> Result<Vec<(String, StoredRecord)>, StoreError> {
        let state = self.live(now);
        let of_kind = state.by_name.iter().filter(|((of, _), _)| of == kind);
        Ok(of_kind
            .map(|((_, key), record)| (key.clone(), record.clone()))
            .collect())
    }

    async fn put_record(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        expected: Option<u64>,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        StoredRecord::check_sizes(kind, key, value)?;
        let name = (kind.to_owned(), key.to_owned());
        let mut state = self.live(now);
        let current = state.by_name.get(&name).map_or(0, |record| record.revision);
        if expected.is_some_and(|expected| expected != current) {
            return Ok(false);
        }
        state.last_revision += 1;
        let record = StoredRecord {
            value: value.into(),
            revision: state.last_revision,
            expires_at,
        };
        state.by_name.insert(name, record);
        Ok(true)
    }

    async fn take_record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError> {
        let name = (kind.to_owned(), key.to_owned());
        Ok(self.live(now).by_name.remove(&name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn memory_record_is_swapped_taken_once_and_expires() {
        let store = MemoryRecordStore::default();
        let at = Timestamp::from_millis;
        let put = async |value, expected, now| {
            let put = store.put_record("kind", "key", value, expected, Some(at(100)), at(now));
            put.await.unwrap()
        };
        let revision = async |now| {
            let record = store.record("kind", "key", at(now)).await.unwrap();
            record.map(|record| record.revision)
        };
        assert!(put("a", Some(0), 0).await);
        let first = revision(99).await;
        assert!(first.is_some() && !put("b", Some(0), 0).await);
        assert!(put("b", first, 0).await && revision(0).await != first);
        assert_eq!(store.records("kind", at(0)).await.unwrap().len(), 1);
        assert_eq!(store.records("other", at(0)).await.unwrap(), []);
        let taken = store.take_record("kind", "key", at(0)).await.unwrap();
        assert_eq!(taken.as_ref().map(|record| &*record.value), Some("b"));
        assert!(!format!("{taken:?}").contains("\"b\""));
        assert_eq!(store.take_record("kind", "key", at(0)).await.unwrap(), None);
        assert!(put("c", None, 0).await && revision(0).await > first);
        assert_eq!(revision(100).await, None);
        assert!(put("d", Some(0), 99).await);
    }
}
