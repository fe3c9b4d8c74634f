//! Compares SQLite with buffered WAL writes to SQLite without: results, and file contents at each commit.

#![cfg(test)]

use proptest::prelude::{Strategy, any, prop, prop_oneof, proptest};
use proptest::test_runner::Config;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use tempfile::TempDir;

/// A connection configured like the store's writer. Its page cache is so small that pages spill during transactions.
fn open_writer(path: &Path, buffered: bool) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match buffered {
        true => {
            let vfs = interzone_wal::register_vfs().unwrap();
            Connection::open_with_flags_and_vfs(path, flags, vfs).unwrap()
        }
        false => Connection::open_with_flags(path, flags).unwrap(),
    };
    set_pragma(&connection, "journal_mode", "WAL");
    set_pragma(&connection, "synchronous", "FULL");
    set_pragma(&connection, "cache_size", "8");
    set_pragma(&connection, "wal_autocheckpoint", "0");
    connection
}

fn set_pragma(connection: &Connection, name: &str, value: &str) {
    let sql = format!("PRAGMA {name} = {value}");
    let mut statement = connection.prepare(&sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    while rows.next().unwrap().is_some() {}
}

fn open_reader(path: &Path) -> Connection {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

fn rows(connection: &Connection) -> Vec<(i64, Vec<u8>)> {
    let sql = "SELECT id, body FROM t ORDER BY id";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

fn assert_integrity(connection: &Connection) {
    let report: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(report, "ok");
}

/// Opens a copy of the files as found after a process kill.
fn open_copy_after_kill(path: &Path) -> (TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.db");
    std::fs::copy(path, &copy).unwrap();
    std::fs::copy(
        path_with_suffix(path, "-wal"),
        path_with_suffix(&copy, "-wal"),
    )
    .unwrap();
    let connection = Connection::open(&copy).unwrap();
    (folder, connection)
}

fn path_with_suffix(path: &Path, suffix: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Commits like the store's writer.
fn commit(connection: &Connection) {
    let _batch = interzone_wal::begin_batch();
    connection.execute_batch("COMMIT").unwrap();
}

/// Inserts and commits a row.
fn insert_and_commit(connection: &Connection, id: i64, body: Vec<u8>) {
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection.execute(UPSERT, (id, body)).unwrap();
    commit(connection);
}

const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB NOT NULL)";
const UPSERT: &str =
    "INSERT INTO t VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET body = excluded.body";

#[derive(Clone, Debug)]
enum Operation {
    Put(i64, usize),
    Remove(i64),
    Savepoint,
    UndoSavepoint,
    Commit,
    Rollback,
    /// Checkpoints the WAL and restarts it.
    Checkpoint,
    /// Closes and reopens the writer.
    Reopen,
    /// Another connection writes through the default VFS.
    ForeignWrite(i64),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let step = prop_oneof![
        8 => (0..60_i64, 0..40_000_usize).prop_map(|(id, length)| Operation::Put(id, length)),
        2 => (0..60_i64).prop_map(Operation::Remove),
        1 => any::<bool>().prop_map(|_| Operation::Savepoint),
        1 => any::<bool>().prop_map(|_| Operation::UndoSavepoint),
        3 => any::<bool>().prop_map(|_| Operation::Commit),
        1 => any::<bool>().prop_map(|_| Operation::Rollback),
        1 => any::<bool>().prop_map(|_| Operation::Checkpoint),
        1 => any::<bool>().prop_map(|_| Operation::Reopen),
        2 => (60..90_i64).prop_map(Operation::ForeignWrite),
    ];
    prop::collection::vec(step, 1..60)
}

/// Executes operations on a connection.
struct TestWriter {
    connection: Option<Connection>,
    path: std::path::PathBuf,
    buffered: bool,
    has_savepoint: bool,
}

impl TestWriter {
    fn new(path: &Path, buffered: bool) -> Self {
        let connection = open_writer(path, buffered);
        connection.execute_batch(TABLE).unwrap();
        Self {
            connection: Some(connection),
            path: path.to_owned(),
            buffered,
            has_savepoint: false,
        }
    }

    fn connection(&self) -> &Connection {
        self.connection.as_ref().unwrap()
    }

    /// Executes an operation. Returns true if it committed.
    fn execute(&mut self, operation: &Operation) -> bool {
        let in_transaction = !self.connection().is_autocommit();
        let run = |sql: &str| self.connection().execute_batch(sql).unwrap();
        match operation {
            Operation::Put(id, length) => {
                if !in_transaction {
                    run("BEGIN IMMEDIATE");
                }
                let body = vec![u8::try_from(*id).unwrap(); *length];
                let put = self.connection().execute(UPSERT, (id, body));
                assert_eq!(put.unwrap(), 1);
            }
            Operation::Remove(id) if in_transaction => {
                let removed = self
                    .connection()
                    .execute("DELETE FROM t WHERE id = ?1", [id]);
                removed.unwrap();
            }
            Operation::Savepoint if in_transaction && !self.has_savepoint => {
                run("SAVEPOINT s");
                self.has_savepoint = true;
            }
            Operation::UndoSavepoint if self.has_savepoint => run("ROLLBACK TO s"),
            Operation::Commit if in_transaction => {
                commit(self.connection());
                self.has_savepoint = false;
                return true;
            }
            Operation::Rollback if in_transaction => {
                run("ROLLBACK");
                self.has_savepoint = false;
            }
            Operation::Checkpoint if !in_transaction => run("PRAGMA wal_checkpoint(RESTART)"),
            Operation::Reopen if !in_transaction => {
                drop(self.connection.take());
                self.connection = Some(open_writer(&self.path, self.buffered));
            }
            Operation::ForeignWrite(id) if !in_transaction => {
                let other = open_writer(&self.path, false);
                assert_eq!(other.execute(UPSERT, (id, vec![9_u8; 500])).unwrap(), 1);
                return true;
            }
            _ => {}
        }
        false
    }
}

proptest! {
    #![proptest_config(Config::with_cases(48))]
    #[test]
    fn buffered_and_plain_writer_agree_and_commits_are_durable(steps in operations()) {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one.db"), folder.path().join("other.db"));
        let (mut buffered, mut plain) = (TestWriter::new(&one, true), TestWriter::new(&other, false));
        let reader = open_reader(&one);
        for step in &steps {
            let committed = buffered.execute(step);
            assert_eq!(committed, plain.execute(step));
            if committed {
                let expected = rows(plain.connection());
                // The same connection, a long-lived reader, and a reader after a kill.
                assert_eq!(rows(buffered.connection()), expected);
                assert_eq!(rows(&reader), expected);
                let (_folder, after) = open_copy_after_kill(&one);
                assert_eq!(rows(&after), expected);
            }
        }
        drop(reader);
        for writer in [&buffered, &plain] {
            if !writer.connection().is_autocommit() {
                writer.connection().execute_batch("ROLLBACK").unwrap();
            }
            assert_integrity(writer.connection());
        }
        assert_eq!(rows(buffered.connection()), rows(plain.connection()));
    }
}

#[test]
fn uncommitted_writes_are_invisible_and_lost_after_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.db");
    let connection = open_writer(&path, true);
    connection.execute_batch(TABLE).unwrap();
    insert_and_commit(&connection, 1, vec![1_u8; 10]);
    connection.execute_batch("BEGIN").unwrap();
    // Enough to spill most of it from the page cache to the WAL.
    for id in 2..200 {
        connection.execute(UPSERT, (id, vec![2_u8; 9_000])).unwrap();
    }
    assert_eq!(rows(&open_reader(&path)).len(), 1);
    let (_folder, after) = open_copy_after_kill(&path);
    assert_eq!(rows(&after).len(), 1);
    assert_integrity(&after);
    assert_eq!(rows(&connection).len(), 199);
    // Spilled pages are written directly.
    let wal_length = std::fs::metadata(path_with_suffix(&path, "-wal"))
        .unwrap()
        .len();
    assert!(wal_length > 198 * 8_192, "{wal_length}");
    commit(&connection);
    assert_eq!(rows(&open_reader(&path)).len(), 199);
}

#[test]
fn rolled_back_writes_do_not_overwrite_later_commits() {
    for buffer_before_commit in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.db");
        let connection = open_writer(&path, true);
        connection.execute_batch(TABLE).unwrap();
        for id in 0..30 {
            insert_and_commit(&connection, id, vec![1_u8; 3_000]);
        }
        set_pragma(&connection, "wal_checkpoint", "TRUNCATE");
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        for id in 0..16 {
            // As if a commit had failed with buffered bytes. The first page syncs the WAL header before.
            let _batch = (buffer_before_commit && id > 8).then(interzone_wal::begin_batch);
            connection.execute(UPSERT, (id, vec![2_u8; 3_000])).unwrap();
        }
        connection.execute_batch("ROLLBACK").unwrap();
        let other = open_writer(&path, false);
        for id in 100..110 {
            other.execute(UPSERT, (id, vec![3_u8; 3_000])).unwrap();
        }
        insert_and_commit(&connection, 200, vec![4_u8; 3_000]);
        for opened in [
            &connection,
            &other,
            &open_reader(&path),
            &open_copy_after_kill(&path).1,
        ] {
            assert_integrity(opened);
            let rows = rows(opened);
            assert_eq!(rows.len(), 41);
            assert!(rows.iter().all(|(_, body)| body.first() != Some(&2)));
        }
        drop(connection);
        assert_integrity(&other);
    }
}

#[test]
fn commit_writes_nothing_before_its_sync() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.db");
    let connection = open_writer(&path, true);
    connection.execute_batch(TABLE).unwrap();
    set_pragma(&connection, "wal_checkpoint", "TRUNCATE");
    let wal_length = || {
        std::fs::metadata(path_with_suffix(&path, "-wal"))
            .unwrap()
            .len()
    };
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let batch = interzone_wal::begin_batch();
    // The WAL header is synced when the WAL restarts, which ends the buffering; so it is started again.
    while wal_length() == 0 {
        connection.execute(UPSERT, (0, vec![6_u8; 60_000])).unwrap();
    }
    drop(batch);
    let batch = interzone_wal::begin_batch();
    let start_length = wal_length();
    for id in 1..8 {
        connection.execute(UPSERT, (id, vec![6_u8; 3_000])).unwrap();
    }
    assert_eq!(wal_length(), start_length);
    connection.execute_batch("COMMIT").unwrap();
    drop(batch);
    assert!(wal_length() > start_length + 7 * 4_096);
    assert_eq!(rows(&open_copy_after_kill(&path).1).len(), 8);
}

#[test]
fn writes_after_a_sync_are_not_buffered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.db");
    // Without powersafe overwrite SQLite pads the WAL to the next sector.
    let uri = format!("file:{}?psow=0", path.display());
    let connection = open_writer(Path::new(&uri), true);
    connection.execute_batch(TABLE).unwrap();
    let reader = open_reader(&path);
    for id in 0..20 {
        insert_and_commit(&connection, id, vec![5_u8; 3_000]);
        assert_eq!(rows(&reader).len(), usize::try_from(id).unwrap() + 1);
    }
    assert_integrity(&open_copy_after_kill(&path).1);
}

#[test]
fn truncated_wal_keeps_every_commit_before_the_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.db");
    let connection = open_writer(&path, true);
    connection.execute_batch(TABLE).unwrap();
    let wal = path_with_suffix(&path, "-wal");
    // WAL length at each acknowledged commit.
    let mut acknowledged = Vec::new();
    for id in 0..40 {
        insert_and_commit(&connection, id, vec![3_u8; 300]);
        acknowledged.push(std::fs::metadata(&wal).unwrap().len());
    }
    let end = acknowledged.last().copied().unwrap();
    for cut in (acknowledged[0]..=end).step_by(1_013).chain([end]) {
        let copied = tempfile::tempdir().unwrap();
        let copy = copied.path().join("copy.db");
        std::fs::copy(&path, &copy).unwrap();
        let bytes = std::fs::read(&wal).unwrap();
        let until = usize::try_from(cut).unwrap();
        std::fs::write(path_with_suffix(&copy, "-wal"), &bytes[..until]).unwrap();
        let after = Connection::open(&copy).unwrap();
        let complete_commits = acknowledged.iter().filter(|length| **length <= cut);
        assert_eq!(rows(&after).len(), complete_commits.count(), "cut at {cut}");
        assert_integrity(&after);
    }
}

#[test]
fn other_journal_modes_and_page_sizes_work() {
    for (mode, size) in [
        ("DELETE", 4096),
        ("TRUNCATE", 512),
        ("WAL", 65_536),
        ("WAL", 512),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.db");
        let vfs = interzone_wal::register_vfs().unwrap();
        let connection =
            Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), vfs).unwrap();
        set_pragma(&connection, "page_size", &size.to_string());
        set_pragma(&connection, "journal_mode", mode);
        set_pragma(&connection, "synchronous", "FULL");
        connection.execute_batch(TABLE).unwrap();
        for id in 0..50 {
            insert_and_commit(&connection, id, vec![4_u8; 70_000]);
        }
        assert_eq!(rows(&open_reader(&path)).len(), 50, "{mode} {size}");
        assert_integrity(&connection);
        drop(connection);
        assert_integrity(&open_reader(&path));
    }
}

#[test]
fn missing_folder_fails_with_cannot_open() {
    let vfs = interzone_wal::register_vfs().unwrap();
    let path = Path::new("/nonexistent/it.db");
    let opened = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), vfs);
    let code = opened.unwrap_err().sqlite_error_code();
    assert_eq!(code, Some(rusqlite::ErrorCode::CannotOpen));
}

#[test]
fn threads_write_separate_databases_concurrently() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let path = folder.path().join(format!("{number}.db"));
            scope.spawn(move || {
                let connection = open_writer(&path, true);
                connection.execute_batch(TABLE).unwrap();
                for id in 0..100 {
                    insert_and_commit(&connection, id, vec![5_u8; 2_000]);
                }
                assert_eq!(rows(&open_reader(&path)).len(), 100);
                assert_integrity(&connection);
            });
        }
    });
}
