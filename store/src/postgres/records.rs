//! Key-value records: one row each, changed by one statement each.

use super::PostgresStore;
use super::clock::now_or_server;
use super::pipeline::begin_and_query;
use super::text_encoding::{escape_nul, unescape_nul};
use super::tx_runner::TxOutcome;
use crate::codec::{int_from_column, int_to_column, timestamp_from_column};
use async_trait::async_trait;
use interzone_hub::ports::{RecordStore, StoreError, StoredRecord};
use interzone_protocol::vocab::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

const UPSERT_RECORD: &str = concat!(
    "INSERT INTO records (kind, key, value, revision, expires_at)
    VALUES ($1, $2, $3, nextval('record_revisions'), ",
    now_or_server!("$5"),
    " + $4::bigint)
    ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value,
        revision = excluded.revision, expires_at = excluded.expires_at
    RETURNING true"
);

/// Inserts a record; an expired one counts as absent.
const INSERT_RECORD: &str = concat!(
    "INSERT INTO records (kind, key, value, revision, expires_at)
    VALUES ($1, $2, $3, nextval('record_revisions'), ",
    now_or_server!("$5"),
    " + $4::bigint)
    ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value,
        revision = excluded.revision, expires_at = excluded.expires_at
        WHERE records.expires_at <= ",
    now_or_server!("$5"),
    " RETURNING true"
);

const UPDATE_RECORD: &str = concat!(
    "UPDATE records SET value = $3, revision = nextval('record_revisions'), expires_at = ",
    now_or_server!("$5"),
    " + $4::bigint
    WHERE kind = $1 AND key = $2 AND revision = $6 AND (expires_at IS NULL OR expires_at > ",
    now_or_server!("$5"),
    ") RETURNING true"
);

#[async_trait]
impl RecordStore for PostgresStore {
    async fn record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError> {
        let sql = concat!(
            "SELECT value, revision, expires_at FROM records WHERE kind = $1 AND key = $2
                   AND (expires_at IS NULL OR expires_at > ",
            now_or_server!("$3"),
            ")"
        );
        let now = self.clock().now_param(now);
        let params: [&(dyn ToSql + Sync); 3] = [&escape_nul(kind), &escape_nul(key), &now];
        let rows = self.tx_runner.query(sql, &params).await?;
        rows.first().map(read_record).transpose()
    }

    async fn records(
        &self,
        kind: &str,
        now: Timestamp,
    ) -> Result<Vec<(String, StoredRecord)>, StoreError> {
        let sql = concat!(
            "SELECT value, revision, expires_at, key FROM records WHERE kind = $1
                   AND (expires_at IS NULL OR expires_at > ",
            now_or_server!("$2"),
            ") ORDER BY key"
        );
        let params: [&(dyn ToSql + Sync); 2] = [&escape_nul(kind), &self.clock().now_param(now)];
        let rows = self.tx_runner.query(sql, &params).await?;
        let with_key = |row| Ok((unescape_nul(Row::get(row, 3)), read_record(row)?));
        rows.iter().map(with_key).collect()
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
        let (kind, key, value) = (escape_nul(kind), escape_nul(key), escape_nul(value));
        let clock = self.clock();
        let ttl_millis = expires_at.map(|end| clock.millis_between(now, end));
        let now = clock.now_param(now);
        let revision = expected.map_or(0, int_to_column);
        let params: [&(dyn ToSql + Sync); 6] = [&kind, &key, &value, &ttl_millis, &now, &revision];
        let (sql, param_count) = match expected {
            None => (UPSERT_RECORD, 5),
            Some(0) => (INSERT_RECORD, 5),
            Some(_) => (UPDATE_RECORD, 6),
        };
        let params = params.get(..param_count).unwrap_or(&params);
        self.write_if_found("put_record", sql, params).await
    }

    async fn take_record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError> {
        let (kind, key, now) = (
            &escape_nul(kind),
            &escape_nul(key),
            &self.clock().now_param(now),
        );
        self.tx_runner
            .transact("take_record", |client| {
                Box::pin(async move {
                    let sql = concat!(
                        "DELETE FROM records WHERE kind = $1 AND key = $2
                               AND (expires_at IS NULL OR expires_at > ",
                        now_or_server!("$3"),
                        ") RETURNING value, revision, expires_at"
                    );
                    let rows = begin_and_query(&client, sql, &[kind, key, now]).await?;
                    Ok(match rows.first() {
                        Some(row) => TxOutcome::Written(Some(read_record(row)?)),
                        None => TxOutcome::ReadOnly(None),
                    })
                })
            })
            .await
    }
}

fn read_record(row: &Row) -> Result<StoredRecord, StoreError> {
    Ok(StoredRecord {
        value: unescape_nul(row.get(0)).into(),
        revision: int_from_column("a record", row.get(1))?,
        expires_at: row.get::<_, Option<i64>>(2).map(timestamp_from_column),
    })
}
