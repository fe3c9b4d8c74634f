//! Opening the store: the only place that names a concrete one.

use super::keep::StoreKeep;
use crate::config::{StoreConfig, StoreUrl};
use interzone_edge::issuer::Keep;
use interzone_hub::ports::{RecordStore, Store, StoreError};
use interzone_store::postgres::{PostgresOptions, PostgresStore};
use interzone_store::sqlite::{SqliteOptions, SqliteRecords, SqliteStore};
use interzone_store::{Backup, BackupError};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a server waits for the lock of its store: `interzone client` and `interzone person` hold it
/// for a moment when they make a new one.
const LOCK_WAIT: Duration = Duration::from_secs(3);

/// An open store.
pub(super) enum Opened {
    Sqlite(Arc<SqliteStore>),
    Postgres(Arc<PostgresStore>),
}

impl Opened {
    pub(super) async fn open(config: &StoreConfig) -> Result<Self, StoreError> {
        match &config.url {
            StoreUrl::Sqlite(path) => {
                let options = SqliteOptions {
                    readers: config.readers,
                    lock_wait: LOCK_WAIT,
                    ..SqliteOptions::default()
                };
                let store = SqliteStore::open(path, options).await?;
                Ok(Self::Sqlite(Arc::new(store)))
            }
            StoreUrl::Postgres(url) => {
                let store = PostgresStore::connect(url.expose(), postgres(config)).await?;
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

    pub(super) fn keep(&self) -> Arc<dyn Keep> {
        match self {
            Self::Sqlite(store) => Arc::new(StoreKeep(store.clone())),
            Self::Postgres(store) => Arc::new(StoreKeep(store.clone())),
        }
    }

    /// Waits until the store cannot go on in this process, and says why. One on a server never does that: it comes back
    /// by itself.
    pub(super) fn failed(&self) -> impl Future<Output = String> + Send + use<> {
        let failed = match self {
            Self::Sqlite(store) => Some(store.failed()),
            Self::Postgres(_) => None,
        };
        async move {
            match failed {
                Some(failed) => failed.await,
                None => std::future::pending().await,
            }
        }
    }

    /// Lets go of the store in order. Whoever else still holds it has been told to stop.
    pub(super) async fn close(self) {
        match self {
            Self::Sqlite(store) => match Arc::into_inner(store) {
                Some(store) => store.close().await,
                None => {
                    tracing::debug!("the store is still in use and is closed with its last user")
                }
            },
            Self::Postgres(store) => store.close(),
        }
    }
}

/// The issuer's records alone, which may be changed while a server runs on the same store.
///
/// # Errors
/// The store cannot be opened.
pub(crate) async fn records(config: &StoreConfig) -> Result<Arc<dyn Keep>, StoreError> {
    let records = record_store(config).await?;
    Ok(Arc::new(StoreKeep(records)))
}

/// Whether the store has the tables of this version. Nothing is changed.
///
/// # Errors
/// The store cannot be used.
pub(crate) async fn store_is_current(config: &StoreConfig) -> Result<bool, StoreError> {
    match &config.url {
        StoreUrl::Sqlite(path) => SqliteRecords::is_current(path).await,
        StoreUrl::Postgres(url) => PostgresStore::is_current(url.expose(), postgres(config)).await,
    }
}

/// Copies the store to a new file. A server may run on it meanwhile.
///
/// # Errors
/// The store cannot be read, or the file cannot be written.
pub(crate) async fn backup(config: &StoreConfig, to: &Path) -> Result<Backup, BackupError> {
    match &config.url {
        StoreUrl::Sqlite(path) => interzone_store::sqlite::backup(path, to).await,
        StoreUrl::Postgres(url) => {
            interzone_store::postgres::backup(url.expose(), postgres(config), to).await
        }
    }
}

/// All records, which may be read while a server runs on the same store.
///
/// # Errors
/// The store cannot be opened.
pub(super) async fn record_store(config: &StoreConfig) -> Result<Arc<dyn RecordStore>, StoreError> {
    match &config.url {
        StoreUrl::Sqlite(path) => Ok(Arc::new(SqliteRecords::open(path).await?)),
        StoreUrl::Postgres(url) => {
            let store = PostgresStore::connect(url.expose(), postgres(config)).await?;
            Ok(Arc::new(store))
        }
    }
}

fn postgres(config: &StoreConfig) -> PostgresOptions {
    PostgresOptions {
        schema: config.schema.clone(),
        pool_size: config.connections,
        ca_file: config.ca.clone(),
        ..PostgresOptions::default()
    }
}
