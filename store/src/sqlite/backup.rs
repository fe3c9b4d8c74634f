//! A backup of a database that may be in use by another process.

use super::schema;
use super::{lock, open};
use crate::backup::{Backup, BackupError, Draft, SIDE_FILES, destination, no_room, with_end};
use crate::codec::count;
use interzone_hub::ports::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::{Path, PathBuf};

/// Copies the database in `from` to a new file, which no one but its owner can read. A server may run on it meanwhile: it
/// is read as it is at one moment, and holds all that was acknowledged before this was called. Takes the time that reading
/// and writing it takes, however busy the server is.
///
/// # Errors
/// There is no database of ours in `from`, there is a file in `to` or it would be taken for one of a database, there is no
/// room, or the copy is found to be damaged.
/// Then nothing is left in `to`.
pub async fn backup(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Backup, BackupError> {
    let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
    tokio::task::spawn_blocking(move || copy(&from, &to))
        .await
        .unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string()).into()))
}

fn copy(from: &Path, to: &Path) -> Result<Backup, BackupError> {
    let shown = from.display().to_string();
    if !from.exists() {
        return Err(StoreError::Unusable(format!("there is no {shown}")).into());
    }
    check_destination(from, to)?;
    let connection = open::waiting(from)?;
    if schema::version(&connection, &shown)? == 0 {
        return Err(StoreError::Unusable(format!("there is nothing in {shown}")).into());
    }
    let (draft, file) = Draft::begin(to)?;
    drop(file);
    let Some(part) = draft.path().to_str() else {
        let why = format!("{} is no path in UTF-8: name another", to.display());
        return Err(destination(why));
    };
    // The store is but read, so whatever cannot be written is the copy.
    let copied = connection.execute("VACUUM INTO ?1", [part]);
    copied.map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => no_room(to),
        Some(ErrorCode::SystemIoFailure) => {
            destination(format!("{} cannot be written: {error}", to.display()))
        }
        _ => open::refused(&error, &shown).into(),
    })?;
    let mut backup = verify(draft.path())?;
    backup.bytes = draft.finish()?;
    Ok(backup)
}

/// Refuses names under which a backup would be taken for a file of a database, or is one.
fn check_destination(store: &Path, to: &Path) -> Result<(), BackupError> {
    let shown = to.display();
    if is_same_file(store, to) {
        return Err(destination(format!(
            "{shown} is the store itself: name a file that is not there yet"
        )));
    }
    let name = to.file_name().unwrap_or_default();
    let name = name.to_string_lossy().to_ascii_lowercase();
    // SQLite would play it back into the database that the rest of the name is of, or remove it.
    if SIDE_FILES.iter().any(|end| name.ends_with(end)) {
        return Err(destination(format!(
            "{shown} is a name that SQLite gives to its own files: name another"
        )));
    }
    let place = |path: &Path| -> Option<PathBuf> {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    let store = store.canonicalize().unwrap_or_else(|_| store.to_owned());
    let own = lock::OWN_FILES.map(|end| place(&with_end(&store, end)));
    if own.contains(&place(to)) {
        return Err(destination(format!(
            "{shown} is the name of a file that belongs to the store: name another"
        )));
    }
    Ok(())
}

/// Whether both names are of one file, by a link or another spelling.
fn is_same_file(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;

        let identity = |path: &Path| path.metadata().map(|file| (file.dev(), file.ino()));
        matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
    }
    #[cfg(not(unix))]
    {
        let whole = |path: &Path| path.canonicalize();
        matches!((whole(one), whole(other)), (Ok(one), Ok(other)) if one == other)
    }
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
