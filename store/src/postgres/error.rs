//! Maps PostgreSQL errors to [`StoreError`].
//!
//! Only the server's message is forwarded, never its detail, which may quote stored values.

use deadpool_postgres::PoolError;
use interzone_hub::ports::StoreError;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::WrongType;

/// Error of one attempt of a transaction.
pub(super) enum PgError {
    /// An error to return to the caller.
    Store(StoreError),
    /// An error of the server or the connection.
    Driver(tokio_postgres::Error),
}

impl From<StoreError> for PgError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<tokio_postgres::Error> for PgError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Driver(error)
    }
}

/// Returns true if a retry may succeed at once: a conflict with other transactions, or a lost connection.
pub(super) fn is_retryable(error: &tokio_postgres::Error) -> bool {
    is_connection_lost(error)
        || error.code().is_some_and(|code| {
            [
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::T_R_SERIALIZATION_FAILURE,
                // A blob was removed between finding it and inserting the reference to it.
                SqlState::FOREIGN_KEY_VIOLATION,
            ]
            .contains(code)
        })
}

/// Returns true if the connection is unusable. A commit that was in flight is in doubt.
pub(super) fn is_connection_lost(error: &tokio_postgres::Error) -> bool {
    match error.as_db_error() {
        None => !is_type_mismatch(error),
        Some(error) => {
            matches!(
                error.parsed_severity(),
                Some(Severity::Fatal | Severity::Panic)
            ) || *error.code() == SqlState::READ_ONLY_SQL_TRANSACTION
                || error.code().code().starts_with("08")
                || error.code().code().starts_with("57P0")
        }
    }
}

/// Maps an error of the server or driver.
pub(super) fn to_store_error(error: &tokio_postgres::Error) -> StoreError {
    match error.as_db_error() {
        Some(error) => from_sqlstate(error.code().code(), error.message()),
        None if is_type_mismatch(error) => {
            StoreError::Unusable("a parameter does not match its column type".to_owned())
        }
        None => StoreError::Unavailable("the connection to PostgreSQL was lost".to_owned()),
    }
}

/// Returns true if a value was not sent because the statement expects another type.
fn is_type_mismatch(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<WrongType>())
}

/// Maps an error of taking a connection from the pool.
pub(super) fn pool_error(error: PoolError) -> StoreError {
    match error {
        PoolError::Timeout(_) => {
            StoreError::Unavailable("timed out waiting for a PostgreSQL connection".to_owned())
        }
        PoolError::Backend(error) => connect_error(&error),
        _ => StoreError::Unavailable("the store is closed".to_owned()),
    }
}

/// Maps an error of opening a connection, with its chain of causes.
pub(super) fn connect_error(error: &tokio_postgres::Error) -> StoreError {
    if error.as_db_error().is_some() {
        return to_store_error(error);
    }
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        reason = format!("{reason}: {error}");
        source = error.source();
    }
    StoreError::Unavailable(format!("cannot connect to PostgreSQL: {reason}"))
}

fn from_sqlstate(state: &str, message: &str) -> StoreError {
    let describe = || format!("PostgreSQL error: {message} ({state})");
    match (state, state.get(..2).unwrap_or_default()) {
        ("53100", _) => StoreError::Full,
        ("23505", _) => StoreError::Conflict,
        // Connection errors, conflicts, resources, operator intervention, crash: all temporary.
        ("25006" | "55P03" | "58030", _) | (_, "08" | "40" | "53" | "57") => {
            StoreError::Unavailable(describe())
        }
        ("XX001" | "XX002", _) => StoreError::Corrupt(describe()),
        // Some messages of this class quote the value.
        (_, "22") => StoreError::Unusable(format!("PostgreSQL rejected a value ({state})")),
        _ => StoreError::Unusable(describe()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlstates_map_to_store_errors() {
        let check = |state: &str, expect: &str| {
            let answer = from_sqlstate(state, "words");
            let name = format!("{answer:?}");
            assert!(name.starts_with(expect), "{state}: {name}");
        };
        check("53100", "Full");
        check("23505", "Conflict");
        for temporary in [
            "08006", "25006", "40001", "40P01", "53200", "53300", "55P03", "57014", "57P01",
            "57P03", "58030",
        ] {
            check(temporary, "Unavailable");
            assert!(from_sqlstate(temporary, "").is_transient(), "{temporary}");
        }
        for permanent in ["28P01", "3D000", "42501", "42P01", "22021", ""] {
            check(permanent, "Unusable");
        }
        check("XX001", "Corrupt");
        assert!(!format!("{:?}", from_sqlstate("22P02", "value \"hush\"")).contains("hush"));
    }
}
