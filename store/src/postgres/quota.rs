//! Quotas: one number for each key, changed by one charge after another.

use super::PostgresStore;
use super::pipeline::{ask, begin_locked};
use super::session::Done;
use super::text;
use crate::codec::moment;
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
        // The key's row may not be there yet, so a number is locked that stands for it.
        let lock = self.session.lock_key("quota", key);
        let hash = text::hash(key);
        let hash = &hash;
        self.session
            .transact("charge", |client| {
                Box::pin(async move {
                    let sql = "SELECT full_at FROM quotas WHERE key_hash = $1";
                    let rows = begin_locked(&client, lock, sql, &[hash]).await?;
                    let full_at = rows.first().map(|row| moment(row.get(0)));
                    let (full_at, charge) = rate.charge(full_at, now, cost);
                    let Some(full_at) = full_at else {
                        return Ok(Done::Nothing(charge));
                    };
                    let sql = "INSERT INTO quotas (key_hash, full_at) VALUES ($1, $2)
                               ON CONFLICT (key_hash) DO UPDATE SET full_at = excluded.full_at";
                    ask(&client, sql, &[hash, &full_at.as_millis()]).await?;
                    Ok(Done::Written(charge))
                })
            })
            .await
    }
}
