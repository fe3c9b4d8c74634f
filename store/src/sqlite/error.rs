//! Maps SQLite errors to [`StoreError`].

use interzone_hub::ports::StoreError;
use rusqlite::ErrorCode;
use rusqlite::ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_WRITE};

/// An error of the store's contract, or of the engine.
#[derive(Debug)]
pub(super) enum SqliteError {
    Store(StoreError),
    Engine(rusqlite::Error),
}

pub(super) type SqliteResult<T> = Result<T, SqliteError>;

impl SqliteError {
    /// Returns true if the transaction certainly is not in the WAL. Its last frame is the commit record, which
    /// is written after all others: if the disk was full or a write failed, it is not there. After a failed
    /// sync it may be, and it is where the WAL index could not grow, which happens later.
    pub(super) fn is_certainly_not_committed(&self) -> bool {
        match self {
            Self::Engine(rusqlite::Error::SqliteFailure(code, _)) => {
                code.code == ErrorCode::DiskFull || code.extended_code == SQLITE_IOERR_WRITE
            }
            Self::Engine(_) => false,
            Self::Store(error) => matches!(error, StoreError::Full),
        }
    }
}

impl From<StoreError> for SqliteError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<rusqlite::Error> for SqliteError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<SqliteError> for StoreError {
    fn from(error: SqliteError) -> Self {
        match error {
            SqliteError::Store(error) => error,
            SqliteError::Engine(error) => to_store_error(&error),
        }
    }
}

/// Maps an error of the engine.
fn to_store_error(error: &rusqlite::Error) -> StoreError {
    let rusqlite::Error::SqliteFailure(code, _) = error else {
        return StoreError::Corrupt(error.to_string());
    };
    // The engine's message may quote columns and values; the code describes the error without them.
    let text = code.to_string();
    match code.code {
        // Every constraint of the schema guards an id or a number that may be taken.
        ErrorCode::ConstraintViolation => StoreError::Conflict,
        ErrorCode::DiskFull => StoreError::Full,
        // The WAL index could not grow.
        ErrorCode::SystemIoFailure if code.extended_code == SQLITE_IOERR_SHMSIZE => {
            StoreError::Full
        }
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Corrupt(text),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen => {
            StoreError::Unusable(text)
        }
        _ => StoreError::Unavailable(text),
    }
}

/// Duplicates an error, for all jobs of a failed group.
pub(super) fn duplicate(error: &StoreError) -> StoreError {
    match error {
        StoreError::Full => StoreError::Full,
        StoreError::Unavailable(why) => StoreError::Unavailable(why.clone()),
        StoreError::Unusable(why) => StoreError::Unusable(why.clone()),
        StoreError::Corrupt(why) => StoreError::Corrupt(why.clone()),
        StoreError::InDoubt(why) => StoreError::InDoubt(why.clone()),
        other => StoreError::Unavailable(other.to_string()),
    }
}

/// The error after the store was closed or its thread has ended.
pub(super) fn closed_error() -> StoreError {
    StoreError::Unavailable("the store is closed".to_owned())
}
