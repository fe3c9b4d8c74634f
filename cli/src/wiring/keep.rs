//! The built-in issuer's records in the store of the zone.

use async_trait::async_trait;
use interzone_edge::issuer::{Keep, KeepError, Kept};
use interzone_hub::ports::{Record, RecordStore, StoreError};
use interzone_hub::{Clock, SystemClock};
use interzone_protocol::vocab::Timestamp;
use std::sync::Arc;

/// Keeps the issuer's records in `S`.
pub(crate) struct StoreKeep<S: ?Sized>(pub(crate) Arc<S>);

#[async_trait]
impl<S: RecordStore + ?Sized + 'static> Keep for StoreKeep<S> {
    async fn get(&self, kind: &str, key: &str) -> Result<Option<Kept>, KeepError> {
        let record = self.0.record(kind, key, now()).await.map_err(broken)?;
        Ok(record.map(|record| kept(key.to_owned(), &record)))
    }

    async fn list(&self, kind: &str) -> Result<Vec<Kept>, KeepError> {
        let records = self.0.records(kind, now()).await.map_err(broken)?;
        let kept = records.into_iter().map(|(key, record)| kept(key, &record));
        Ok(kept.collect())
    }

    async fn put(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        expected: Option<u64>,
        expires_at: Option<u64>,
    ) -> Result<bool, KeepError> {
        // The issuer expects nothing by saying nothing, the store by a zero.
        let expected = Some(expected.unwrap_or(0));
        let ends = expires_at.map(moment);
        let put = self.0.put_record(kind, key, value, expected, ends, now());
        put.await.map_err(broken)
    }

    async fn take(&self, kind: &str, key: &str) -> Result<Option<Kept>, KeepError> {
        let record = self.0.take_record(kind, key, now()).await.map_err(broken)?;
        Ok(record.map(|record| kept(key.to_owned(), &record)))
    }
}

fn now() -> Timestamp {
    SystemClock.now()
}

fn moment(seconds: u64) -> Timestamp {
    Timestamp::from_millis(i64::try_from(seconds.saturating_mul(1000)).unwrap_or(i64::MAX))
}

fn kept(key: String, record: &Record) -> Kept {
    let ends = record.expires_at.map(|end| end.as_millis() / 1000);
    Kept {
        key,
        value: record.value.to_string(),
        revision: record.revision,
        expires_at: ends.and_then(|end| u64::try_from(end).ok()),
    }
}

fn broken(error: StoreError) -> KeepError {
    KeepError(Box::new(error))
}
