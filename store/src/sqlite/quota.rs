//! Rate quotas: one row per key.

use super::SqliteStore;
use crate::codec::timestamp_from_column;
use async_trait::async_trait;
use interzone_hub::ports::{QuotaStore, StoreError};
use interzone_hub::{Charge, Rate};
use interzone_protocol::vocab::Timestamp;
use rusqlite::params;

#[async_trait]
impl QuotaStore for SqliteStore {
    async fn charge(
        &self,
        key: &str,
        rate: Rate,
        cost: u32,
        now: Timestamp,
    ) -> Result<Charge, StoreError> {
        let key = key.to_owned();
        self.write(move |session| {
            let sql = "SELECT full_at FROM quotas WHERE key = ?1";
            let full = session.first(sql, [&key], |row| Ok(timestamp_from_column(row.get(0)?)))?;
            let (full, charge) = rate.charge(full, now, cost);
            if let Some(full) = full {
                let sql = "INSERT INTO quotas (key, full_at) VALUES (?1, ?2) \
                    ON CONFLICT (key) DO UPDATE SET full_at = excluded.full_at";
                session.run(sql, params![key, full.as_millis()])?;
            }
            Ok(charge)
        })
        .await
    }
}
