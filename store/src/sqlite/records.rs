//! Records: one row each, the same for the store itself and for those who work beside it.

use super::SqliteStore;
use super::fault::Outcome;
use super::rows::{all, first, text};
use crate::codec::{column, count, moment};
use async_trait::async_trait;
use interzone_hub::ports::{Record, RecordStore, StoreError};
use interzone_protocol::vocab::Timestamp;
use rusqlite::{Connection, Row, params};

mod beside;

pub use beside::SqliteRecords;

/// A record to write, and what is expected to be there.
struct New {
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
    ) -> Result<Option<Record>, StoreError> {
        let (kind, key) = (kind.to_owned(), key.to_owned());
        self.read(move |connection| one(connection, &kind, &key, now))
            .await
    }

    async fn records(
        &self,
        kind: &str,
        now: Timestamp,
    ) -> Result<Vec<(String, Record)>, StoreError> {
        let kind = kind.to_owned();
        self.read(move |connection| of_kind(connection, &kind, now))
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
        Record::check(kind, key, value)?;
        let new = New {
            kind: kind.to_owned(),
            key: key.to_owned(),
            value: value.to_owned(),
            expected,
            expires_at,
            now,
        };
        self.writer
            .write(value.len(), move |session| put(session.connection, &new))
            .await
    }

    async fn take_record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<Record>, StoreError> {
        let (kind, key) = (kind.to_owned(), key.to_owned());
        self.write(move |session| take(session.connection, &kind, &key, now))
            .await
    }
}

fn one(connection: &Connection, kind: &str, key: &str, now: Timestamp) -> Outcome<Option<Record>> {
    let sql = "SELECT value, revision, expires_at FROM records WHERE kind = ?1 AND key = ?2 \
        AND (expires_at IS NULL OR expires_at > ?3)";
    first(connection, sql, params![kind, key, now.as_millis()], read)
}

fn of_kind(connection: &Connection, kind: &str, now: Timestamp) -> Outcome<Vec<(String, Record)>> {
    let sql = "SELECT value, revision, expires_at, key FROM records WHERE kind = ?1 \
        AND (expires_at IS NULL OR expires_at > ?2) ORDER BY key";
    all(connection, sql, params![kind, now.as_millis()], |row| {
        Ok((row.get(3)?, read(row)?))
    })
}

/// Inside a transaction: looks, and writes if it finds what was expected.
fn put(connection: &Connection, new: &New) -> Outcome<bool> {
    let found = one(connection, &new.kind, &new.key, new.now)?;
    let found = found.map_or(0, |record| record.revision);
    if new.expected.is_some_and(|expected| expected != found) {
        return Ok(false);
    }
    let sql = "UPDATE meta SET value = value + 1 WHERE name = 'records' RETURNING value";
    let revision = first(connection, sql, [], |row| Ok(row.get::<_, i64>(0)?))?;
    let revision = revision
        .ok_or_else(|| StoreError::Corrupt("the number of the last record is gone".to_owned()))?;
    let sql = "INSERT INTO records (kind, key, value, revision, expires_at) \
        VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (kind, key) DO UPDATE SET \
        value = excluded.value, revision = excluded.revision, expires_at = excluded.expires_at";
    let expires_at = new.expires_at.map(Timestamp::as_millis);
    let values = params![new.kind, new.key, new.value, revision, expires_at];
    connection.prepare_cached(sql)?.execute(values)?;
    Ok(true)
}

fn take(connection: &Connection, kind: &str, key: &str, now: Timestamp) -> Outcome<Option<Record>> {
    let found = one(connection, kind, key, now)?;
    if let Some(record) = &found {
        let sql = "DELETE FROM records WHERE kind = ?1 AND key = ?2 AND revision = ?3";
        let values = params![kind, key, column(record.revision)];
        connection.prepare_cached(sql)?.execute(values)?;
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> Outcome<Record> {
    Ok(Record {
        value: text(row, 0)?.into(),
        revision: count("a record", row.get(1)?)?,
        expires_at: row.get::<_, Option<i64>>(2)?.map(moment),
    })
}
