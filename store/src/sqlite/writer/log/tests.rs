//! Tests of the log, step by step: who copies it, when it begins anew, and what becomes of a copy that
//! fails.

use super::{AGAIN, CHANGES, Copier, LONG_LOG, Log, REST, SHORT_LOG, TOO_LONG_LOG, lengths};
use crate::sqlite::SqliteOptions;
use crate::sqlite::failure::Disk;
use crate::sqlite::fault::Fault;
use crate::sqlite::open;
use crate::sqlite::tests::Folder;
use crate::sqlite::writer::copier::copy;
use interzone_hub::ports::StoreError;
use rusqlite::{Connection, OpenFlags};
use std::fs::File;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Pages that one step writes, and a few for where they are noted.
const STEP: i64 = 40;
const STEP_AND_MORE: i64 = STEP + 10;

/// A database whose log is written and looked after without the rest of a writer. The connection goes
/// first, the lock last.
struct Written {
    connection: Connection,
    log: Log,
    _lock: crate::sqlite::lock::StoreLock,
}

impl Written {
    fn new(folder: &Folder) -> Self {
        Self::with(folder, |copier| copier)
    }

    fn with(
        folder: &Folder,
        change: impl FnOnce((Connection, File)) -> (Connection, File),
    ) -> Self {
        Self::beside(folder, |copier| {
            let (connection, file) = change(copier);
            Copier::start(connection, file)
        })
    }

    fn beside(
        folder: &Folder,
        start: impl FnOnce((Connection, File)) -> Result<Copier, StoreError>,
    ) -> Self {
        let options = SqliteOptions::default();
        let opened = open::open(&folder.file(), &options).unwrap().unwrap();
        let copier = start(open::copier(&opened.path).unwrap()).unwrap();
        let connection = opened.connection;
        connection
            .execute_batch("CREATE TABLE ballast (x); INSERT INTO ballast VALUES (NULL)")
            .unwrap();
        let mut log = Log::new(copier, Disk::new(&opened.path));
        log.copy(&connection);
        Self {
            connection,
            log,
            _lock: opened.lock,
        }
    }

    /// Writes the same pages once more.
    fn write(&self) {
        let bytes = STEP * 4096;
        let sql = "UPDATE ballast SET x = randomblob(?1)";
        assert_eq!(self.connection.execute(sql, [bytes]).unwrap(), 1);
    }

    /// As a group does it. The copier does its share beside it.
    fn step(&mut self) {
        self.write();
        self.log.grew(CHANGES);
        self.log.look_after(&self.connection);
    }

    fn log(&self) -> i64 {
        lengths(&self.connection).unwrap().log
    }

    fn rest(&self) -> i64 {
        let lengths = lengths(&self.connection).unwrap();
        lengths.log - lengths.copied
    }

    /// Steps until the copier has been asked.
    fn until_asked(&mut self) {
        for _ in 0..2 * SHORT_LOG / STEP {
            self.step();
            if self.log.copier.is_at_work() {
                return;
            }
        }
        panic!("nobody has the log copied: {} pages", self.log());
    }

    /// Waits for the copier and heeds what it says.
    fn hear(&mut self) {
        let report = self.log.copier.wait();
        assert!(report.is_some());
        self.log.heed(report);
    }
}

#[test]
fn what_is_long_is_copied_beside_the_writer() {
    let folder = Folder::new();
    // The copier does not begin before it may. Whoever waits for it meanwhile waits in vain.
    let (may, begin) = sync_channel(1);
    let mut written = Written::beside(&folder, |(connection, file)| {
        Copier::with(file, move |file| {
            begin.recv_timeout(Duration::from_secs(10)).unwrap();
            copy(&connection, file)
        })
    });
    written.until_asked();
    let asked = written.log();
    assert!((SHORT_LOG..SHORT_LOG + STEP_AND_MORE).contains(&asked));
    // The writer neither waits nor copies.
    written.write();
    assert!(written.log() > asked);
    assert_eq!(written.rest(), written.log());
    may.send(()).unwrap();
    written.hear();
    assert_eq!(written.rest(), 0);
}

#[test]
fn a_long_log_begins_anew() {
    let folder = Folder::new();
    let mut written = Written::new(&folder);
    let (mut begun, mut before, mut longest) = (0, 0, 0);
    for _ in 0..250 {
        written.step();
        // A copier that is as fast as can be.
        let report = written.log.copier.wait();
        written.log.heed(report);
        let now = written.log();
        begun += usize::from(now < before);
        (before, longest) = (now, longest.max(now));
    }
    // 10,000 pages, a thousand of which make the log of so small a database long.
    assert!(begun >= 7, "{begun}");
    assert!(longest <= SHORT_LOG + REST + 2 * STEP_AND_MORE, "{longest}");
    assert!(written.log.stuck.is_none());
}

#[test]
fn a_copier_that_does_not_keep_up_is_helped() {
    let folder = Folder::new();
    let mut written = Written::new(&folder);
    // As long as somebody reads what was first, nothing later is copied, however fast the copier is.
    let reader = open::reader(&folder.file(), &SqliteOptions::default()).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM ballast")
        .unwrap();
    let mut reader = Some(reader);
    written.until_asked();
    // Its report is not heard, as if it were still copying.
    let mut before = written.log();
    for _ in 0..2 * TOO_LONG_LOG / STEP {
        if before >= TOO_LONG_LOG - 2 * STEP_AND_MORE {
            drop(reader.take());
        }
        written.write();
        let lengths = lengths(&written.connection).unwrap();
        written.log.shorten(&written.connection, &lengths);
        let now = written.log();
        if now < before {
            assert!(before >= TOO_LONG_LOG, "{before}");
            return;
        }
        before = now;
        assert!(now <= TOO_LONG_LOG + STEP_AND_MORE, "{now}");
    }
    panic!("the log has never begun anew: {before} pages");
}

#[test]
fn a_reader_holds_it_up_for_as_long_as_it_reads() {
    let folder = Folder::new();
    let mut written = Written::new(&folder);
    written.step();
    let reader = open::reader(&folder.file(), &SqliteOptions::default()).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM ballast")
        .unwrap();
    for _ in 0..100 {
        written.step();
    }
    assert!(written.log() >= 100 * STEP);
    reader.execute_batch("COMMIT").unwrap();
    let long = written.log();
    for _ in 0..(2 * AGAIN + 2 * REST) / STEP {
        written.step();
        let report = written.log.copier.wait();
        written.log.heed(report);
    }
    assert!(written.log() < long, "{} of {long}", written.log());
}

#[test]
fn after_the_load_nothing_is_left() {
    let folder = Folder::new();
    let mut written = Written::new(&folder);
    written.until_asked();
    assert!(!written.log.is_copied());
    // The copier may be at it: both come to their end.
    written.log.copy_while_idle(&written.connection);
    assert!(written.log.is_copied());
    assert_eq!(written.rest(), 0);
    assert!(!written.log.copier.is_at_work());
    written.step();
    assert!(written.log() <= STEP_AND_MORE, "{}", written.log());
    assert!(!written.log.is_copied());
}

#[test]
fn a_copy_that_fails_lets_nothing_more_in() {
    let folder = Folder::new();
    let file = folder.file();
    let read_only = || Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let mut written = Written::with(&folder, |(_, file)| (read_only().unwrap(), file));
    written.until_asked();
    written.hear();
    assert!(matches!(
        written.log.stuck,
        Some(StoreError::Unavailable(_))
    ));
    // The writer tries itself before it gives up.
    let refused = written.log.refuses(&read_only().unwrap());
    assert!(matches!(refused, Some(StoreError::Unavailable(_))));
    assert!(written.log.refuses(&written.connection).is_none());
    assert_eq!(written.rest(), 0);
}

#[cfg(unix)]
#[test]
fn what_may_not_be_on_the_disk_stays_in_the_log() {
    let folder = Folder::new();
    // It takes everything and cannot be synced.
    let null = File::open("/dev/null").unwrap();
    let mut written = Written::with(&folder, |(connection, _)| (connection, null));
    written.until_asked();
    written.hear();
    for _ in 0..2 {
        let refused = written.log.refuses(&written.connection);
        assert!(matches!(refused, Some(StoreError::Unavailable(_))));
    }
    let long = written.log();
    assert!(!written.log.end());
    written.log.keep_on_close(&written.connection);
    drop(written);
    // All of it is copied once more.
    let opened = open::open(&folder.file(), &SqliteOptions::default())
        .unwrap()
        .unwrap();
    let lengths = lengths(&opened.connection).unwrap();
    assert_eq!(lengths.copied, 0);
    assert!(lengths.log >= long);
}

/// An error of the engine as it comes from a commit or a checkpoint.
fn engine_error(extended_code: i32) -> Fault {
    let code = rusqlite::ffi::Error::new(extended_code);
    Fault::Engine(rusqlite::Error::SqliteFailure(code, None))
}

#[test]
fn failed_sync_of_a_commit_ends_all_writing_and_copying() {
    let folder = Folder::new();
    let mut written = Written::new(&folder);
    written.step();
    let before = written.rest();
    assert!(before > 0);
    written
        .log
        .judge(&engine_error(rusqlite::ffi::SQLITE_IOERR_FSYNC));
    let refused = written.log.refuses(&written.connection);
    assert!(matches!(refused, Some(StoreError::Unavailable(_))));
    // Neither on the way nor at the end.
    written.log.copy_while_idle(&written.connection);
    assert!(!written.log.end());
    written.log.keep_on_close(&written.connection);
    assert_eq!(written.rest(), before);
}

#[test]
fn full_disk_or_long_file_is_no_failed_disk() {
    use rusqlite::ffi::{SQLITE_FULL, SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_WRITE};
    let folder = Folder::new();
    let mut written = Written::new(&folder);
    for code in [SQLITE_FULL, SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_WRITE] {
        written.log.judge(&engine_error(code));
        assert!(written.log.refuses(&written.connection).is_none(), "{code}");
    }
    // Nothing stays of what was written to find out.
    let names = std::fs::read_dir(folder.file().parent().unwrap()).unwrap();
    let probes = names.filter(|name| {
        let name = name.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with(".probe")
    });
    assert_eq!(probes.count(), 0);
}

#[test]
fn failed_write_on_a_disk_that_takes_nothing_is_a_failed_disk() {
    let folder = Folder::new();
    let mut written = Written::new(&folder);
    // A folder in its place: no file of that name can be written.
    std::fs::create_dir(folder.file().with_file_name("store.db.probe")).unwrap();
    let error = engine_error(rusqlite::ffi::SQLITE_IOERR_WRITE);
    written.log.judge(&error);
    let refused = written.log.refuses(&written.connection);
    assert!(matches!(refused, Some(StoreError::Unavailable(_))));
}

#[test]
fn reader_that_stays_is_waited_for_once_in_a_while() {
    let folder = Folder::new();
    let mut written = Written::new(&folder);
    let reader = open::reader(&folder.file(), &SqliteOptions::default()).unwrap();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM ballast")
        .unwrap();
    let mut waits = 0;
    while written.log() < TOO_LONG_LOG + LONG_LOG / 2 {
        let before = written.log.next_restart;
        written.step();
        let report = written.log.copier.wait();
        written.log.heed(report);
        waits += usize::from(written.log.next_restart > before);
    }
    assert_eq!(waits, 1);
    // What is there when it ends is soon done with.
    drop(reader);
    let long = written.log();
    while written.log() >= long {
        written.step();
        assert!(written.log() < TOO_LONG_LOG + 2 * LONG_LOG);
    }
    assert_eq!(written.log.next_restart, TOO_LONG_LOG);
}
