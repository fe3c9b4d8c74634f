//! When a disk fails: the store takes nothing more, and the process is told to end.
//!
//! After a sync that failed, the system may have dropped what was to be written and say at the next sync that all is
//! well. Nothing that this process knows of its files is reliable then. The next start is: it reads the write-ahead log,
//! in which all that was acknowledged is, and copies it as a whole.

use super::lock::PROBE;
use crate::backup::with_end;
use rusqlite::ffi::{
    SQLITE_IOERR_DIR_FSYNC, SQLITE_IOERR_FSYNC, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE,
};
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::watch;

/// The disk of a database, and whether it has failed.
#[derive(Clone)]
pub(super) struct Disk {
    /// A file beside the database that is written to find out whether the disk takes anything.
    probe: PathBuf,
    failure: Arc<watch::Sender<Option<String>>>,
}

impl Disk {
    /// The disk that the database in this file is on.
    pub(super) fn new(database: &Path) -> Self {
        Self {
            probe: with_end(database, PROBE),
            failure: Arc::new(watch::Sender::new(None)),
        }
    }

    /// Says that it has failed. The first reason stays.
    pub(super) fn fail(&self, reason: &str) {
        let is_first = self.failure.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert_with(|| reason.to_owned());
            is_first
        });
        if is_first {
            tracing::error!(reason, "the disk failed; the store takes no more writes");
        }
    }

    /// Waits until it has failed, and says why.
    pub(super) fn failed(&self) -> impl Future<Output = String> + Send + use<> {
        let mut failure = self.failure.subscribe();
        async move {
            let reason = failure.wait_for(Option::is_some).await;
            match reason.ok().and_then(|reason| reason.clone()) {
                Some(reason) => reason,
                // The store was closed, so it fails no more.
                None => std::future::pending().await,
            }
        }
    }

    /// Whether an error of a commit or of a checkpoint means that the disk does not keep what it is given. A disk without
    /// room has not failed.
    pub(super) fn is_failed_by(&self, error: &rusqlite::Error) -> bool {
        let rusqlite::Error::SqliteFailure(code, _) = error else {
            return false;
        };
        match code.extended_code {
            SQLITE_IOERR_FSYNC | SQLITE_IOERR_DIR_FSYNC | SQLITE_IOERR_TRUNCATE => true,
            // A write that failed leaves nothing behind. The file may be as long as a limit allows.
            SQLITE_IOERR_WRITE => match interzone_wal::take_write_error() {
                Some(kind) => !is_lack_of_room(kind),
                // It was a write to the database, whose reason is not known, so another file is tried.
                None => self.refuses_writes(),
            },
            _ => false,
        }
    }

    fn refuses_writes(&self) -> bool {
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create(true)
                .truncate(true)
                .open(&self.probe)?;
            file.write_all(&[0; 4096])?;
            file.sync_all()?;
            std::fs::remove_file(&self.probe)
        };
        match write().map_err(|error| error.kind()) {
            Ok(()) => false,
            Err(kind) if is_lack_of_room(kind) => false,
            Err(kind) => {
                tracing::error!(%kind, "a file beside the database cannot be written either");
                true
            }
        }
    }
}

/// Whether a write that failed for this reason may succeed once something was removed or a limit was raised.
const fn is_lack_of_room(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}
