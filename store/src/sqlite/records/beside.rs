//! Records of a database that another process may have open: a short look or a short write at a time,
//! and never the lock that says whose file it is.

use super::{New, of_kind, one, put, take};
use crate::sqlite::fault::Outcome;
use crate::sqlite::open::{beside, in_use, is_there};
use crate::sqlite::retry::Retry;
use crate::sqlite::{SqliteOptions, SqliteStore};
use async_trait::async_trait;
use interzone_hub::ports::{Record, RecordStore, StoreError};
use interzone_protocol::vocab::Timestamp;
use rusqlite::{Connection, TransactionBehavior};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a server that holds the lock may take to make its tables. It holds the lock before they are
/// there, and a slow disk or a migration takes a moment.
const STARTING: Duration = Duration::from_secs(20);

/// The records of a database, and nothing else of it, whoever has the database open.
///
/// A server that runs on the same file sees what is written here at once, and the other way round:
/// neither keeps anything in memory. Each write waits for its turn, at most about half a minute.
#[derive(Clone)]
pub struct SqliteRecords {
    connection: Arc<Mutex<Connection>>,
}

impl SqliteRecords {
    /// Whether the database in this file has the tables of this version. Nothing is changed: what is older
    /// stays so, whoever has it open.
    ///
    /// # Errors
    /// It is not ours, of a newer version, or cannot be read.
    pub async fn is_current(path: impl AsRef<Path>) -> Result<bool, StoreError> {
        let path = path.as_ref().to_owned();
        blocking(move || is_there(&path)).await
    }

    /// Opens the records of the database in this file. A file that is not there yet, or of an older
    /// version, is first made or brought up to date, as a server does when it starts. If a server is
    /// doing that at the moment, this waits until it has.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, StoreError> {
        let path = path.as_ref().to_owned();
        let mut retry = Retry::new(STARTING);
        while !Self::is_current(&path).await? {
            let options = SqliteOptions::default();
            if let Some(whole) = SqliteStore::open_unless_held(&path, &options).await? {
                whole.close().await;
            } else if !retry.wait().await {
                return Err(in_use(&path.display().to_string()));
            }
        }
        let connection = blocking(move || beside(&path)).await?;
        Ok(Self {
            connection: Arc::new(Mutex::new(connection)),
        })
    }

    async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
        T: Send + 'static,
    {
        let connection = self.connection.clone();
        blocking(move || {
            let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            work(&connection).map_err(StoreError::from)
        })
        .await
    }

    async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
        T: Send + 'static,
    {
        let connection = self.connection.clone();
        blocking(move || {
            let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            let in_one = || -> Outcome<T> {
                // It says at once that it will write: one that finds out later may be too late.
                let behavior = TransactionBehavior::Immediate;
                let transaction = connection.transaction_with_behavior(behavior)?;
                let value = work(&transaction)?;
                transaction.commit()?;
                Ok(value)
            };
            in_one().map_err(StoreError::from)
        })
        .await
    }
}

impl std::fmt::Debug for SqliteRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteRecords").finish_non_exhaustive()
    }
}

/// Runs what waits for a disk where that holds nobody up.
async fn blocking<T, F>(work: F) -> Result<T, StoreError>
where
    F: FnOnce() -> Result<T, StoreError> + Send + 'static,
    T: Send + 'static,
{
    tokio::task::spawn_blocking(work)
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
        self.write(move |connection| put(connection, &new)).await
    }

    async fn take_record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<Record>, StoreError> {
        let (kind, key) = (kind.to_owned(), key.to_owned());
        self.write(move |connection| take(connection, &kind, &key, now))
            .await
    }
}
