//! Disk failure: the store rejects all further writes and requests the exit of the process.
//!
//! After a failed sync (fsync), the system may have dropped the data and still report success at the next sync, so
//! this process cannot rely on the content of its files. The next start can: it reads the write-ahead log,
//! which contains everything that was acknowledged, and checkpoints all of it.

use super::lock::PROBE_SUFFIX;
use crate::backup::append_suffix;
use rusqlite::Connection;
use rusqlite::ffi::{
    SQLITE_IOERR_DIR_FSYNC, SQLITE_IOERR_FSYNC, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE,
};
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

/// Health of the disk that holds a database.
#[derive(Clone)]
pub(super) struct DiskHealth {
    /// The database and its WAL.
    files: [PathBuf; 2],
    /// File next to the database that is written to test the disk.
    probe_path: PathBuf,
    failure: Arc<watch::Sender<Option<String>>>,
}

impl DiskHealth {
    /// Health of the disk that holds this database.
    pub(super) fn new(database: &Path) -> Self {
        Self {
            files: [database.to_owned(), append_suffix(database, "-wal")],
            probe_path: append_suffix(database, PROBE_SUFFIX),
            failure: Arc::new(watch::Sender::new(None)),
        }
    }

    /// Reports a failure. The first reason stays.
    pub(super) fn fail(&self, reason: &str) {
        let is_first = self.failure.send_if_modified(|current| {
            let is_first = current.is_none();
            current.get_or_insert_with(|| reason.to_owned());
            is_first
        });
        if is_first {
            tracing::error!(reason, "disk failed, store rejects further writes");
        }
    }

    /// Waits for a failure and returns its reason.
    pub(super) fn wait_for_failure(&self) -> impl Future<Output = String> + Send + use<> {
        let mut failure = self.failure.subscribe();
        async move {
            let reason = failure.wait_for(Option::is_some).await;
            match reason.ok().and_then(|reason| reason.clone()) {
                Some(reason) => reason,
                // The store was closed, so no failure will be reported.
                None => std::future::pending().await,
            }
        }
    }

    /// Returns true if an error of a commit or checkpoint means that the disk has failed. A full disk has not
    /// failed. `connection` is the writer's, outside of a transaction.
    pub(super) fn is_disk_failure(&self, error: &rusqlite::Error, connection: &Connection) -> bool {
        match extended_code(error) {
            Some(SQLITE_IOERR_FSYNC | SQLITE_IOERR_DIR_FSYNC | SQLITE_IOERR_TRUNCATE) => true,
            // A failed write leaves nothing behind. It may also be due to a quota or a file size limit, which SQLite
            // does not report.
            Some(SQLITE_IOERR_WRITE) => match self.probe() {
                Err(kind) if is_out_of_space(kind) => false,
                Err(kind) => {
                    tracing::error!(%kind, "disk probe failed");
                    true
                }
                // Other files can be written, so the store's own decide. The limit may also have been raised meanwhile.
                Ok(()) => write_again(connection).is_err_and(|error| is_write_error(&error)),
            },
            _ => false,
        }
    }

    /// Writes a page to a sparse file, at the offset where the store's longest file ends, so that a file size limit
    /// of the process or the file system applies to it as well.
    fn probe(&self) -> Result<(), ErrorKind> {
        let lengths = self.files.iter().filter_map(|file| file.metadata().ok());
        let end = lengths.map(|file| file.len()).max().unwrap_or(0);
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create(true)
                .truncate(true)
                .open(&self.probe_path)?;
            file.seek(SeekFrom::Start(end))?;
            file.write_all(&[0; 4096])?;
            file.sync_all()
        };
        let written = write();
        if let Err(error) = std::fs::remove_file(&self.probe_path) {
            tracing::debug!(%error, "disk probe file not removed");
        }
        written.map_err(|error| error.kind())
    }
}

/// Writes to the WAL and to the database.
fn write_again(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("UPDATE meta SET value = value + 1 WHERE name = 'probe'")?;
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

fn is_write_error(error: &rusqlite::Error) -> bool {
    matches!(
        extended_code(error),
        Some(
            SQLITE_IOERR_WRITE
                | SQLITE_IOERR_FSYNC
                | SQLITE_IOERR_DIR_FSYNC
                | SQLITE_IOERR_TRUNCATE
        )
    )
}

fn extended_code(error: &rusqlite::Error) -> Option<i32> {
    error.sqlite_error().map(|code| code.extended_code)
}

/// Returns true if the write may succeed after space is freed or a limit is raised.
const fn is_out_of_space(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}
