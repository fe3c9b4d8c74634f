//! The locks by which a database belongs to one process at a time.

use crate::backup::with_end;
use interzone_hub::ports::StoreError;
use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

/// What we add to the name of a database for the files beside it.
pub(super) const OWN_FILES: [&str; 2] = [LOCK, PROBE];
const LOCK: &str = ".lock";
/// See [`Disk`](super::failure::Disk).
pub(super) const PROBE: &str = ".probe";

/// The locks on a database, held for as long as this lives. They go with the process, however that
/// ends. The empty file beside the database that carries the first stays, because removing it would let two hold it.
pub(super) struct StoreLock {
    _file: File,
    /// The database itself. Closing it releases all locks that the process has on it, those of the engine too. So
    /// this is dropped after all connections.
    _database: Option<File>,
}

impl StoreLock {
    /// Locks the database file itself too, so that it is found to be in use under another name (a hard link), and after
    /// the lock file was removed; nothing if another process has it. On Linux this lock and those of the engine do not
    /// concern each other; elsewhere they do, so it is not taken there.
    pub(super) fn with_database(lock_file: File, path: &Path) -> Result<Option<Self>, StoreError> {
        let with = |database| {
            Some(Self {
                _file: lock_file,
                _database: database,
            })
        };
        if !cfg!(target_os = "linux") {
            return Ok(with(None));
        }
        let Ok(database) = File::open(path) else {
            // The engine says why it cannot be opened.
            return Ok(with(None));
        };
        match database.try_lock() {
            Ok(()) => Ok(with(Some(database))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => {
                Err(cannot_be_locked(&path.display().to_string(), &error))
            }
        }
    }
}

/// Takes the lock beside the database; nothing if another process has it.
pub(super) fn lock_file(path: &Path) -> Result<Option<File>, StoreError> {
    let name = with_end(path, LOCK);
    let shown = path.display().to_string();
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).open(name);
    let file = file.map_err(|error| match error.kind() {
        std::io::ErrorKind::StorageFull => StoreError::Full,
        _ => StoreError::Unusable(format!(
            "the lock beside {shown} cannot be opened ({error}): give this process the right to \
             write in that folder"
        )),
    })?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(cannot_be_locked(&shown, &error)),
    }
}

fn cannot_be_locked(path: &str, error: &std::io::Error) -> StoreError {
    StoreError::Unusable(format!(
        "{path} cannot be locked ({error}): put it on a local disk"
    ))
}
