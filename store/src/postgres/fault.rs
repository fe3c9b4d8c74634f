//! What the server's errors mean to the hub.
//!
//! Only the server's message is passed on, never its detail, which quotes stored values.

use deadpool_postgres::PoolError;
use interzone_hub::ports::StoreError;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::WrongType;

/// Why an attempt came to nothing.
pub(super) enum Fault {
    /// This is the answer.
    Answer(StoreError),
    /// The server or the way to it failed.
    Engine(tokio_postgres::Error),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Answer(error)
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Engine(error)
    }
}

/// Whether the same attempt may work at once: it lost against others, or its connection broke.
pub(super) fn worth_repeating(error: &tokio_postgres::Error) -> bool {
    is_lost(error)
        || error.code().is_some_and(|code| {
            [
                SqlState::T_R_DEADLOCK_DETECTED,
                SqlState::T_R_SERIALIZATION_FAILURE,
                // A blob was removed between finding it there and saying that it is needed.
                SqlState::FOREIGN_KEY_VIOLATION,
            ]
            .contains(code)
        })
}

/// Whether the connection is of no use any more. What was in flight may have happened or not.
pub(super) fn is_lost(error: &tokio_postgres::Error) -> bool {
    match error.as_db_error() {
        None => !is_misfit(error),
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

/// The answer that an error of the server is.
pub(super) fn answer(error: &tokio_postgres::Error) -> StoreError {
    match error.as_db_error() {
        Some(error) => from_state(error.code().code(), error.message()),
        None if is_misfit(error) => {
            StoreError::Unusable("a value does not fit its column".to_owned())
        }
        None => StoreError::Unavailable("the connection to PostgreSQL was lost".to_owned()),
    }
}

/// Whether a value was not even sent, because the statement takes another type.
fn is_misfit(error: &tokio_postgres::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<WrongType>())
}

/// The answer when no connection is to be had.
pub(super) fn no_connection(error: PoolError) -> StoreError {
    match error {
        PoolError::Timeout(_) => {
            StoreError::Unavailable("no connection to PostgreSQL became free in time".to_owned())
        }
        PoolError::Backend(error) => cannot_connect(&error),
        _ => StoreError::Unavailable("the store is closed".to_owned()),
    }
}

/// The answer when a connection cannot be made.
pub(super) fn cannot_connect(error: &tokio_postgres::Error) -> StoreError {
    if error.as_db_error().is_some() {
        return answer(error);
    }
    let mut why = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        why = format!("{why}: {error}");
        source = error.source();
    }
    StoreError::Unavailable(format!("PostgreSQL cannot be reached: {why}"))
}

fn from_state(state: &str, message: &str) -> StoreError {
    let told = || format!("PostgreSQL says: {message} ({state})");
    match (state, state.get(..2).unwrap_or_default()) {
        ("53100", _) => StoreError::Full,
        ("23505", _) => StoreError::Conflict,
        // A connection that does not go on, resources, an operator, a crash: all pass.
        ("25006" | "55P03" | "58030", _) | (_, "08" | "40" | "53" | "57") => {
            StoreError::Unavailable(told())
        }
        ("XX001" | "XX002", _) => StoreError::Corrupt(told()),
        // Some messages of this class quote the value.
        (_, "22") => StoreError::Unusable(format!("PostgreSQL refused a value ({state})")),
        _ => StoreError::Unusable(told()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_become_answers() {
        let check = |state: &str, expect: &str| {
            let answer = from_state(state, "words");
            let name = format!("{answer:?}");
            assert!(name.starts_with(expect), "{state}: {name}");
        };
        check("53100", "Full");
        check("23505", "Conflict");
        for passing in [
            "08006", "25006", "40001", "40P01", "53200", "53300", "55P03", "57014", "57P01",
            "57P03", "58030",
        ] {
            check(passing, "Unavailable");
            assert!(from_state(passing, "").is_transient(), "{passing}");
        }
        for lasting in ["28P01", "3D000", "42501", "42P01", "22021", ""] {
            check(lasting, "Unusable");
        }
        check("XX001", "Corrupt");
        assert!(!format!("{:?}", from_state("22P02", "value \"hush\"")).contains("hush"));
    }
}
