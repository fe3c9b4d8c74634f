//! Tests of the checkpoint policy: which thread checkpoints, when the WAL restarts, and failed
//! checkpoints.

use super::{
    CHANGES_BETWEEN_CHECKS, CHECKPOINT_RETRY_PAGES, CheckpointPolicy, Checkpointer, LONG_WAL_PAGES,
    MAX_WRITER_CHECKPOINT_PAGES, SHORT_WAL_PAGES, TOO_LONG_WAL_PAGES, read_wal_lengths,
};
use crate::sqlite::SqliteOptions;
use crate::sqlite::disk_failure::DiskHealth;
use crate::sqlite::error::SqliteError;
use crate::sqlite::open;
use crate::sqlite::tests::TempFolder;
use crate::sqlite::writer::checkpointer::checkpoint;
use interzone_hub::ports::StoreError;
use rusqlite::{Connection, OpenFlags};
use std::fs::File;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Pages that one step writes, and that plus some overhead.
const STEP_PAGES: i64 = 40;
const MAX_STEP_PAGES: i64 = STEP_PAGES + 10;

/// A database with a checkpoint policy but without a writer loop. The connection is dropped
/// first, the lock last.
struct PolicyHarness {
    connection: Connection,
    policy: CheckpointPolicy,
    _lock: crate::sqlite::lock::StoreLock,
}

impl PolicyHarness {
    fn new(folder: &TempFolder) -> Self {
        Self::with_connection(folder, |copier| copier)
    }

    fn with_connection(
        folder: &TempFolder,
        change: impl FnOnce((Connection, File)) -> (Connection, File),
    ) -> Self {
        Self::with_checkpointer(folder, |copier| {
            let (connection, file) = change(copier);
            Checkpointer::start(connection, file)
        })
    }

    fn with_checkpointer(
        folder: &TempFolder,
        start: impl FnOnce((Connection, File)) -> Result<Checkpointer, StoreError>,
    ) -> Self {
        let options = SqliteOptions::default();
        let opened = open::open(&folder.database_path(), &options)
            .unwrap()
            .unwrap();
        let checkpointer = start(open::open_checkpointer(&opened.path).unwrap()).unwrap();
        let connection = opened.connection;
        connection
            .execute_batch("CREATE TABLE ballast (x); INSERT INTO ballast VALUES (NULL)")
            .unwrap();
        let mut policy = CheckpointPolicy::new(checkpointer, DiskHealth::new(&opened.path));
        policy.checkpoint(&connection);
        Self {
            connection,
            policy,
            _lock: opened.lock,
        }
    }

    /// Writes the same pages once more.
    fn write(&self) {
        let bytes = STEP_PAGES * 4096;
        let sql = "UPDATE ballast SET x = randomblob(?1)";
        assert_eq!(self.connection.execute(sql, [bytes]).unwrap(), 1);
    }

    /// Writes and applies the policy, as a group does. The checkpointer runs concurrently.
    fn step(&mut self) {
        self.write();
        self.policy.record_growth(CHANGES_BETWEEN_CHECKS);
        self.policy.maybe_checkpoint(&self.connection);
    }

    fn wal_pages(&self) -> i64 {
        read_wal_lengths(&self.connection).unwrap().wal
    }

    fn uncheckpointed_pages(&self) -> i64 {
        let lengths = read_wal_lengths(&self.connection).unwrap();
        lengths.wal - lengths.checkpointed
    }

    /// Steps until a background checkpoint has been requested.
    fn step_until_requested(&mut self) {
        for _ in 0..2 * SHORT_WAL_PAGES / STEP_PAGES {
            self.step();
            if self.policy.checkpointer.is_running() {
                return;
            }
        }
        panic!("no checkpoint was requested: {} pages", self.wal_pages());
    }

    /// Waits for the checkpointer and handles its result.
    fn wait_for_result(&mut self) {
        let result = self.policy.checkpointer.wait();
        assert!(result.is_some());
        self.policy.on_result(result, &self.connection);
    }
}

#[test]
fn long_wal_is_checkpointed_in_background() {
    let folder = TempFolder::new();
    // The checkpointer starts only when allowed. A writer that waited for it would time out.
    let (allow, allowed) = sync_channel(1);
    let mut harness = PolicyHarness::with_checkpointer(&folder, |(connection, file)| {
        Checkpointer::start_with(file, move |file| {
            allowed.recv_timeout(Duration::from_secs(10)).unwrap();
            checkpoint(&connection, file)
        })
    });
    harness.step_until_requested();
    let requested_at = harness.wal_pages();
    assert!((SHORT_WAL_PAGES..SHORT_WAL_PAGES + MAX_STEP_PAGES).contains(&requested_at));
    // The writer neither waits nor checkpoints.
    harness.write();
    assert!(harness.wal_pages() > requested_at);
    assert_eq!(harness.uncheckpointed_pages(), harness.wal_pages());
    allow.send(()).unwrap();
    harness.wait_for_result();
    assert_eq!(harness.uncheckpointed_pages(), 0);
}

#[test]
fn long_wal_restarts() {
    let folder = TempFolder::new();
    let mut harness = PolicyHarness::new(&folder);
    let (mut restarts, mut before, mut longest) = (0, 0, 0);
    for _ in 0..250 {
        harness.step();
        // Simulates a checkpointer that is as fast as possible.
        let result = harness.policy.checkpointer.wait();
        harness.policy.on_result(result, &harness.connection);
        let now = harness.wal_pages();
        restarts += usize::from(now < before);
        (before, longest) = (now, longest.max(now));
    }
    // 10,000 pages are written, and 1,000 make the WAL of so small a database long.
    assert!(restarts >= 7, "{restarts}");
    assert!(
        longest <= SHORT_WAL_PAGES + MAX_WRITER_CHECKPOINT_PAGES + 2 * MAX_STEP_PAGES,
        "{longest}"
    );
    assert!(harness.policy.block_reason.is_none());
}

#[test]
fn writer_helps_a_slow_checkpointer() {
    let folder = TempFolder::new();
    let mut harness = PolicyHarness::new(&folder);
    // As long as a reader holds an old snapshot, later pages cannot be checkpointed.
    let reader = open::open_reader(&folder.database_path(), &SqliteOptions::default()).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM ballast")
        .unwrap();
    let mut reader = Some(reader);
    harness.step_until_requested();
    // The result is not polled, as if the checkpoint were still running.
    let mut before = harness.wal_pages();
    for _ in 0..2 * TOO_LONG_WAL_PAGES / STEP_PAGES {
        if before >= TOO_LONG_WAL_PAGES - 2 * MAX_STEP_PAGES {
            drop(reader.take());
        }
        harness.write();
        let lengths = read_wal_lengths(&harness.connection).unwrap();
        harness
            .policy
            .limit_wal_length(&harness.connection, &lengths);
        let now = harness.wal_pages();
        if now < before {
            assert!(before >= TOO_LONG_WAL_PAGES, "{before}");
            return;
        }
        before = now;
        assert!(now <= TOO_LONG_WAL_PAGES + MAX_STEP_PAGES, "{now}");
    }
    panic!("the WAL never restarted: {before} pages");
}

#[test]
fn reader_delays_wal_restart_while_it_reads() {
    let folder = TempFolder::new();
    let mut harness = PolicyHarness::new(&folder);
    harness.step();
    let reader = open::open_reader(&folder.database_path(), &SqliteOptions::default()).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM ballast")
        .unwrap();
    for _ in 0..100 {
        harness.step();
    }
    assert!(harness.wal_pages() >= 100 * STEP_PAGES);
    reader.execute_batch("COMMIT").unwrap();
    let long = harness.wal_pages();
    for _ in 0..(2 * CHECKPOINT_RETRY_PAGES + 2 * MAX_WRITER_CHECKPOINT_PAGES) / STEP_PAGES {
        harness.step();
        let result = harness.policy.checkpointer.wait();
        harness.policy.on_result(result, &harness.connection);
    }
    assert!(
        harness.wal_pages() < long,
        "{} of {long}",
        harness.wal_pages()
    );
}

#[test]
fn idle_checkpoint_leaves_nothing() {
    let folder = TempFolder::new();
    let mut harness = PolicyHarness::new(&folder);
    harness.step_until_requested();
    assert!(!harness.policy.is_checkpointed());
    // The background checkpoint may be running: both complete.
    harness.policy.checkpoint_idle(&harness.connection);
    assert!(harness.policy.is_checkpointed());
    assert_eq!(harness.uncheckpointed_pages(), 0);
    assert!(!harness.policy.checkpointer.is_running());
    harness.step();
    assert!(
        harness.wal_pages() <= MAX_STEP_PAGES,
        "{}",
        harness.wal_pages()
    );
    assert!(!harness.policy.is_checkpointed());
}

#[test]
fn failed_checkpoint_blocks_writes() {
    let folder = TempFolder::new();
    let file = folder.database_path();
    let read_only = || Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let mut harness =
        PolicyHarness::with_connection(&folder, |(_, file)| (read_only().unwrap(), file));
    harness.step_until_requested();
    harness.wait_for_result();
    assert!(matches!(
        harness.policy.block_reason,
        Some(StoreError::Unavailable(_))
    ));
    // The writer retries the checkpoint before it rejects writes.
    harness.write();
    let blocked = harness.policy.check_blocked(&read_only().unwrap());
    assert!(matches!(blocked, Some(StoreError::Unavailable(_))));
    assert!(harness.policy.check_blocked(&harness.connection).is_none());
    assert_eq!(harness.uncheckpointed_pages(), 0);
}

#[cfg(unix)]
#[test]
fn failed_checkpoint_sync_keeps_wal() {
    let folder = TempFolder::new();
    // Accepts writes and cannot be synced.
    let null = File::open("/dev/null").unwrap();
    let mut harness = PolicyHarness::with_connection(&folder, |(connection, _)| (connection, null));
    harness.step_until_requested();
    harness.wait_for_result();
    for _ in 0..2 {
        let blocked = harness.policy.check_blocked(&harness.connection);
        assert!(matches!(blocked, Some(StoreError::Unavailable(_))));
    }
    let long = harness.wal_pages();
    assert!(!harness.policy.stop_checkpointer(&harness.connection));
    harness.policy.keep_wal_on_close(&harness.connection);
    drop(harness);
    // All of it is checkpointed once more.
    let opened = open::open(&folder.database_path(), &SqliteOptions::default())
        .unwrap()
        .unwrap();
    let lengths = read_wal_lengths(&opened.connection).unwrap();
    assert_eq!(lengths.checkpointed, 0);
    assert!(lengths.wal >= long);
}

/// An error of SQLite as it comes from a commit or a checkpoint.
fn sqlite_failure(extended_code: i32) -> SqliteError {
    let code = rusqlite::ffi::Error::new(extended_code);
    SqliteError::Engine(rusqlite::Error::SqliteFailure(code, None))
}

#[test]
fn failed_commit_sync_stops_writes_and_checkpoints() {
    let folder = TempFolder::new();
    let mut harness = PolicyHarness::new(&folder);
    harness.step();
    let before = harness.uncheckpointed_pages();
    assert!(before > 0);
    harness.policy.record_error(
        &sqlite_failure(rusqlite::ffi::SQLITE_IOERR_FSYNC),
        &harness.connection,
    );
    let blocked = harness.policy.check_blocked(&harness.connection);
    assert!(matches!(blocked, Some(StoreError::Unavailable(_))));
    // Neither while idle nor at shutdown.
    harness.policy.checkpoint_idle(&harness.connection);
    assert!(!harness.policy.stop_checkpointer(&harness.connection));
    harness.policy.keep_wal_on_close(&harness.connection);
    assert_eq!(harness.uncheckpointed_pages(), before);
}

#[test]
fn full_disk_or_file_size_limit_is_no_disk_failure() {
    use rusqlite::ffi::{SQLITE_FULL, SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_WRITE};
    let folder = TempFolder::new();
    let mut harness = PolicyHarness::new(&folder);
    for code in [SQLITE_FULL, SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_WRITE] {
        harness
            .policy
            .record_error(&sqlite_failure(code), &harness.connection);
        assert!(
            harness.policy.check_blocked(&harness.connection).is_none(),
            "{code}"
        );
    }
    // The probe file is removed.
    let names = std::fs::read_dir(folder.database_path().parent().unwrap()).unwrap();
    let probes = names.filter(|name| {
        let name = name.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with(".probe")
    });
    assert_eq!(probes.count(), 0);
}

#[test]
fn failed_write_with_failed_probe_is_a_disk_failure() {
    let folder = TempFolder::new();
    let mut harness = PolicyHarness::new(&folder);
    // A directory at the probe path: the probe file cannot be written.
    std::fs::create_dir(folder.database_path().with_file_name("store.db.probe")).unwrap();
    let error = sqlite_failure(rusqlite::ffi::SQLITE_IOERR_WRITE);
    harness.policy.record_error(&error, &harness.connection);
    let blocked = harness.policy.check_blocked(&harness.connection);
    assert!(matches!(blocked, Some(StoreError::Unavailable(_))));
}

#[test]
fn long_reader_is_waited_for_only_occasionally() {
    let folder = TempFolder::new();
    let mut harness = PolicyHarness::new(&folder);
    let reader = open::open_reader(&folder.database_path(), &SqliteOptions::default()).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM ballast")
        .unwrap();
    let mut waits = 0;
    while harness.wal_pages() < TOO_LONG_WAL_PAGES + LONG_WAL_PAGES / 2 {
        let before = harness.policy.next_restart;
        harness.step();
        let result = harness.policy.checkpointer.wait();
        harness.policy.on_result(result, &harness.connection);
        waits += usize::from(harness.policy.next_restart > before);
    }
    assert_eq!(waits, 1);
    // After the reader ends, the WAL restarts soon.
    drop(reader);
    let long = harness.wal_pages();
    while harness.wal_pages() >= long {
        harness.step();
        assert!(harness.wal_pages() < TOO_LONG_WAL_PAGES + 2 * LONG_WAL_PAGES);
    }
    assert_eq!(harness.policy.next_restart, TOO_LONG_WAL_PAGES);
}
