//! Key-value records: one row each; shared by the store and by processes next to it.

use super::SqliteStore;
use super::error::SqliteResult;
use super::rows::{all, first, text};
use crate::codec::{int_from_column, int_to_column, timestamp_from_column};
use async_trait::async_trait;
use interzone_hub::ports::{RecordStore, StoreError, StoredRecord};
use interzone_protocol::vocab::Timestamp;
use rusqlite::{Connection, Row, params};

mod shared_access;

pub use shared_access::SqliteRecords;

/// A record to write, and the expected revision.
struct NewRecord {
    kind: String,
    key: String,
    value: String,
    expected: Option<u64>,
    expires_at: Option<Timestamp>,
    now: Timestamp,
}

#[async_trait]
impl RecordStore for SqliteStore {
    async fn record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError> {
        let (kind, key) = (kind.to_owned(), key.to_owned());
        self.read(move |connection| find_record(connection, &kind, &key, now))
            .await
    }

    async fn records(
        &self,
        kind: &str,
        now: Timestamp,
    ) -> Result<Vec<(String, StoredRecord)>, StoreError> {
        let kind = kind.to_owned();
        self.read(move |connection| list_records(connection, &kind, now))
            .await
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
        let new = NewRecord {
            kind: kind.to_owned(),
            key: key.to_owned(),
            value: value.to_owned(),
            expected,
            expires_at,
            now,
        };
        self.writer
            .write(value.len(), move |session| {
                put_if_expected(session.connection, &new)
            })
            .await
    }

    async fn take_record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError> {
        let (kind, key) = (kind.to_owned(), key.to_owned());
        self.write(move |session| remove_record(session.connection, &kind, &key, now))
            .await
    }
}

fn find_record(
    connection: &Connection,
    kind: &str,
    key: &str,
    now: Timestamp,
) -> SqliteResult<Option<StoredRecord>> {
    let sql = "SELECT value, revision, expires_at FROM records WHERE kind = ?1 AND key = ?2 \
        AND (expires_at IS NULL OR expires_at > ?3)";
    first(
        connection,
        sql,
        params![kind, key, now.as_millis()],
        read_record,
    )
}

fn list_records(
    connection: &Connection,
    kind: &str,
    now: Timestamp,
) -> SqliteResult<Vec<(String, StoredRecord)>> {
    let sql = "SELECT value, revision, expires_at, key FROM records WHERE kind = ?1 \
        AND (expires_at IS NULL OR expires_at > ?2) ORDER BY key";
    all(connection, sql, params![kind, now.as_millis()], |row| {
        Ok((row.get(3)?, read_record(row)?))
    })
}

/// Writes a record if it has the expected revision. Must run inside a transaction.
fn put_if_expected(connection: &Connection, new: &NewRecord) -> SqliteResult<bool> {
    let found = find_record(connection, &new.kind, &new.key, new.now)?;
    let current_revision = found.map_or(0, |record| record.revision);
    if new
        .expected
        .is_some_and(|expected| expected != current_revision)
    {
        return Ok(false);
    }
    let sql =
        "UPDATE meta SET value = value + 1 WHERE name = 'last_record_revision' RETURNING value";
    let revision = first(connection, sql, [], |row| Ok(row.get::<_, i64>(0)?))?;
    let revision = revision
        .ok_or_else(|| StoreError::Corrupt("the record revision counter is missing".to_owned()))?;
    let sql = "INSERT INTO records (kind, key, value, revision, expires_at) \
        VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (kind, key) DO UPDATE SET \
        value = excluded.value, revision = excluded.revision, expires_at = excluded.expires_at";
    let expires_at = new.expires_at.map(Timestamp::as_millis);
    let values = params![new.kind, new.key, new.value, revision, expires_at];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(true)
}

fn remove_record(
    connection: &Connection,
    kind: &str,
    key: &str,
    now: Timestamp,
) -> SqliteResult<Option<StoredRecord>> {
    let found = find_record(connection, kind, key, now)?;
    if let Some(record) = &found {
        let sql = "DELETE FROM records WHERE kind = ?1 AND key = ?2 AND revision = ?3";
        let values = params![kind, key, int_to_column(record.revision)];
        connection.prepare_cached(sql)?.execute(values)?;
    }
    Ok(found)
}

fn read_record(row: &Row<'_>) -> SqliteResult<StoredRecord> {
    Ok(StoredRecord {
        value: text(row, 0)?.into(),
        revision: int_from_column("a record", row.get(1)?)?,
        expires_at: row.get::<_, Option<i64>>(2)?.map(timestamp_from_column),
    })
}
