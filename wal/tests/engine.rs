//! The engine with its writes gathered, beside itself without: what it says, and what is in the file when it says it.

#![cfg(test)]

use proptest::prelude::{Strategy, any, prop, prop_oneof, proptest};
use proptest::test_runner::Config;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use tempfile::TempDir;

/// A connection that writes as the store's does. Its page cache is so small that pages leave it in mid-transaction.
fn writer(path: &Path, gathered: bool) -> Connection {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_CREATE
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match gathered {
        true => {
            let files = interzone_wal::gathered().unwrap();
            Connection::open_with_flags_and_vfs(path, flags, files).unwrap()
        }
        false => Connection::open_with_flags(path, flags).unwrap(),
    };
    set(&connection, "journal_mode", "WAL");
    set(&connection, "synchronous", "FULL");
    set(&connection, "cache_size", "8");
    set(&connection, "wal_autocheckpoint", "0");
    connection
}

fn set(connection: &Connection, name: &str, value: &str) {
    let sql = format!("PRAGMA {name} = {value}");
    let mut statement = connection.prepare(&sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    while rows.next().unwrap().is_some() {}
}

fn reader(path: &Path) -> Connection {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap()
}

fn rows(connection: &Connection) -> Vec<(i64, Vec<u8>)> {
    let sql = "SELECT id, body FROM t ORDER BY id";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    rows.unwrap().map(Result::unwrap).collect()
}

fn is_whole(connection: &Connection) {
    let found: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(found, "ok");
}

/// What is in the files now, as somebody finds it who starts after this process was killed.
fn as_after_a_kill(path: &Path) -> (TempDir, Connection) {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.db");
    std::fs::copy(path, &copy).unwrap();
    std::fs::copy(beside(path, "-wal"), beside(&copy, "-wal")).unwrap();
    let connection = Connection::open(&copy).unwrap();
    (folder, connection)
}

fn beside(path: &Path, end: &str) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Commits what was begun, as the store's writer does.
fn commit(connection: &Connection) {
    let _at_once = interzone_wal::commit();
    connection.execute_batch("COMMIT").unwrap();
}

/// Puts a row, and commits it.
fn put(connection: &Connection, id: i64, body: Vec<u8>) {
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection.execute(PUT, (id, body)).unwrap();
    commit(connection);
}

const TABLE: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB NOT NULL)";
const PUT: &str =
    "INSERT INTO t VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET body = excluded.body";

#[derive(Clone, Debug)]
enum Step {
    Put(i64, usize),
    Remove(i64),
    Savepoint,
    UndoSavepoint,
    Commit,
    Rollback,
    /// The log is copied, and begins anew.
    Copy,
    /// The writer leaves, and comes again.
    Reopen,
    /// Somebody else writes, by the engine's own ways.
    Other(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..60_i64, 0..40_000_usize).prop_map(|(id, length)| Step::Put(id, length)),
        2 => (0..60_i64).prop_map(Step::Remove),
        1 => any::<bool>().prop_map(|_| Step::Savepoint),
        1 => any::<bool>().prop_map(|_| Step::UndoSavepoint),
        3 => any::<bool>().prop_map(|_| Step::Commit),
        1 => any::<bool>().prop_map(|_| Step::Rollback),
        1 => any::<bool>().prop_map(|_| Step::Copy),
        1 => any::<bool>().prop_map(|_| Step::Reopen),
        2 => (60..90_i64).prop_map(Step::Other),
    ];
    prop::collection::vec(step, 1..60)
}

/// Does the same on a connection, whichever way it writes.
struct Doer {
    connection: Option<Connection>,
    path: std::path::PathBuf,
    gathered: bool,
    saved: bool,
}

impl Doer {
    fn new(path: &Path, gathered: bool) -> Self {
        let connection = writer(path, gathered);
        connection.execute_batch(TABLE).unwrap();
        Self {
            connection: Some(connection),
            path: path.to_owned(),
            gathered,
            saved: false,
        }
    }

    fn connection(&self) -> &Connection {
        self.connection.as_ref().unwrap()
    }

    /// Answers whether something was committed.
    fn does(&mut self, step: &Step) -> bool {
        let begun = !self.connection().is_autocommit();
        let say = |sql: &str| self.connection().execute_batch(sql).unwrap();
        match step {
            Step::Put(id, length) => {
                if !begun {
                    say("BEGIN IMMEDIATE");
                }
                let body = vec![u8::try_from(*id).unwrap(); *length];
                let put = self.connection().execute(PUT, (id, body));
                assert_eq!(put.unwrap(), 1);
            }
            Step::Remove(id) if begun => {
                let removed = self
                    .connection()
                    .execute("DELETE FROM t WHERE id = ?1", [id]);
                removed.unwrap();
            }
            Step::Savepoint if begun && !self.saved => {
                say("SAVEPOINT s");
                self.saved = true;
            }
            Step::UndoSavepoint if self.saved => say("ROLLBACK TO s"),
            Step::Commit if begun => {
                commit(self.connection());
                self.saved = false;
                return true;
            }
            Step::Rollback if begun => {
                say("ROLLBACK");
                self.saved = false;
            }
            Step::Copy if !begun => say("PRAGMA wal_checkpoint(RESTART)"),
            Step::Reopen if !begun => {
                drop(self.connection.take());
                self.connection = Some(writer(&self.path, self.gathered));
            }
            Step::Other(id) if !begun => {
                let other = writer(&self.path, false);
                assert_eq!(other.execute(PUT, (id, vec![9_u8; 500])).unwrap(), 1);
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
    fn says_the_same_and_has_every_commit_in_its_files(steps in steps()) {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one.db"), folder.path().join("other.db"));
        let (mut gathered, mut plain) = (Doer::new(&one, true), Doer::new(&other, false));
        let watching = reader(&one);
        for step in &steps {
            let committed = gathered.does(step);
            assert_eq!(committed, plain.does(step));
            if committed {
                let expected = rows(plain.connection());
                // Its own connection, another that has been there all along, and whoever comes after a kill.
                assert_eq!(rows(gathered.connection()), expected);
                assert_eq!(rows(&watching), expected);
                let (_folder, after) = as_after_a_kill(&one);
                assert_eq!(rows(&after), expected);
            }
        }
        drop(watching);
        for doer in [&gathered, &plain] {
            if !doer.connection().is_autocommit() {
                doer.connection().execute_batch("ROLLBACK").unwrap();
            }
            is_whole(doer.connection());
        }
        assert_eq!(rows(gathered.connection()), rows(plain.connection()));
    }
}

#[test]
fn what_is_not_committed_is_seen_by_nobody_and_gone_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.db");
    let connection = writer(&path, true);
    connection.execute_batch(TABLE).unwrap();
    put(&connection, 1, vec![1_u8; 10]);
    connection.execute_batch("BEGIN").unwrap();
    // So much that most of it has left the page cache for the log.
    for id in 2..200 {
        connection.execute(PUT, (id, vec![2_u8; 9_000])).unwrap();
    }
    assert_eq!(rows(&reader(&path)).len(), 1);
    let (_folder, after) = as_after_a_kill(&path);
    assert_eq!(rows(&after).len(), 1);
    is_whole(&after);
    assert_eq!(rows(&connection).len(), 199);
    // What the page cache had no room for went out as it came.
    let log = std::fs::metadata(beside(&path, "-wal")).unwrap().len();
    assert!(log > 198 * 8_192, "{log}");
    commit(&connection);
    assert_eq!(rows(&reader(&path)).len(), 199);
}

#[test]
fn what_was_undone_never_comes_over_what_others_wrote_since() {
    for gathered_too_soon in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.db");
        let connection = writer(&path, true);
        connection.execute_batch(TABLE).unwrap();
        for id in 0..30 {
            put(&connection, id, vec![1_u8; 3_000]);
        }
        set(&connection, "wal_checkpoint", "TRUNCATE");
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        for id in 0..16 {
            // As if a commit had failed with some of it kept back. The first page syncs the head of the log before.
            let _committing = (gathered_too_soon && id > 8).then(interzone_wal::commit);
            connection.execute(PUT, (id, vec![2_u8; 3_000])).unwrap();
        }
        connection.execute_batch("ROLLBACK").unwrap();
        let other = writer(&path, false);
        for id in 100..110 {
            other.execute(PUT, (id, vec![3_u8; 3_000])).unwrap();
        }
        put(&connection, 200, vec![4_u8; 3_000]);
        for found in [
            &connection,
            &other,
            &reader(&path),
            &as_after_a_kill(&path).1,
        ] {
            is_whole(found);
            let rows = rows(found);
            assert_eq!(rows.len(), 41);
            assert!(rows.iter().all(|(_, body)| body.first() != Some(&2)));
        }
        drop(connection);
        is_whole(&other);
    }
}

#[test]
fn in_a_commit_nothing_reaches_the_file_before_its_sync() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.db");
    let connection = writer(&path, true);
    connection.execute_batch(TABLE).unwrap();
    set(&connection, "wal_checkpoint", "TRUNCATE");
    let length = || std::fs::metadata(beside(&path, "-wal")).unwrap().len();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let committing = interzone_wal::commit();
    // The log's head is synced when it begins anew, which ends the gathering; so it is begun again.
    while length() == 0 {
        connection.execute(PUT, (0, vec![6_u8; 60_000])).unwrap();
    }
    drop(committing);
    let committing = interzone_wal::commit();
    let begun = length();
    for id in 1..8 {
        connection.execute(PUT, (id, vec![6_u8; 3_000])).unwrap();
    }
    assert_eq!(length(), begun);
    connection.execute_batch("COMMIT").unwrap();
    drop(committing);
    assert!(length() > begun + 7 * 4_096);
    assert_eq!(rows(&as_after_a_kill(&path).1).len(), 8);
}

#[test]
fn where_the_engine_writes_on_after_a_sync_nothing_is_kept_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.db");
    // On a disk that may tear what lies beside a write, the log is filled up to the next sector.
    let careful = format!("file:{}?psow=0", path.display());
    let connection = writer(Path::new(&careful), true);
    connection.execute_batch(TABLE).unwrap();
    let watching = reader(&path);
    for id in 0..20 {
        put(&connection, id, vec![5_u8; 3_000]);
        assert_eq!(rows(&watching).len(), usize::try_from(id).unwrap() + 1);
    }
    is_whole(&as_after_a_kill(&path).1);
}

#[test]
fn a_log_that_is_cut_off_anywhere_keeps_every_commit_before_the_cut() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it.db");
    let connection = writer(&path, true);
    connection.execute_batch(TABLE).unwrap();
    let log = beside(&path, "-wal");
    // How long the log was when each of them was acknowledged.
    let mut acknowledged = Vec::new();
    for id in 0..40 {
        put(&connection, id, vec![3_u8; 300]);
        acknowledged.push(std::fs::metadata(&log).unwrap().len());
    }
    let end = acknowledged.last().copied().unwrap();
    for cut in (acknowledged[0]..=end).step_by(1_013).chain([end]) {
        let copied = tempfile::tempdir().unwrap();
        let copy = copied.path().join("copy.db");
        std::fs::copy(&path, &copy).unwrap();
        let bytes = std::fs::read(&log).unwrap();
        let until = usize::try_from(cut).unwrap();
        std::fs::write(beside(&copy, "-wal"), &bytes[..until]).unwrap();
        let after = Connection::open(&copy).unwrap();
        let whole = acknowledged.iter().filter(|length| **length <= cut);
        assert_eq!(rows(&after).len(), whole.count(), "cut at {cut}");
        is_whole(&after);
    }
}

#[test]
fn other_journals_and_larger_pages_are_as_they_were() {
    for (mode, size) in [
        ("DELETE", 4096),
        ("TRUNCATE", 512),
        ("WAL", 65_536),
        ("WAL", 512),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("it.db");
        let files = interzone_wal::gathered().unwrap();
        let connection =
            Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), files).unwrap();
        set(&connection, "page_size", &size.to_string());
        set(&connection, "journal_mode", mode);
        set(&connection, "synchronous", "FULL");
        connection.execute_batch(TABLE).unwrap();
        for id in 0..50 {
            put(&connection, id, vec![4_u8; 70_000]);
        }
        assert_eq!(rows(&reader(&path)).len(), 50, "{mode} {size}");
        is_whole(&connection);
        drop(connection);
        is_whole(&reader(&path));
    }
}

#[test]
fn a_folder_that_is_not_there_is_refused_as_ever() {
    let files = interzone_wal::gathered().unwrap();
    let path = Path::new("/nonexistent/it.db");
    let refused = Connection::open_with_flags_and_vfs(path, OpenFlags::default(), files);
    let code = refused.unwrap_err().sqlite_error_code();
    assert_eq!(code, Some(rusqlite::ErrorCode::CannotOpen));
}

#[test]
fn many_threads_have_a_name_and_a_log_each() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let path = folder.path().join(format!("{number}.db"));
            scope.spawn(move || {
                let connection = writer(&path, true);
                connection.execute_batch(TABLE).unwrap();
                for id in 0..100 {
                    put(&connection, id, vec![5_u8; 2_000]);
                }
                assert_eq!(rows(&reader(&path)).len(), 100);
                is_whole(&connection);
            });
        }
    });
}
