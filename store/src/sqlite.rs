//! SQLite store: one file on one machine.
//!
//! One thread writes ([`writer`]) with group commit: all queued jobs share one transaction and one sync. Another
//! thread checkpoints the write-ahead log (WAL) into the database. A few threads read, each on its own connection, and
//! never wait for the writer. A lock file ensures that only one process at a time uses the database.
//!
//! A call waits for the calls queued before it and for the disk. If the disk does not finish a write for long, further
//! calls are rejected at once. Calls whose write has started wait for its end, because only that shows whether it was
//! written.

mod apply;
mod backup;
mod batch_queue;
mod blobs;
mod cache;
mod commit;
mod conversations;
mod disk_failure;
mod error;
mod events;
mod lock;
mod maintenance;
mod open;
mod outbox;
mod purge;
mod quota;
mod readers;
mod records;
mod request_log;
mod retry;
mod rows;
mod schema;
mod streams;
mod tasks;
#[cfg(test)]
mod tests;
mod topics;
mod work_queue;
mod write_job;
mod writer;

pub use backup::backup;
pub use records::SqliteRecords;

use cache::TaskCache;
use disk_failure::DiskHealth;
use error::SqliteResult;
use interzone_hub::ports::{ChangeHint, StoreError};
use open::OpenDatabase;
use readers::Readers;
use retry::RetryBackoff;
use rusqlite::Connection;
use serde::Deserialize;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use write_job::WriteSession;
use writer::WriterHandle;

/// Capacity of the channel of change hints; a receiver that lags further loses some.
const HINT_CHANNEL_CAPACITY: usize = 4096;

/// Options of the SQLite store.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SqliteOptions {
    /// Integrity check of the complete file before it is used.
    #[serde(skip)]
    pub integrity_check: IntegrityCheck,
    /// Number of reader threads.
    #[serde(deserialize_with = "interzone_options::positive")]
    pub readers: usize,
    /// Page cache of the writer, in bytes.
    #[serde(skip)]
    pub writer_cache: usize,
    /// Page cache of each reader, in bytes.
    #[serde(skip)]
    pub reader_cache: usize,
    /// Size limit of the cache of recently read tasks, in bytes; usually about half of it is in use.
    /// Zero disables it.
    #[serde(skip)]
    pub task_cache: usize,
    /// SQLite busy timeout: how long to wait for another program that has the file locked, for example to copy it.
    #[serde(skip)]
    pub busy_timeout: Duration,
    /// Lock timeout: maximum wait for another Interzone process that has the store open, for example a command that
    /// creates its tables. Zero does not wait.
    #[serde(skip)]
    pub lock_wait: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            integrity_check: IntegrityCheck::AfterCrash,
            readers: 2,
            writer_cache: 32 << 20,
            reader_cache: 8 << 20,
            task_cache: 16 << 20,
            busy_timeout: Duration::from_secs(5),
            lock_wait: Duration::ZERO,
        }
    }
}

/// Policy for the integrity check of the complete file (`quick_check`). The check takes about a second per gigabyte,
/// more on a slow disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegrityCheck {
    /// At every start.
    Always,
    /// After a run that did not end with [`SqliteStore::close`] or by dropping the store. A crash does not damage the
    /// file, but its cause may have.
    AfterCrash,
    /// Never.
    Never,
}

/// A store in one file.
///
/// Dropping it finishes pending writes and waits for them; [`SqliteStore::close`] does the same
/// without blocking a runtime thread.
pub struct SqliteStore {
    writer: WriterHandle,
    readers: Readers,
    hints: broadcast::Sender<ChangeHint>,
    cache: Arc<TaskCache>,
    disk: DiskHealth,
}

impl SqliteStore {
    /// Opens the database in this file, or creates it.
    ///
    /// # Errors
    /// [`Unusable`](StoreError::Unusable) says what is wrong and what to do: the file is not a
    /// database, belongs to another program, was created by a newer version, is damaged, is not
    /// writable, or is in use by another process. [`Full`](StoreError::Full): the disk is full.
    pub async fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let mut retry = RetryBackoff::new(options.lock_wait);
        loop {
            if let Some(store) = Self::try_open(path, &options).await? {
                return Ok(store);
            }
            if !retry.wait().await {
                return Err(open::in_use_error(&path.display().to_string()));
            }
        }
    }

    /// Opens or creates the database; `None` if another process has it open.
    async fn try_open(path: &Path, options: &SqliteOptions) -> Result<Option<Self>, StoreError> {
        let (path, options) = (path.to_owned(), options.clone());
        tokio::task::spawn_blocking(move || Self::open_blocking(&path, &options))
            .await
            .unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
    }

    fn open_blocking(path: &Path, options: &SqliteOptions) -> Result<Option<Self>, StoreError> {
        let Some(opened) = open::open(path, options)? else {
            return Ok(None);
        };
        let checkpointer = open::open_checkpointer(&opened.path)?;
        Self::start(opened, checkpointer, options).map(Some)
    }

    /// Starts the threads. The checkpointer gets a connection, and the database as a file to sync.
    fn start(
        opened: OpenDatabase,
        checkpointer: (Connection, File),
        options: &SqliteOptions,
    ) -> Result<Self, StoreError> {
        let connections = (0..options.readers.max(1))
            .map(|_| open::open_reader(&opened.path, options))
            .collect::<Result<Vec<_>, _>>()?;
        let (readers, stop_readers) = Readers::start(connections)?;
        let (hints, _) = broadcast::channel(HINT_CHANNEL_CAPACITY);
        let cache = TaskCache::new(options.task_cache);
        let disk = DiskHealth::new(&opened.path);
        let writer = WriterHandle::start(
            opened,
            checkpointer,
            disk.clone(),
            hints.clone(),
            cache.clone(),
            stop_readers,
        )?;
        Ok(Self {
            writer,
            readers,
            hints,
            cache,
            disk,
        })
    }

    /// Waits until the disk has failed and returns the reason: a sync or a write failed, other than for lack of
    /// space. From then on every write is rejected, and only a new process can find out what is on the disk: end this
    /// process and start again. Nothing that was acknowledged is lost.
    pub fn wait_for_disk_failure(&self) -> impl Future<Output = String> + Send + use<> {
        self.disk.wait_for_failure()
    }

    /// Finishes pending writes, marks the file as clean and releases it.
    pub async fn close(mut self) {
        self.writer.close();
        // Joining a thread blocks, which must not happen on a runtime thread.
        let ended = tokio::task::spawn_blocking(move || self.writer.join()).await;
        if ended.is_err() {
            tracing::warn!("store was not closed cleanly");
        }
    }

    /// Number of group commits so far, each with one sync.
    pub fn group_commit_count(&self) -> u64 {
        self.writer.group_commit_count()
    }

    async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> SqliteResult<T> + Send + 'static,
        T: Send + 'static,
    {
        self.readers.read(work).await
    }

    async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: FnMut(&mut WriteSession<'_>) -> SqliteResult<T> + Send + 'static,
        T: Send + 'static,
    {
        self.writer.write(0, work).await
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.writer.join();
        // The writer has stopped the readers, unless it panicked.
        self.readers.close();
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").finish_non_exhaustive()
    }
}
