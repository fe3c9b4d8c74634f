//! Opens a database: checks that it is an Interzone database, intact and used by no other process, and
//! configures it for durable writes.

use super::lock::{self, StoreLock};
use super::outbox;
use super::schema;
use super::work_queue;
use super::write_job::Counters;
use super::{IntegrityCheck, SqliteOptions};
use crate::statements;
use interzone_hub::ports::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::trace::{TraceEvent, TraceEventCodes};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// Capacity of the statement cache of each connection: all statements fit.
const STATEMENT_CACHE_CAPACITY: usize = 160;

/// An opened database, ready for its writer.
pub(super) struct OpenDatabase {
    pub(super) path: PathBuf,
    pub(super) connection: Connection,
    pub(super) counters: Counters,
    /// Dropped last: see [`StoreLock`].
    pub(super) lock: StoreLock,
}

/// Opens or creates the database; `None` if another process has it open.
pub(super) fn open(
    path: &Path,
    options: &SqliteOptions,
) -> Result<Option<OpenDatabase>, StoreError> {
    let path = canonical_path(path)?;
    let display_path = path.display().to_string();
    let Some(file) = lock::lock_file(&path)? else {
        return Ok(None);
    };
    create_private(&path);
    let Some(lock) = StoreLock::lock_database(file, &path)? else {
        return Ok(None);
    };
    let to_error = |error: rusqlite::Error| open_error(&error, &display_path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(&path, flags).map_err(to_error)?;
    connection
        .busy_timeout(options.busy_timeout)
        .map_err(to_error)?;
    if connection.is_readonly("main").map_err(to_error)? {
        return Err(read_only_error(&display_path));
    }
    // Nothing is written before the file is known to be an Interzone database.
    let version = schema::read_version(&connection, &display_path)?;
    configure_writer(&connection, options, version == 0, &display_path)?;
    let was_clean = version == 0 || is_clean(&connection).map_err(to_error)?;
    let check = match options.integrity_check {
        IntegrityCheck::Always => version > 0,
        IntegrityCheck::AfterCrash => !was_clean,
        IntegrityCheck::Never => false,
    };
    if check {
        quick_check(&connection, &display_path)?;
    }
    schema::migrate(&mut connection, version).map_err(to_error)?;
    drop_statistics(&connection).map_err(to_error)?;
    trace_statements(&mut connection).map_err(to_error)?;
    connection
        .execute("UPDATE meta SET value = 0 WHERE name = 'clean'", [])
        .map_err(to_error)?;
    // This process holds the lock, so the processes that held claims have ended.
    connection
        .execute(work_queue::RELEASE_ALL_WORK, [])
        .map_err(to_error)?;
    connection
        .execute(outbox::RELEASE_ALL_ENTRIES, [])
        .map_err(to_error)?;
    sync_directory(&path);
    let counters = load_counters(&connection).map_err(to_error)?;
    Ok(Some(OpenDatabase {
        path,
        connection,
        counters,
        lock,
    }))
}

/// Opens a read-only connection.
pub(super) fn open_reader(path: &Path, options: &SqliteOptions) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(options.busy_timeout)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "cache_size", -kibibytes(options.reader_cache))?;
        cache_statements(&connection)?;
        trace_statements(&mut connection)?;
        Ok(connection)
    };
    open().map_err(|error| open_error(&error, &path.display().to_string()))
}

/// Opens the checkpointer's connection, and the database as a file, which it syncs.
pub(super) fn open_checkpointer(path: &Path) -> Result<(Connection, File), StoreError> {
    let connection = open_shared(path)?;
    // A checkpoint copies pages from file to file without the page cache.
    let set = connection.pragma_update(None, "cache_size", 8);
    set.map_err(|error| open_error(&error, &path.display().to_string()))?;
    // Some systems only sync files opened for writing.
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|error| StoreError::Unavailable(error.to_string()))?;
    Ok((connection, file))
}

/// Returns true if the file is an Interzone database of this version. Writes nothing.
///
/// # Errors
/// The file belongs to another program, or to a newer version.
pub(super) fn is_current_schema(path: &Path) -> Result<bool, StoreError> {
    let path = canonical_path(path)?;
    if !path.exists() {
        return Ok(false);
    }
    let version = schema::read_version(&open_with_busy_wait(&path)?, &path.display().to_string())?;
    Ok(version == schema::newest_version())
}

/// Opens a connection for short writes to a database that is already open, in this or another process.
pub(super) fn open_shared(path: &Path) -> Result<Connection, StoreError> {
    let path = canonical_path(path)?;
    let display_path = path.display().to_string();
    let connection = open_with_busy_wait(&path)?;
    schema::read_version(&connection, &display_path)?;
    let set = || -> rusqlite::Result<()> {
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        // Only the process that owns the file checkpoints.
        connection
            .pragma_update_and_check(None, "wal_autocheckpoint", 0, |row| row.get::<_, i64>(0))?;
        Ok(())
    };
    set().map_err(|error| open_error(&error, &display_path))?;
    Ok(connection)
}

/// Opens a connection with a busy handler that waits up to about 20 seconds.
pub(super) fn open_with_busy_wait(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || -> rusqlite::Result<Connection> {
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_handler(Some(busy_wait))?;
        Ok(connection)
    };
    open().map_err(|error| open_error(&error, &path.display().to_string()))
}

/// Busy handler: waits a millisecond before the next attempt. A busy server leaves only short gaps between its writes,
/// which longer waits would miss.
#[expect(
    clippy::disallowed_methods,
    reason = "SQLite calls the busy handler on the waiting thread, which has no other work"
)]
fn busy_wait(attempts: i32) -> bool {
    std::thread::sleep(std::time::Duration::from_millis(1));
    attempts < 20_000
}

/// Records a clean shutdown.
pub(super) fn mark_clean(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch("UPDATE meta SET value = 1 WHERE name = 'clean'")
}

/// Maps an error of opening a database to what is wrong and what to do.
pub(super) fn open_error(error: &rusqlite::Error, path: &str) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => read_only_error(path),
        Some(ErrorCode::CannotOpen) => StoreError::Unusable(format!(
            "{path} cannot be opened: check that its directory exists and is writable"
        )),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => in_use_error(path),
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Unusable(format!(
            "{path} is damaged: restore it from a backup, or move it away to start empty"
        )),
        _ => StoreError::Unavailable(format!("{path}: {error}")),
    }
}

/// Resolves links and `..`, so that one file has one lock.
fn canonical_path(path: &Path) -> Result<PathBuf, StoreError> {
    let display_path = path.display();
    let name = path.file_name().ok_or_else(|| {
        StoreError::Unusable(format!(
            "{display_path} is not a file path: give a file name"
        ))
    })?;
    match path.canonicalize() {
        Ok(path) => return Ok(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(StoreError::Unusable(format!("{display_path}: {error}"))),
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let folder = folder.canonicalize().map_err(|error| {
        StoreError::Unusable(format!(
            "the directory of {display_path} cannot be opened ({error}): create it first"
        ))
    })?;
    Ok(folder.join(name))
}

/// Creates a new database file that only its owner can read: it holds user content and keys. SQLite gives its
/// WAL the same permissions. An existing file keeps its permissions.
fn create_private(path: &Path) {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // If it cannot be created, SQLite will report why.
    drop(options.open(path));
}

pub(super) fn in_use_error(path: &str) -> StoreError {
    StoreError::Unusable(format!(
        "{path} is in use by another process: stop that process, choose another file, or use PostgreSQL, \
         which several processes can share"
    ))
}

fn read_only_error(path: &str) -> StoreError {
    StoreError::Unusable(format!(
        "{path} is read-only: allow this process to write the file and its directory"
    ))
}

/// Configures the writer's connection.
fn configure_writer(
    connection: &Connection,
    options: &SqliteOptions,
    is_new: bool,
    path: &str,
) -> Result<(), StoreError> {
    let set = || -> rusqlite::Result<String> {
        if is_new {
            // No sync is needed: the header of a new file becomes durable with the change to WAL mode.
            connection.pragma_update(None, "synchronous", "OFF")?;
            // Both must be set before the first table.
            connection.pragma_update(None, "page_size", 4096)?;
            connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        }
        connection.pragma_update(None, "synchronous", "FULL")?;
        let mode = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0))?;
        // On macOS a plain fsync only reaches the drive's cache.
        connection.pragma_update(None, "fullfsync", true)?;
        connection.pragma_update(None, "foreign_keys", false)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        connection.pragma_update(None, "cache_size", -kibibytes(options.writer_cache))?;
        // The writer's checkpoint policy decides when to checkpoint.
        connection
            .pragma_update_and_check(None, "wal_autocheckpoint", 0, |row| row.get::<_, i64>(0))?;
        // A WAL that was once long is truncated.
        connection.pragma_update_and_check(None, "journal_size_limit", 64 << 20, |row| {
            row.get::<_, i64>(0)
        })?;
        connection.pragma_update(None, "trusted_schema", false)?;
        cache_statements(connection)?;
        Ok(mode)
    };
    match set() {
        Ok(mode) if mode.eq_ignore_ascii_case("wal") => Ok(()),
        Ok(_) => Err(StoreError::Unusable(format!(
            "{path} cannot have a write-ahead log on this file system: put it on a local disk"
        ))),
        Err(error) => Err(open_error(&error, path)),
    }
}

/// Removes the statistics of `ANALYZE`. Earlier versions collected them, even from tables with a single row, and the
/// planner then chooses full scans however large the tables become. Without statistics, a plan depends only on the
/// schema.
fn drop_statistics(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'sqlite\\_stat_' ESCAPE '\\'";
    let mut statement = connection.prepare(sql)?;
    let tables: Vec<String> = statement
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    for table in tables {
        // The schema change makes every connection drop its loaded statistics.
        connection.execute_batch(&format!("DROP TABLE {table}"))?;
    }
    Ok(())
}

/// Reports executed statements to a test's observer, if there is one.
fn trace_statements(connection: &mut Connection) -> rusqlite::Result<()> {
    let Some(observer) = statements::observer() else {
        return Ok(());
    };
    let trace = move |event: TraceEvent<'_>| {
        if let TraceEvent::Stmt(statement, _) = event {
            observer(&statement.sql());
        }
    };
    connection.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(trace))
}

/// Configures the cache of prepared statements. Without the query planner stability guarantee (QPSG), SQLite plans by
/// the value bound to `LIMIT` and prepares the statement again whenever a value is bound. That happens for each claim
/// and each page of a log or list, and costs several times as much as running the statement.
fn cache_statements(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE_CAPACITY);
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
    tracing::info!(path, "checking database integrity");
    let result = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match result {
        Ok(answer) if answer == "ok" => Ok(()),
        Ok(damage) => Err(StoreError::Unusable(format!(
            "{path} is damaged ({damage}): restore it from a backup, or move it away to start empty"
        ))),
        Err(error) => Err(open_error(&error, path)),
    }
}

/// Syncs the directory, which makes the name of a new file durable.
fn sync_directory(path: &Path) {
    let synced = path.parent().map(|folder| File::open(folder)?.sync_all());
    if let Some(Err(error)) = synced {
        // Systems that cannot sync directories make the name durable without it.
        tracing::debug!(%error, "database directory not synced");
    }
}

fn load_counters(connection: &Connection) -> rusqlite::Result<Counters> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get(0));
    Ok(Counters {
        claims: number("SELECT value FROM meta WHERE name = 'last_claim'")?,
        position: number(work_queue::LAST_POSITION)?,
        claimed_turns: work_queue::load_claimed_turns(connection)?,
        epoch: None,
    })
}
