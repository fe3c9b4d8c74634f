//! Locks that give a database to one process at a time.

use crate::backup::append_suffix;
use interzone_hub::ports::StoreError;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

/// Suffixes of the store's own files next to the database.
pub(super) const STORE_FILE_SUFFIXES: [&str; 2] = [LOCK_SUFFIX, PROBE_SUFFIX];
const LOCK_SUFFIX: &str = ".lock";
/// See [`DiskHealth`](super::disk_failure::DiskHealth).
pub(super) const PROBE_SUFFIX: &str = ".probe";

/// The locks on a database, held for as long as this lives. The system releases them when the process ends,
/// however that happens. The empty lock file stays, because removing it would let two processes hold it.
pub(super) struct StoreLock {
    _file: File,
    /// The database itself. Closing it releases all locks that the process has on it, SQLite's included. So
    /// this is dropped after all connections.
    _database: Option<File>,
}

impl StoreLock {
    /// Also locks the database file itself, so that it is found to be in use under another name (a hard link), or after
    /// the lock file was removed; `None` if another process has it. On Linux this lock (flock) is independent of SQLite's
    /// own locks; elsewhere they conflict, so it is not taken there.
    pub(super) fn lock_database(lock_file: File, path: &Path) -> Result<Option<Self>, StoreError> {
        let build = |database| {
            Some(Self {
                _file: lock_file,
                _database: database,
            })
        };
        if !cfg!(target_os = "linux") {
            return Ok(build(None));
        }
        let Ok(database) = File::open(path) else {
            // SQLite will report why it cannot be opened.
            return Ok(build(None));
        };
        match database.try_lock() {
            Ok(()) => Ok(build(Some(database))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(lock_error(&path.display().to_string(), &error)),
        }
    }
}

/// Takes the lock file next to the database; `None` if another process has it.
pub(super) fn lock_file(path: &Path) -> Result<Option<File>, StoreError> {
    let name = append_suffix(path, LOCK_SUFFIX);
    let database_path = path.display().to_string();
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).open(name);
    let file = file.map_err(|error| match error.kind() {
        std::io::ErrorKind::StorageFull => StoreError::Full,
        _ => StoreError::Unusable(format!(
            "the lock file of {database_path} cannot be opened ({error}): allow this process to \
             write in that directory"
        )),
    })?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(lock_error(&database_path, &error)),
    }
}

fn lock_error(path: &str, error: &std::io::Error) -> StoreError {
    StoreError::Unusable(format!(
        "{path} cannot be locked ({error}): put it on a local disk"
    ))
}
