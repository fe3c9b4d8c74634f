//! Stores the built-in issuer's records in the store of the zone.

use async_trait::async_trait;
use interzone_hub::ports::{RecordStore, StoreError, StoredRecord};
use interzone_hub::{Clock, SystemClock};
use interzone_issuer::{IssuerRecord, IssuerStore, IssuerStoreError};
use interzone_protocol::vocab::Timestamp;
use std::sync::Arc;

/// Adapter from the issuer's store to the record store `S`.
pub(crate) struct IssuerStoreAdapter<S: ?Sized>(pub(crate) Arc<S>);

#[async_trait]
impl<S: RecordStore + ?Sized + 'static> IssuerStore for IssuerStoreAdapter<S> {
    async fn get(&self, kind: &str, key: &str) -> Result<Option<IssuerRecord>, IssuerStoreError> {
        let record = self.0.record(kind, key, now()).await.map_err(store_error)?;
        Ok(record.map(|record| issuer_record(key.to_owned(), &record)))
    }

    async fn list(&self, kind: &str) -> Result<Vec<IssuerRecord>, IssuerStoreError> {
        let records = self.0.records(kind, now()).await.map_err(store_error)?;
        let issuer_records = records
            .into_iter()
            .map(|(key, record)| issuer_record(key, &record));
        Ok(issuer_records.collect())
    }

    async fn put(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        expected: Option<u64>,
        expires_at: Option<u64>,
    ) -> Result<bool, IssuerStoreError> {
        // Absence is expressed by None in the issuer, and by revision 0 in the store.
        let expected = Some(expected.unwrap_or(0));
        let expires = expires_at.map(timestamp);
        let put = self
            .0
            .put_record(kind, key, value, expected, expires, now());
        put.await.map_err(store_error)
    }

    async fn take(&self, kind: &str, key: &str) -> Result<Option<IssuerRecord>, IssuerStoreError> {
        let record = self
            .0
            .take_record(kind, key, now())
            .await
            .map_err(store_error)?;
        Ok(record.map(|record| issuer_record(key.to_owned(), &record)))
    }
}

fn now() -> Timestamp {
    SystemClock.now()
}

fn timestamp(seconds: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX))
}

fn issuer_record(key: String, record: &StoredRecord) -> IssuerRecord {
    let expires = record.expires_at.map(|end| end.as_millis() / 1000);
    IssuerRecord {
        key,
        value: record.value.to_string(),
        revision: record.revision,
        expires_at: expires.and_then(|end| u64::try_from(end).ok()),
    }
}

fn store_error(error: StoreError) -> IssuerStoreError {
    IssuerStoreError(Box::new(error))
}
