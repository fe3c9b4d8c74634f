//! Access to the records of a database that another process may have open: one short read or write at a time,
//! without the lock that gives the file to one process.

use super::{NewRecord, find_record, list_records, put_if_expected, remove_record};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::open::{in_use_error, is_current_schema, open_shared};
use crate::sqlite::retry::RetryBackoff;
use crate::sqlite::{SqliteOptions, SqliteStore};
use async_trait::async_trait;
use interzone_hub::ports::{RecordStore, StoreError, StoredRecord};
use interzone_protocol::vocab::Timestamp;
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Timeout of waiting for a server that holds the lock to create its tables. It holds the lock before they
/// exist, and a slow disk or a migration takes time.
const SERVER_START_TIMEOUT: Duration = Duration::from_secs(20);

/// The records of a database, and nothing else of it, even while another process has it open.
///
/// A server that runs on the same file sees writes made here at once, and vice versa: neither caches
/// records. A write waits for its turn, at most about half a minute.
#[derive(Clone)]
pub struct SqliteRecords {
    connection: Arc<Mutex<Connection>>,
}

impl SqliteRecords {
    /// Returns true if the database in this file has the tables of this version. Changes nothing: an older
    /// database stays as it is.
    ///
    /// # Errors
    /// The file belongs to another program or a newer version, or cannot be read.
    pub async fn is_current(path: impl AsRef<Path>) -> Result<bool, StoreError> {
        let path = path.as_ref().to_owned();
        run_blocking(move || is_current_schema(&path)).await
    }

    /// Opens the records of the database in this file. A missing file is created and an older version is
    /// migrated first, as a server does when it starts. If a server is doing that at the moment, this waits
    /// for it.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref().to_owned();
        let mut retry = RetryBackoff::new(SERVER_START_TIMEOUT);
        while !Self::is_current(&path).await? {
            let options = SqliteOptions::default();
            if let Some(store) = SqliteStore::try_open(&path, &options).await? {
                store.close().await;
            } else if !retry.wait().await {
                return Err(in_use_error(&path.display().to_string()));
            }
        }
        let connection = run_blocking(move || open_shared(&path)).await?;
        Ok(Self {
            connection: Arc::new(Mutex::new(connection)),
        })
    }

    async fn read<T, F>(&self, body: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> SqliteResult<T> + Send + 'static,
        T: Send + 'static,
    {
        let connection = self.connection.clone();
        run_blocking(move || {
            let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            body(&connection).map_err(StoreError::from)
        })
        .await
    }

    async fn write<T, F>(&self, body: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> SqliteResult<T> + Send + 'static,
        T: Send + 'static,
    {
        let connection = self.connection.clone();
        run_blocking(move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let in_transaction = || -> SqliteResult<T> {
                // Takes the write lock at once: an upgrade from a read lock could fail as busy.
                let behavior = TransactionBehavior::Immediate;
                let transaction = connection.transaction_with_behavior(behavior)?;
                let value = body(&transaction)?;
                transaction.commit()?;
                Ok(value)
            };
            in_transaction().map_err(StoreError::from)
        })
        .await
    }
}

impl std::fmt::Debug for SqliteRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteRecords").finish_non_exhaustive()
    }
}

/// Runs a blocking operation on a thread where it may wait for the disk.
async fn run_blocking<T, F>(body: F) -> Result<T, StoreError>
where
    F: FnOnce() -> Result<T, StoreError> + Send + 'static,
    T: Send + 'static,
{
    tokio::task::spawn_blocking(body)
        .await
        .unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
}

#[async_trait]
impl RecordStore for SqliteRecords {
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
        self.write(move |connection| put_if_expected(connection, &new))
            .await
    }

    async fn take_record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError> {
        let (kind, key) = (kind.to_owned(), key.to_owned());
        self.write(move |connection| remove_record(connection, &kind, &key, now))
            .await
    }
}
