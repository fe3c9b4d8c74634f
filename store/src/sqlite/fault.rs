//! What can go wrong inside, and what callers are told of it.

use interzone_hub::ports::StoreError;
use rusqlite::ErrorCode;
use rusqlite::ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_WRITE};

/// Either what the contract knows, or what the engine said.
#[derive(Debug)]
pub(super) enum Fault {
    Store(StoreError),
    Engine(rusqlite::Error),
}

pub(super) type Outcome<T> = Result<T, Fault>;

impl Fault {
    /// Whether the transaction cannot be in the log as a whole. Its last frame is what makes it count,
    /// and that is written after all others: if there was no room, or a write failed, it is not there.
    /// After a sync that failed it may be, and it is where the log's index could not grow, which comes later.
    pub(super) fn left_nothing_whole(&self) -> bool {
        match self {
            Self::Engine(rusqlite::Error::SqliteFailure(code, _)) => {
                code.code == ErrorCode::DiskFull || code.extended_code == SQLITE_IOERR_WRITE
            }
            Self::Engine(_) => false,
            Self::Store(error) => matches!(error, StoreError::Full),
        }
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Store(error) => error,
            Fault::Engine(error) => told(&error),
        }
    }
}

/// What the engine's error means to whoever called.
fn told(error: &rusqlite::Error) -> StoreError {
    let rusqlite::Error::SqliteFailure(code, _) = error else {
        return StoreError::Corrupt(error.to_string());
    };
    // The engine's own text may name columns and values; the code says what is wrong without them.
    let text = code.to_string();
    match code.code {
        // Every constraint of ours guards an id or a number that may be taken.
        ErrorCode::ConstraintViolation => StoreError::Conflict,
        ErrorCode::DiskFull => StoreError::Full,
        // The index of the write-ahead log could not grow.
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

/// The same error once more, for the next of those who share a fate.
pub(super) fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Full => StoreError::Full,
        StoreError::Unavailable(why) => StoreError::Unavailable(why.clone()),
        StoreError::Unusable(why) => StoreError::Unusable(why.clone()),
        StoreError::Corrupt(why) => StoreError::Corrupt(why.clone()),
        StoreError::InDoubt(why) => StoreError::InDoubt(why.clone()),
        other => StoreError::Unavailable(other.to_string()),
    }
}

/// The store was closed, or whoever works for it has ended.
pub(super) fn closed() -> StoreError {
    StoreError::Unavailable("it has been closed".to_owned())
}
