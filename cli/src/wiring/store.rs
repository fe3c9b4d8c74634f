//! Opens the store; the only module that names a concrete one.

use crate::config::{StoreConfig, StoreUrl};
use interzone_hub::ports::{RecordStore, Store, StoreError};
use interzone_store::postgres::PostgresStore;
use interzone_store::sqlite::{SqliteOptions, SqliteRecords, SqliteStore};
use interzone_store::{BackupError, BackupSummary};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Time that a server waits for the lock of its store: `interzone client` and `interzone user` hold it briefly
/// when they create a new one.
const LOCK_WAIT: Duration = Duration::from_secs(3);

/// An open store.
pub(super) enum OpenStore {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

impl OpenStore {
    pub(super) async fn open(config: &StoreConfig) -> Result<Self, StoreError> {
        match &config.url {
            StoreUrl::Sqlite(path) => {
                let options = SqliteOptions {
                    lock_wait: LOCK_WAIT,
                    ..config.sqlite.clone()
                };
                let store = SqliteStore::open(path, options).await?;
                Ok(Self::Sqlite(Arc::new(store)))
            }
            StoreUrl::Postgres(url) => {
                let store = PostgresStore::connect(url.expose(), config.postgres.clone()).await?;
                Ok(Self::Postgres(Arc::new(store)))
            }
        }
    }

    pub(super) fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(store) => store.clone(),
            Self::Postgres(store) => store.clone(),
        }
    }

    pub(super) fn records(&self) -> Arc<dyn RecordStore> {
        match self {
            Self::Sqlite(store) => store.clone(),
            Self::Postgres(store) => store.clone(),
        }
    }

    /// Waits until the store fails permanently, and returns the reason. PostgreSQL never does: the connection is
    /// re-established.
    pub(super) fn wait_for_failure(&self) -> impl Future<Output = String> + Send + use<> {
        let failed = match self {
            Self::Sqlite(store) => Some(store.wait_for_disk_failure()),
            Self::Postgres(_) => None,
        };
        async move {
            match failed {
                Some(failed) => failed.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Closes the store. Other users of it have been told to stop.
    pub(super) async fn close(self) {
        match self {
            Self::Sqlite(store) => match Arc::into_inner(store) {
                Some(store) => store.close().await,
                None => {
                    tracing::debug!("store still in use, closing with last reference")
                }
            },
            Self::Postgres(store) => store.close(),
        }
    }
}

/// Returns true if the store has the schema of this version. Changes nothing.
///
/// # Errors
/// The store cannot be used.
pub(crate) async fn store_is_current(config: &StoreConfig) -> Result<bool, StoreError> {
    match &config.url {
        StoreUrl::Sqlite(path) => SqliteRecords::is_current(path).await,
        StoreUrl::Postgres(url) => {
            PostgresStore::is_current(url.expose(), config.postgres.clone()).await
        }
    }
}

/// Copies the store to a new file, while a server may be using it.
///
/// # Errors
/// The store cannot be read, or the file cannot be written.
pub(crate) async fn backup(
    config: &StoreConfig,
    target: &Path,
) -> Result<BackupSummary, BackupError> {
    match &config.url {
        StoreUrl::Sqlite(path) => interzone_store::sqlite::backup(path, target).await,
        StoreUrl::Postgres(url) => {
            interzone_store::postgres::backup(url.expose(), config.postgres.clone(), target).await
        }
    }
}

/// Opens only the records, which may be changed while a server uses the same store.
///
/// # Errors
/// The store cannot be opened.
pub(crate) async fn record_store(config: &StoreConfig) -> Result<Arc<dyn RecordStore>, StoreError> {
    match &config.url {
        StoreUrl::Sqlite(path) => Ok(Arc::new(SqliteRecords::open(path).await?)),
        StoreUrl::Postgres(url) => {
            let store = PostgresStore::connect(url.expose(), config.postgres.clone()).await?;
            Ok(Arc::new(store))
        }
    }
}
