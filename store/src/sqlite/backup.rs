//! A backup of a database that may be in use by another process.

use super::open;
use super::schema;
use crate::backup::{Backup, Draft};
use crate::codec::count;
use interzone_hub::ports::StoreError;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;

/// Copies the database in `from` to a new file, which no one but its owner can read. A server may run on it meanwhile: it
/// is read as it is at one moment, and holds all that was acknowledged before this was called. Takes the time that reading
/// and writing it takes, however busy the server is.
///
/// # Errors
/// There is no database of ours in `from`, there is a file in `to`, there is no room, or the copy is found to be damaged.
/// Then nothing is left in `to`.
pub async fn backup(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Backup, StoreError> {
    let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
    tokio::task::spawn_blocking(move || copy(&from, &to))
        .await
        .unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string())))
}

fn copy(from: &Path, to: &Path) -> Result<Backup, StoreError> {
    let shown = from.display().to_string();
    let refused = |error: rusqlite::Error| open::refused(&error, &shown);
    if !from.exists() {
        return Err(StoreError::Unusable(format!("there is no {shown}")));
    }
    let connection = open::waiting(from)?;
    if schema::version(&connection, &shown)? == 0 {
        return Err(StoreError::Unusable(format!("there is nothing in {shown}")));
    }
    let (draft, file) = Draft::begin(to)?;
    drop(file);
    let Some(part) = draft.path().to_str() else {
        let why = format!("{} is no path in UTF-8: name another", to.display());
        return Err(StoreError::Unusable(why));
    };
    connection
        .execute("VACUUM INTO ?1", [part])
        .map_err(refused)?;
    let mut backup = verify(draft.path())?;
    backup.bytes = draft.finish()?;
    Ok(backup)
}

/// Reads all of a copy.
fn verify(path: &Path) -> Result<Backup, StoreError> {
    let shown = path.display().to_string();
    let refused = |error: rusqlite::Error| open::refused(&error, &shown);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(refused)?;
    let schema = schema::version(&connection, &shown)?;
    let check = "PRAGMA integrity_check(1)";
    let found: String = connection
        .query_row(check, [], |row| row.get(0))
        .map_err(refused)?;
    if found != "ok" {
        return Err(StoreError::Corrupt(format!("the copy is damaged: {found}")));
    }
    let mut rows = Vec::new();
    for table in tables(&connection).map_err(refused)? {
        let sql = format!("SELECT count(*) FROM \"{table}\"");
        let number: i64 = connection
            .query_row(&sql, [], |row| row.get(0))
            .map_err(refused)?;
        rows.push((table, count("a count", number)?));
    }
    Ok(Backup {
        schema: schema as u64,
        bytes: 0,
        rows,
    })
}

fn tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
        ORDER BY name";
    let mut statement = connection.prepare(sql)?;
    statement.query_map([], |row| row.get(0))?.collect()
}
