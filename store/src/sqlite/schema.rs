//! Schema version of a database: check, creation and migration.

use interzone_hub::ports::StoreError;
use rusqlite::Connection;

/// SQLite application id (`IZ01`). It is in the header of every database that we create, so that no other program's
/// file is touched.
pub(super) const APPLICATION_ID: i64 = 0x495a_3031;

/// Application id of the unreleased versions before schema version 1.
pub(super) const DEVELOPMENT_APPLICATION_ID: i64 = 0x495a_07ea;

/// Creates the tables of version 1.
const SCHEMA: &str = include_str!("schema.sql");

/// Migration scripts: the first one migrates from version 1 to 2, and so on.
const MIGRATIONS: &[&str] = &[];

/// Newest schema version that this program supports.
pub(super) const fn newest_version() -> usize {
    1 + MIGRATIONS.len()
}

/// Migrates a database of an older version, or an empty one (version zero), to the newest. All steps run in one
/// transaction, because each costs a sync.
pub(super) fn migrate(connection: &mut Connection, version: usize) -> Result<(), rusqlite::Error> {
    if version >= newest_version() {
        return Ok(());
    }
    let transaction = connection.transaction()?;
    let all_steps = std::iter::once(&SCHEMA).chain(MIGRATIONS);
    for step in all_steps.skip(version) {
        transaction.execute_batch(step)?;
    }
    let newest = i64::try_from(newest_version()).unwrap_or(i64::MAX);
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", newest)?;
    transaction.commit()?;
    tracing::info!(version = newest, "database schema migrated");
    Ok(())
}

/// Reads the schema version of a database; zero if it is empty.
///
/// # Errors
/// The file belongs to another program, is newer than this program, or is older than version 1.
pub(super) fn read_version(connection: &Connection, path: &str) -> Result<usize, StoreError> {
    let number = |pragma: &str| -> rusqlite::Result<i64> {
        connection.query_row(&format!("PRAGMA {pragma}"), [], |row| row.get(0))
    };
    let tables = || -> rusqlite::Result<i64> {
        connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
    };
    let read_header = || -> rusqlite::Result<(i64, i64, i64)> {
        // One transaction: another process may be creating the tables in the meantime.
        let transaction = connection.unchecked_transaction()?;
        let read = (
            number("application_id")?,
            number("user_version")?,
            tables()?,
        );
        transaction.finish()?;
        Ok(read)
    };
    let (application, version, tables) =
        read_header().map_err(|error| version_error(&error, path))?;
    match (application, usize::try_from(version)) {
        (0, Ok(0)) if tables == 0 => Ok(0),
        (APPLICATION_ID, Ok(version)) if version <= newest_version() => Ok(version),
        (APPLICATION_ID, _) => Err(StoreError::Unusable(format!(
            "{path} was created by a newer version (schema {version}, this one supports {}): use that \
             version or a newer one",
            newest_version()
        ))),
        (DEVELOPMENT_APPLICATION_ID, _) => Err(StoreError::Unusable(format!(
            "{path} was created by a development version, which is not supported: export what you need with that \
             version, then delete the file to start empty"
        ))),
        _ => Err(StoreError::Unusable(format!(
            "{path} is a database of another program: choose a file that does not exist yet, or one \
             that was created by Interzone"
        ))),
    }
}

fn version_error(error: &rusqlite::Error, path: &str) -> StoreError {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match error.sqlite_error_code() {
        Some(NotADatabase) => StoreError::Unusable(format!(
            "{path} is not a database: choose a file that does not exist yet, or one that was created \
             by Interzone"
        )),
        Some(DatabaseCorrupt) => StoreError::Unusable(format!(
            "{path} is damaged: restore it from a backup, or move it away to start empty"
        )),
        _ => super::open::open_error(error, path),
    }
}
