//! Opening a database: that it is ours, that it is whole, that nobody else writes it, and that what
//! is written stays.

use super::job::Counters;
use super::lock::{self, StoreLock};
use super::outbox;
use super::schema;
use super::work;
use super::{Check, SqliteOptions};
use crate::statements;
use interzone_hub::ports::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// Statements that are kept ready on each connection: all that there are.
const STATEMENTS: usize = 160;

/// A database that is ready for its writer.
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
    pub(super) counters: Counters,
    /// Dropped last: see there.
    pub(super) lock: StoreLock,
}

/// Opens or makes the database; nothing if another process has it open.
pub(super) fn open(path: &Path, options: &SqliteOptions) -> Result<Option<Opened>, StoreError> {
    let path = whole(path)?;
    let shown = path.display().to_string();
    let Some(file) = lock::lock_file(&path)? else {
        return Ok(None);
    };
    for_its_owner(&path);
    let Some(lock) = StoreLock::with_database(file, &path)? else {
        return Ok(None);
    };
    let refused = |error: rusqlite::Error| refused(&error, &shown);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // What the writer commits reaches the log at once. It syncs every commit, which that asks for.
    let files = interzone_wal::gathered()
        .map_err(|error| StoreError::Unusable(format!("{shown} cannot be opened: {error}")))?;
    let mut connection =
        Connection::open_with_flags_and_vfs(&path, flags, files).map_err(refused)?;
    connection.busy_timeout(options.patience).map_err(refused)?;
    if connection.is_readonly("main").map_err(refused)? {
        return Err(read_only(&shown));
    }
    // Nothing has been written so far, and nothing is unless it is ours.
    let version = schema::version(&connection, &shown)?;
    set_up(&connection, options, version == 0, &shown)?;
    let was_clean = version == 0 || is_clean(&connection).map_err(refused)?;
    let check = match options.check {
        Check::Always => version > 0,
        Check::AfterCrash => !was_clean,
        Check::Never => false,
    };
    if check {
        quick_check(&connection, &shown)?;
    }
    schema::migrate(&mut connection, version).map_err(refused)?;
    drop_statistics(&connection).map_err(refused)?;
    observe(&mut connection).map_err(refused)?;
    connection
        .execute("UPDATE meta SET value = 0 WHERE name = 'clean'", [])
        .map_err(refused)?;
    // The lock is ours, so the processes that held work or entries are gone.
    connection.execute(work::FREE, []).map_err(refused)?;
    connection.execute(outbox::FREE, []).map_err(refused)?;
    sync_folder(&path);
    let counters = counters(&connection).map_err(refused)?;
    Ok(Some(Opened {
        path,
        connection,
        counters,
        lock,
    }))
}

/// One more connection, which cannot write.
pub(super) fn reader(path: &Path, options: &SqliteOptions) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(options.patience)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "cache_size", -kibibytes(options.reader_cache))?;
        keep_prepared(&connection)?;
        observe(&mut connection)?;
        Ok(connection)
    };
    open().map_err(|error| refused(&error, &path.display().to_string()))
}

/// The connection of the one who copies the log, and the database as a file, which it syncs.
pub(super) fn copier(path: &Path) -> Result<(Connection, File), StoreError> {
    let connection = beside(path)?;
    // Pages go from file to file, past the memory for them.
    let set = connection.pragma_update(None, "cache_size", 8);
    set.map_err(|error| refused(&error, &path.display().to_string()))?;
    // Some systems sync only what may be written.
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|error| StoreError::Unavailable(error.to_string()))?;
    Ok((connection, file))
}

/// Whether there is a database that is ours and of this version. Nothing is written.
///
/// # Errors
/// There is something that is not ours, or newer.
pub(super) fn is_there(path: &Path) -> Result<bool, StoreError> {
    let path = whole(path)?;
    if !path.exists() {
        return Ok(false);
    }
    let version = schema::version(&waiting(&path)?, &path.display().to_string())?;
    Ok(version == schema::newest())
}

/// A connection beside those of whoever has the database open, for short writes.
pub(super) fn beside(path: &Path) -> Result<Connection, StoreError> {
    let path = whole(path)?;
    let shown = path.display().to_string();
    let connection = waiting(&path)?;
    schema::version(&connection, &shown)?;
    let set = || -> rusqlite::Result<()> {
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        // The log is copied by the one whose file it is.
        connection
            .pragma_update_and_check(None, "wal_autocheckpoint", 0, |row| row.get::<_, i64>(0))?;
        Ok(())
    };
    set().map_err(|error| refused(&error, &shown))?;
    Ok(connection)
}

/// A connection that waits for its turn, for a while.
pub(super) fn waiting(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_handler(Some(wait_a_little))?;
        Ok(connection)
    };
    open().map_err(|error| refused(&error, &path.display().to_string()))
}

/// Waits before the next look whether the file is free. A busy server leaves but short gaps between
/// its writes, which longer waits would miss.
#[expect(
    clippy::disallowed_methods,
    reason = "the engine asks this very thread to wait, which is there for nothing else"
)]
fn wait_a_little(looks: i32) -> bool {
    std::thread::sleep(std::time::Duration::from_millis(1));
    looks < 20_000
}

/// Notes that the end was orderly.
pub(super) fn mark_clean(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("UPDATE meta SET value = 1 WHERE name = 'clean'")
}

/// Why a database could not be opened, and what to do about it.
pub(super) fn refused(error: &rusqlite::Error, path: &str) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => read_only(path),
        Some(ErrorCode::CannotOpen) => StoreError::Unusable(format!(
            "{path} cannot be opened: check that its folder exists and may be written"
        )),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => in_use(path),
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Unusable(format!(
            "{path} is damaged: restore it from a backup, or move it away to begin anew"
        )),
        _ => StoreError::Unavailable(format!("{path}: {error}")),
    }
}

/// The path without links or steps back, so that one file has one lock.
fn whole(path: &Path) -> Result<PathBuf, StoreError> {
    let shown = path.display();
    let name = path.file_name().ok_or_else(|| {
        StoreError::Unusable(format!("{shown} is not the path of a file: name one"))
    })?;
    match path.canonicalize() {
        Ok(path) => return Ok(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(StoreError::Unusable(format!("{shown}: {error}"))),
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = folder.canonicalize().map_err(|error| {
        StoreError::Unusable(format!(
            "the folder of {shown} cannot be opened ({error}): make it first"
        ))
    })?;
    Ok(folder.join(name))
}

/// Makes a new database file that only its owner can read: it holds what people said, and keys. Its
/// log gets the same rights from the engine. One that is there keeps those that it was given.
fn for_its_owner(path: &Path) {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // If it cannot be made, the engine will say why.
    drop(options.open(path));
}

pub(super) fn in_use(path: &str) -> StoreError {
    StoreError::Unusable(format!(
        "{path} is in use by another process: stop that one, name another file, or keep the data \
         in PostgreSQL, which many may share"
    ))
}

fn read_only(path: &str) -> StoreError {
    StoreError::Unusable(format!(
        "{path} is read-only: give this process the right to write the file and its folder"
    ))
}

/// How the connection that writes behaves.
fn set_up(
    connection: &Connection,
    options: &SqliteOptions,
    is_new: bool,
    path: &str,
) -> Result<(), StoreError> {
    let set = || -> rusqlite::Result<String> {
        if is_new {
            // What an empty file says of itself becomes durable with the next step, whole.
            connection.pragma_update(None, "synchronous", "OFF")?;
            // Both must be decided before the first table.
            connection.pragma_update(None, "page_size", 4096)?;
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        connection.pragma_update(None, "synchronous", "FULL")?;
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))?;
        // Where a sync reaches only the drive's memory, ask for more.
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "foreign_keys", false)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        connection.pragma_update(None, "cache_size", -kibibytes(options.writer_cache))?;
        // Who copies the log, and when, is decided by the writer.
        connection
            .pragma_update_and_check(None, "wal_autocheckpoint", 0, |row| row.get::<_, i64>(0))?;
        // A log that has once been long gives its space back.
        connection.pragma_update_and_check(None, "journal_size_limit", 64 << 20, |row| {
            row.get::<_, i64>(0)
        })?;
        connection.pragma_update(None, "trusted_schema", false)?;
        keep_prepared(connection)?;
        Ok(mode)
    };
    match set() {
        Ok(mode) if mode.eq_ignore_ascii_case("wal") => Ok(()),
        Ok(_) => Err(StoreError::Unusable(format!(
            "{path} cannot have a write-ahead log where it is: put it on a local disk"
        ))),
        Err(error) => Err(refused(&error, path)),
    }
}

/// Removes what `ANALYZE` has left. Earlier versions gathered statistics, also from tables with a single row, and with
/// those the planner reads whole tables for years after. Without any, a plan depends on the schema alone.
fn drop_statistics(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'sqlite\\_stat_' ESCAPE '\\'";
    let mut statement = connection.prepare(sql)?;
    let tables: Vec<String> = statement
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for table in tables {
        // Changes the schema, so that every connection forgets what it has read of them.
        connection.execute_batch(&format!("DROP TABLE {table}"))?;
    }
    Ok(())
}

/// Tells a test that observes which statements are run.
fn observe(connection: &mut Connection) -> rusqlite::Result<()> {
    let Some(observer) = statements::observer() else {
        return Ok(());
    };
    let told = move |event: TraceEvent<'_>| {
        if let TraceEvent::Stmt(statement, _) = event {
            observer(&statement.sql());
        }
    };
    connection.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(told))
}

/// Keeps statements ready. Without the guarantee, the engine looks at what is bound to `LIMIT` when it
/// prepares a statement, and so prepares it anew whenever something is bound: for each claim of work and
/// each page of a log or list, which costs several times what running it does.
fn keep_prepared(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

fn kibibytes(bytes: usize) -> i64 {
    i64::try_from(bytes / 1024).unwrap_or(i64::MAX)
}

fn is_clean(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT value FROM meta WHERE name = 'clean'";
    connection.query_row(sql, [], |row| Ok(row.get::<_, i64>(0)? == 1))
}

fn quick_check(connection: &Connection, path: &str) -> Result<(), StoreError> {
    tracing::info!(path, "looking through the database for damage");
    let found = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match found {
        Ok(answer) if answer == "ok" => Ok(()),
        Ok(damage) => Err(StoreError::Unusable(format!(
            "{path} is damaged ({damage}): restore it from a backup, or move it away to begin anew"
        ))),
        Err(error) => Err(refused(&error, path)),
    }
}

/// A new file is durable when its name is.
fn sync_folder(path: &Path) {
    let synced = path.parent().map(|folder| File::open(folder)?.sync_all());
    if let Some(Err(error)) = synced {
        // Not every system lets folders be synced; those that do not do it by themselves.
        tracing::debug!(%error, "the folder of the database was not synced");
    }
}

fn counters(connection: &Connection) -> rusqlite::Result<Counters> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get(0));
    Ok(Counters {
        claims: number("SELECT value FROM meta WHERE name = 'claims'")?,
        position: number(work::LAST_POSITION)?,
        taken: work::taken(connection)?,
        epoch: None,
    })
}
