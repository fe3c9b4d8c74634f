//! The issuer's view of the record store: times are in seconds since 1970, and the issuer's clock decides what has
//! expired.

use interzone_edge::clock::Clock;
use interzone_hub::ports::{RecordStore, StoreError, StoredRecord};
use interzone_protocol::vocab::Timestamp;
use std::error::Error;
use std::sync::Arc;

/// Records of the issuer, shared by all nodes of an installation.
#[derive(Clone)]
pub(crate) struct IssuerRecords {
    store: Arc<dyn RecordStore>,
    clock: Clock,
}

/// A record of the issuer.
pub(crate) struct IssuerRecord {
    /// Key of the record.
    pub(crate) key: String,
    /// Content of the record.
    pub(crate) value: Arc<str>,
    /// Changes with every write.
    pub(crate) revision: u64,
    /// Expiry time, in seconds since 1970.
    pub(crate) expires_at: Option<u64>,
}

/// The record store failed.
#[derive(Debug, thiserror::Error)]
#[error("the issuer's records cannot be read or written")]
pub struct IssuerStoreError(#[source] pub Box<dyn Error + Send + Sync>);

impl From<StoreError> for IssuerStoreError {
    fn from(error: StoreError) -> Self {
        Self(Box::new(error))
    }
}

impl IssuerRecords {
    pub(crate) fn new(store: Arc<dyn RecordStore>, clock: Clock) -> Self {
        Self { store, clock }
    }

    /// Returns the record under this key.
    pub(crate) async fn get(
        &self,
        kind: &str,
        key: &str,
    ) -> Result<Option<IssuerRecord>, IssuerStoreError> {
        let record = self.store.record(kind, key, self.now()).await?;
        Ok(record.map(|record| issuer_record(key.to_owned(), record)))
    }

    /// Returns all records of a kind, ordered by key.
    pub(crate) async fn list(&self, kind: &str) -> Result<Vec<IssuerRecord>, IssuerStoreError> {
        let records = self.store.records(kind, self.now()).await?;
        let records = records
            .into_iter()
            .map(|(key, record)| issuer_record(key, record));
        Ok(records.collect())
    }

    /// Writes a record by compare-and-swap: `expected` is `None` for an absent record, else its revision. Returns
    /// whether it was written.
    pub(crate) async fn put(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        expected: Option<u64>,
        expires_at: Option<u64>,
    ) -> Result<bool, IssuerStoreError> {
        let expected = Some(expected.unwrap_or(0));
        let expires_at = expires_at.map(timestamp);
        let put = self
            .store
            .put_record(kind, key, value, expected, expires_at, self.now());
        Ok(put.await?)
    }

    /// Removes and returns a record: of several callers only one gets it.
    pub(crate) async fn take(
        &self,
        kind: &str,
        key: &str,
    ) -> Result<Option<IssuerRecord>, IssuerStoreError> {
        let record = self.store.take_record(kind, key, self.now()).await?;
        Ok(record.map(|record| issuer_record(key.to_owned(), record)))
    }

    fn now(&self) -> Timestamp {
        timestamp(self.clock.unix())
    }
}

fn timestamp(seconds: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX))
}

fn issuer_record(key: String, record: StoredRecord) -> IssuerRecord {
    let expires = record.expires_at.map(|end| end.as_millis() / 1000);
    IssuerRecord {
        key,
        value: record.value,
        revision: record.revision,
        expires_at: expires.and_then(|end| u64::try_from(end).ok()),
    }
}
