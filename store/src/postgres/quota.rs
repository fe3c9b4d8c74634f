//! Rate quotas: one row per key; charges of a key are serialized.

use super::PostgresStore;
use super::pipeline::{begin_locked_and_query, query_rows};
use super::text_encoding;
use super::tx_runner::TxOutcome;
use crate::codec::timestamp_from_column;
use async_trait::async_trait;
use interzone_hub::ports::{QuotaStore, StoreError};
use interzone_hub::{Charge, Rate};
use interzone_protocol::vocab::Timestamp;

#[async_trait]
impl QuotaStore for PostgresStore {
    async fn charge(
        &self,
        key: &str,
        rate: Rate,
        cost: u32,
        now: Timestamp,
    ) -> Result<Charge, StoreError> {
        // The key's row may not exist yet, so an advisory lock stands for it.
        let lock = self.tx_runner.lock_key("quota", key);
        let hash = text_encoding::index_hash(key);
        let hash = &hash;
        self.tx_runner
            .transact("charge", |client| {
                Box::pin(async move {
                    let sql = "SELECT full_at FROM quotas WHERE key_hash = $1";
                    let rows = begin_locked_and_query(&client, lock, sql, &[hash]).await?;
                    let full_at = rows.first().map(|row| timestamp_from_column(row.get(0)));
                    let (full_at, charge) = rate.charge(full_at, now, cost);
                    let Some(full_at) = full_at else {
                        return Ok(TxOutcome::ReadOnly(charge));
                    };
                    let sql = "INSERT INTO quotas (key_hash, full_at) VALUES ($1, $2)
                               ON CONFLICT (key_hash) DO UPDATE SET full_at = excluded.full_at";
                    query_rows(&client, sql, &[hash, &full_at.as_millis()]).await?;
                    Ok(TxOutcome::Written(charge))
                })
            })
            .await
    }
}
