//! Records: one row each, changed by one statement each.

use super::PostgresStore;
use super::moments::now_or_server;
use super::pipeline::begin_with;
use super::session::Done;
use super::text::{escaped, unescaped};
use crate::codec::{column, count, moment};
use async_trait::async_trait;
use interzone_hub::ports::{Record, RecordStore, StoreError};
use interzone_protocol::vocab::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

const PUT: &str = concat!(
    "INSERT INTO records (kind, key, value, revision, expires_at)
    VALUES ($1, $2, $3, nextval('record_revisions'), ",
    now_or_server!("$5"),
    " + $4::bigint)
    ON CONFLICT (kind, key) DO UPDATE SET value = excluded.value,
        revision = excluded.revision, expires_at = excluded.expires_at
    RETURNING true"
);

/// What is over is not there.
const PUT_NEW: &str = concat!(
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

const PUT_AGAIN: &str = concat!(
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
    ) -> Result<Option<Record>, StoreError> {
        let sql = concat!(
            "SELECT value, revision, expires_at FROM records WHERE kind = $1 AND key = $2
                   AND (expires_at IS NULL OR expires_at > ",
            now_or_server!("$3"),
            ")"
        );
        let now = self.clock().now(now);
        let params: [&(dyn ToSql + Sync); 3] = [&escaped(kind), &escaped(key), &now];
        let rows = self.session.rows(sql, &params).await?;
        rows.first().map(read).transpose()
    }

    async fn records(
        &self,
        kind: &str,
        now: Timestamp,
    ) -> Result<Vec<(String, Record)>, StoreError> {
        let sql = concat!(
            "SELECT value, revision, expires_at, key FROM records WHERE kind = $1
                   AND (expires_at IS NULL OR expires_at > ",
            now_or_server!("$2"),
            ") ORDER BY key"
        );
        let params: [&(dyn ToSql + Sync); 2] = [&escaped(kind), &self.clock().now(now)];
        let rows = self.session.rows(sql, &params).await?;
        let with_key = |row| Ok((unescaped(Row::get(row, 3)), read(row)?));
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
        Record::check(kind, key, value)?;
        let (kind, key, value) = (escaped(kind), escaped(key), escaped(value));
        let clock = self.clock();
        let lasts = expires_at.map(|end| clock.between(now, end));
        let now = clock.now(now);
        let revision = expected.map_or(0, column);
        let params: [&(dyn ToSql + Sync); 6] = [&kind, &key, &value, &lasts, &now, &revision];
        let (sql, used) = match expected {
            None => (PUT, 5),
            Some(0) => (PUT_NEW, 5),
            Some(_) => (PUT_AGAIN, 6),
        };
        let params = params.get(..used).unwrap_or(&params);
        self.write_if_found("put_record", sql, params).await
    }

    async fn take_record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<Record>, StoreError> {
        let (kind, key, now) = (&escaped(kind), &escaped(key), &self.clock().now(now));
        self.session
            .transact("take_record", |client| {
                Box::pin(async move {
                    let sql = concat!(
                        "DELETE FROM records WHERE kind = $1 AND key = $2
                               AND (expires_at IS NULL OR expires_at > ",
                        now_or_server!("$3"),
                        ") RETURNING value, revision, expires_at"
                    );
                    let rows = begin_with(&client, sql, &[kind, key, now]).await?;
                    Ok(match rows.first() {
                        Some(row) => Done::Written(Some(read(row)?)),
                        None => Done::Nothing(None),
                    })
                })
            })
            .await
    }
}

fn read(row: &Row) -> Result<Record, StoreError> {
    Ok(Record {
        value: unescaped(row.get(0)).into(),
        revision: count("a record", row.get(1))?,
        expires_at: row.get::<_, Option<i64>>(2).map(moment),
    })
}
