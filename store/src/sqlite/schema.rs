//! The shape of the database, and how it gets from one version to the next.

use interzone_hub::ports::StoreError;
use rusqlite::Connection;

/// Ours: `IZ` and the year in which the first schema was drawn. It stands in the header of every
/// file that we make, so that nobody else's is touched.
pub(super) const APPLICATION_ID: i64 = 0x495a_07ea;

/// Each brings a database from the version of its place to the next.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("schema/0001.sql"),
    include_str!("schema/0002.sql"),
    include_str!("schema/0003.sql"),
    include_str!("schema/0004.sql"),
    include_str!("schema/0005.sql"),
    include_str!("schema/0006.sql"),
    include_str!("schema/0007.sql"),
    include_str!("schema/0008.sql"),
    include_str!("schema/0009.sql"),
    include_str!("schema/0010.sql"),
];

/// The version that this program writes.
pub(super) const fn newest() -> usize {
    MIGRATIONS.len()
}

/// Brings a database of an older version, or an empty one, to the newest. All steps are one transaction,
/// for each costs a sync, and most start from nothing.
pub(super) fn migrate(connection: &mut Connection, version: usize) -> Result<(), rusqlite::Error> {
    if version >= newest() {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    for step in MIGRATIONS.iter().skip(version) {
        transaction.execute_batch(step)?;
    }
    let newest = i64::try_from(newest()).unwrap_or(i64::MAX);
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", newest)?;
    transaction.commit()?;
    tracing::info!(version = newest, "the database has a new schema");
    Ok(())
}

/// Which version a database has; zero if it is empty.
///
/// # Errors
/// It is not ours, or newer than this program.
pub(super) fn version(connection: &Connection, path: &str) -> Result<usize, StoreError> {
    let number = |pragma: &str| -> rusqlite::Result<i64> {
        connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))
    };
    let tables = || -> rusqlite::Result<i64> {
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
    };
    let read = || -> rusqlite::Result<(i64, i64, i64)> {
        // One transaction: another process may be making the tables between two of these.
        let transaction = connection.unchecked_transaction()?;
        let read = (
            number("application_id")?,
            number("user_version")?,
            tables()?,
        );
        transaction.finish()?;
        Ok(read)
    };
    let (application, version, tables) = read().map_err(|error| unreadable(&error, path))?;
    match (application, usize::try_from(version)) {
        (0, Ok(0)) if tables == 0 => Ok(0),
        (APPLICATION_ID, Ok(version)) if version <= newest() => Ok(version),
        (APPLICATION_ID, _) => Err(StoreError::Unusable(format!(
            "{path} was made by a newer version (schema {version}, this one knows {}): use that \
             version or a newer one",
            newest()
        ))),
        _ => Err(StoreError::Unusable(format!(
            "{path} is a database of another program: name a file that does not exist yet, or one \
             that was made by Interzone"
        ))),
    }
}

fn unreadable(error: &rusqlite::Error, path: &str) -> StoreError {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match error.sqlite_error_code() {
        Some(NotADatabase) => StoreError::Unusable(format!(
            "{path} is not a database: name a file that does not exist yet, or one that was made \
             by Interzone"
        )),
        Some(DatabaseCorrupt) => StoreError::Unusable(format!(
            "{path} is damaged: restore it from a backup, or move it away to begin anew"
        )),
        _ => super::open::refused(error, path),
    }
}
