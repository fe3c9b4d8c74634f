//! Online backup of a database that may be in use by another process.

use super::schema;
use super::{lock, open};
use crate::backup::{
    BackupError, BackupSummary, PartialBackup, SQLITE_SIDE_FILE_SUFFIXES, append_suffix,
    destination_error, disk_full_error,
};
use crate::codec::int_from_column;
use interzone_hub::ports::StoreError;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::{Path, PathBuf};

/// Copies the database in `from` to a new file, readable by its owner only. A server may use it during the copy: the
/// backup is one snapshot, and contains everything acknowledged before this call. Takes as long as reading
/// and writing the data takes, however busy the server is.
///
/// # Errors
/// `from` is not an Interzone database, `to` exists or has a name that SQLite or the store uses, the disk is full,
/// or the copy is found to be damaged.
/// Then no file is left in `to`.
pub async fn backup(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
) -> Result<BackupSummary, BackupError> {
    let (from, to) = (from.as_ref().to_owned(), to.as_ref().to_owned());
    tokio::task::spawn_blocking(move || copy_database(&from, &to))
        .await
        .unwrap_or_else(|error| Err(StoreError::Unavailable(error.to_string()).into()))
}

fn copy_database(from: &Path, to: &Path) -> Result<BackupSummary, BackupError> {
    let source_path = from.display().to_string();
    if !from.exists() {
        return Err(StoreError::Unusable(format!("{source_path} does not exist")).into());
    }
    check_destination(from, to)?;
    let connection = open::open_with_busy_wait(from)?;
    if schema::read_version(&connection, &source_path)? == 0 {
        return Err(StoreError::Unusable(format!("{source_path} is empty")).into());
    }
    let (partial, file) = PartialBackup::create(to)?;
    drop(file);
    let Some(temp_path) = partial.temp_path().to_str() else {
        let reason = format!("{} is not valid UTF-8: choose another path", to.display());
        return Err(destination_error(reason));
    };
    // The source is only read, so a write error concerns the copy.
    let result = connection.execute("VACUUM INTO ?1", [temp_path]);
    result.map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => disk_full_error(to),
        Some(ErrorCode::SystemIoFailure) => {
            destination_error(format!("cannot write {}: {error}", to.display()))
        }
        _ => open::open_error(&error, &source_path).into(),
    })?;
    let mut backup = verify_copy(partial.temp_path())?;
    backup.bytes = partial.finish()?;
    Ok(backup)
}

/// Rejects target names that SQLite would take for a database's journal or WAL, or that belong to the store.
fn check_destination(store: &Path, to: &Path) -> Result<(), BackupError> {
    let target_path = to.display();
    if is_same_file(store, to) {
        return Err(destination_error(format!(
            "{target_path} is the store itself: choose a path that does not exist"
        )));
    }
    let name = to.file_name().unwrap_or_default();
    let name = name.to_string_lossy().to_ascii_lowercase();
    // SQLite would replay it into the database whose name is the prefix, or delete it.
    if SQLITE_SIDE_FILE_SUFFIXES
        .iter()
        .any(|end| name.ends_with(end))
    {
        return Err(destination_error(format!(
            "{target_path} is a name that SQLite gives to its own files: choose another"
        )));
    }
    let resolve = |path: &Path| -> Option<PathBuf> {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    };
    let store = store.canonicalize().unwrap_or_else(|_| store.to_owned());
    let store_files = lock::STORE_FILE_SUFFIXES.map(|end| resolve(&append_suffix(&store, end)));
    if store_files.contains(&resolve(to)) {
        return Err(destination_error(format!(
            "{target_path} belongs to the store: choose another path"
        )));
    }
    Ok(())
}

/// Returns true if both paths are the same file, by a link or another spelling.
fn is_same_file(one: &Path, other: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;

        let identity = |path: &Path| path.metadata().map(|file| (file.dev(), file.ino()));
        matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
    }
    #[cfg(not(unix))]
    {
        let canonical = |path: &Path| path.canonicalize();
        matches!((canonical(one), canonical(other)), (Ok(one), Ok(other)) if one == other)
    }
}

/// Reads all of a copy and checks its integrity.
fn verify_copy(path: &Path) -> Result<BackupSummary, StoreError> {
    let copy_path = path.display().to_string();
    let to_error = |error: rusqlite::Error| open::open_error(&error, &copy_path);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(to_error)?;
    let schema = schema::read_version(&connection, &copy_path)?;
    let check = "PRAGMA integrity_check(1)";
    let result: String = connection
        .query_row(check, [], |row| row.get(0))
        .map_err(to_error)?;
    if result != "ok" {
        return Err(StoreError::Corrupt(format!(
            "the backup is damaged: {result}"
        )));
    }
    let mut rows = Vec::new();
    for table in list_tables(&connection).map_err(to_error)? {
        let sql = format!("SELECT count(*) FROM \"{table}\"");
        let number: i64 = connection
            .query_row(&sql, [], |row| row.get(0))
            .map_err(to_error)?;
        rows.push((table, int_from_column("a count", number)?));
    }
    Ok(BackupSummary {
        schema: schema as u64,
        bytes: 0,
        rows,
    })
}

fn list_tables(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
        ORDER BY name";
    let mut statement = connection.prepare(sql)?;
    statement.query_map([], |row| row.get(0))?.collect()
}
