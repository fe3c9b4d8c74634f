//! SQLite: one file on one machine.
//!
//! One thread writes ([`writer`]) and groups everything that waits into one transaction and one
//! sync. Another copies the write-ahead log into the database meanwhile. A few threads read, each on
//! its own connection, and never wait for the writer. The file belongs to one process at a time, which
//! a lock beside it ensures.
//!
//! What waits: a call waits for those before it and for the disk. When the disk does not finish a
//! write for long, further calls are refused at once; those whose write has begun must wait for its
//! end, because only that tells whether it happened.

mod apply;
mod backup;
mod blobs;
mod cache;
mod commit;
mod events;
mod failure;
mod fault;
mod first;
mod job;
mod lock;
mod open;
mod outbox;
mod pairs;
mod purge;
mod queue;
mod quota;
mod readers;
mod records;
mod retry;
mod rows;
mod schema;
mod streams;
mod talks;
mod tasks;
#[cfg(test)]
mod tests;
mod topics;
mod upkeep;
mod work;
mod writer;

pub use backup::backup;
pub use records::SqliteRecords;

use cache::TaskCache;
use failure::Disk;
use fault::Outcome;
use interzone_hub::ports::{StoreError, Wake};
use job::Session;
use open::Opened;
use readers::Readers;
use retry::Retry;
use rusqlite::Connection;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;
use writer::Writer;

/// How many wakes a slow listener may lag behind before it loses some.
const WAKES: usize = 4096;

/// How a database is used.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    /// When to look through the whole file for damage before using it.
    pub check: Check,
    /// How many threads read.
    pub readers: usize,
    /// How much memory the writer may use for pages, in bytes.
    pub writer_cache: usize,
    /// How much memory each reader may use for pages, in bytes.
    pub reader_cache: usize,
    /// How much memory tasks that were read lately may take, in bytes; about the half of it is in use
    /// at most times. Zero keeps none.
    pub task_cache: usize,
    /// How long to wait for another program that has the file locked, for example to copy it.
    pub patience: Duration,
    /// How long to wait for another process of ours that has the store open, for example a command that
    /// makes its tables. Zero does not wait.
    pub lock_wait: Duration,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            check: Check::AfterCrash,
            readers: 4,
            writer_cache: 32 << 20,
            reader_cache: 8 << 20,
            task_cache: 16 << 20,
            patience: Duration::from_secs(5),
            lock_wait: Duration::ZERO,
        }
    }
}

/// When to look through the whole file for damage. It takes about a second for each gigabyte, more
/// on a slow disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// At every start.
    Always,
    /// When the last use did not end by [`SqliteStore::close`] or by dropping the store. A crash
    /// harms nothing by itself; what caused it may have.
    AfterCrash,
    /// Never.
    Never,
}

/// A store in one file.
///
/// Dropping it finishes what was begun and waits for that; [`SqliteStore::close`] does the same
/// without holding a thread of the runtime.
pub struct SqliteStore {
    writer: Writer,
    readers: Readers,
    wakes: broadcast::Sender<Wake>,
    cache: Arc<TaskCache>,
    disk: Disk,
}

impl SqliteStore {
    /// Opens the database in this file, or makes it.
    ///
    /// # Errors
    /// [`Unusable`](StoreError::Unusable) says what is wrong and what to do: the file is not a
    /// database, belongs to another program, was made by a newer version, is damaged, may not be
    /// written, or is in use by another process. [`Full`](StoreError::Full): there is no room.
    pub async fn open(path: impl AsRef<Path>, options: SqliteOptions) -> Result<Self, StoreError> {
        let path = path.as_ref();
        let mut retry = Retry::new(options.lock_wait);
        loop {
            if let Some(store) = Self::open_unless_held(path, &options).await? {
                return Ok(store);
            }
            if !retry.wait().await {
                return Err(open::in_use(&path.display().to_string()));
            }
        }
    }

    /// Opens the database in this file, or makes it; nothing if another process has it open.
    async fn open_unless_held(
        path: &Path,
        options: &SqliteOptions,
    ) -> Result<Option<Self>, StoreError> {
        let (path, options) = (path.to_owned(), options.clone());
        tokio::task::spawn_blocking(move || Self::open_here(&path, &options))
            .await
            .unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
    }

    fn open_here(path: &Path, options: &SqliteOptions) -> Result<Option<Self>, StoreError> {
        let Some(opened) = open::open(path, options)? else {
            return Ok(None);
        };
        let copier = open::copier(&opened.path)?;
        Self::start(opened, copier, options).map(Some)
    }

    /// Starts the threads, with what copies the log: a connection, and the database as a file to sync.
    fn start(
        opened: Opened,
        copier: (Connection, File),
        options: &SqliteOptions,
    ) -> Result<Self, StoreError> {
        let connections = (0..options.readers.max(1))
            .map(|_| open::reader(&opened.path, options))
            .collect::<Result<Vec<_>, _>>()?;
        let (readers, stop_readers) = Readers::start(connections)?;
        let (wakes, _) = broadcast::channel(WAKES);
        let cache = TaskCache::new(options.task_cache);
        let disk = Disk::new(&opened.path);
        let writer = Writer::start(
            opened,
            copier,
            disk.clone(),
            wakes.clone(),
            cache.clone(),
            stop_readers,
        )?;
        Ok(Self {
            writer,
            readers,
            wakes,
            cache,
            disk,
        })
    }

    /// Waits until the disk has failed, and says how: a sync or a write was refused for another reason than a lack of
    /// room. From then on every write is refused, and only a new process can tell what is on the disk: end this one and
    /// start again. Nothing that was acknowledged is lost.
    pub fn failed(&self) -> impl Future<Output = String> + Send + use<> {
        self.disk.failed()
    }

    /// Finishes what was begun, leaves the file in order and lets go of it.
    pub async fn close(mut self) {
        self.writer.close();
        // Only the thread itself can be waited for, and that must not hold up the runtime.
        let ended = tokio::task::spawn_blocking(move || self.writer.join()).await;
        if ended.is_err() {
            tracing::warn!("the store was not closed in order");
        }
    }

    /// How many groups of writes have been made durable, each with one sync.
    pub fn groups(&self) -> u64 {
        self.writer.groups()
    }

    async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
        T: Send + 'static,
    {
        self.readers.read(work).await
    }

    async fn write<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: FnMut(&mut Session<'_>) -> Outcome<T> + Send + 'static,
        T: Send + 'static,
    {
        self.writer.write(0, work).await
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.writer.join();
        // The writer has stopped them, unless it panicked.
        self.readers.close();
    }
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").finish_non_exhaustive()
    }
}
