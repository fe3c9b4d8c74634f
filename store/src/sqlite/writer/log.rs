//! The write-ahead log: when it is copied into the database, and by whom. What is written into it is
//! the desk's business.
//!
//! The copier copies beside the writer, so that nobody waits for it. But a log begins anew from its
//! start only when all of it is copied, and the copier never quite catches up with a writer that goes
//! on. So when a log is long and little of it is left, the writer copies that rest itself.

use super::copier::{Copied, Copier};
use super::desk::REFUSAL_LINES;
use crate::sqlite::failure::Disk;
use crate::sqlite::fault::Fault;
use interzone_hub::Repeats;
use interzone_hub::ports::StoreError;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// So many changes are written before the log is looked at. One change touches two or three pages,
/// many together fewer.
const CHANGES: u64 = 200;
/// Pages that are not copied yet, after which the copier is asked. Also the shortest log that begins
/// anew while somebody writes.
const SHORT_LOG: i64 = 1_000;
/// Pages of log after which it shall begin anew (16 MiB), in a database that is at least as long: no
/// log is much longer than what it belongs to. Each beginning costs those who wait a short copy, and
/// each page that makes the file longer than it ever was costs the disk more than one that does not.
const LONG_LOG: i64 = 4_000;
/// Pages of log after which readers are waited for, so that it can begin anew (64 MiB). They end
/// soon, and those that come meanwhile do not need the log.
const TOO_LONG_LOG: i64 = 16_000;
/// How long readers are waited for then. A backup reads for longer, so the next wait comes a [`LONG_LOG`] later.
const READERS_END: Duration = Duration::from_millis(200);
/// Pages that the writer copies itself while others wait: about what a group writes.
const REST: i64 = 128;
/// Pages after which the writer tries again, if somebody read the log when it could have begun anew.
const AGAIN: i64 = 256;

/// The log, as the writer sees it.
pub(super) struct Log {
    copier: Copier,
    disk: Disk,
    /// Changes since its length was last looked at.
    unchecked: u64,
    /// Whether it may hold something that is not in the database yet.
    uncopied: bool,
    /// Why it could not be copied. Until it can be, nothing is added to it: a log that takes all the
    /// room there is would leave none for the copy, and never get shorter.
    stuck: Option<StoreError>,
    /// Copies that failed.
    failed_copies: Repeats,
    /// Whether the disk has failed. Something that counts as copied may not be on it: the engine would not copy
    /// that again, and forget the log. So nothing is copied any more; the next start copies all of it.
    failed: bool,
    /// The most pages there have been room for, once the disk was found to be full: later logs stay
    /// below, so that the room they leave is there for the database.
    room: i64,
    /// How long the log is when the writer next copies a rest itself.
    next_rest: i64,
    /// How long the log is when readers are next waited for.
    next_restart: i64,
}

/// Lengths in pages.
struct Lengths {
    log: i64,
    copied: i64,
    database: i64,
}

impl Log {
    pub(super) fn new(copier: Copier, disk: Disk) -> Self {
        Self {
            copier,
            disk,
            unchecked: 0,
            uncopied: true,
            stuck: None,
            failed_copies: Repeats::new(REFUSAL_LINES),
            failed: false,
            room: i64::MAX,
            next_rest: 0,
            next_restart: TOO_LONG_LOG,
        }
    }

    /// Notes that so much was added to it.
    pub(super) fn grew(&mut self, changes: u64) {
        self.unchecked += changes;
    }

    pub(super) fn is_copied(&self) -> bool {
        !self.uncopied
    }

    /// Why nothing may be added to it now. Tries to copy it first, if that is why.
    pub(super) fn refuses(&mut self, connection: &Connection) -> Option<&StoreError> {
        if self.stuck.is_some() {
            self.copy(connection);
        }
        self.stuck.as_ref()
    }

    /// After a group: looks at the log now and then, and has it copied when it has become long.
    pub(super) fn look_after(&mut self, connection: &Connection) {
        self.uncopied = true;
        let report = self.copier.report();
        let heard = report.is_some();
        self.heed(report);
        // What could not be copied is tried again before anything is added.
        if self.stuck.is_some() || (self.unchecked < CHANGES && !heard) {
            return;
        }
        self.unchecked = 0;
        match lengths(connection) {
            Ok(lengths) => self.shorten(connection, &lengths),
            Err(error) => tracing::warn!(%error, "the log's length cannot be read"),
        }
    }

    fn shorten(&mut self, connection: &Connection, lengths: &Lengths) {
        let Lengths { log, copied, .. } = *lengths;
        let limit = lengths.database.clamp(SHORT_LOG, LONG_LOG);
        let (late, rest) = (log - limit, log - copied);
        if late < 0 {
            (self.next_rest, self.next_restart) = (0, TOO_LONG_LOG);
        }
        if log >= self.next_restart {
            self.next_restart = log + LONG_LOG;
            self.restart(connection);
        } else if log >= self.room {
            self.copy(connection);
        } else if late < 0 {
            if rest >= SHORT_LOG {
                self.have_copied(connection);
            }
        } else if self.copier.is_at_work() || rest == 0 {
            // Soon there will be less to do, or there is nothing.
        } else if log >= self.next_rest && rest <= REST.max(late / 4) {
            // Where the copier cannot keep up, the writer takes over more and more.
            self.next_rest = log + AGAIN;
            self.copy(connection);
        } else if rest > REST {
            self.have_copied(connection);
        }
    }

    /// Has the log copied by the copier, or copies it if there is none any more.
    fn have_copied(&mut self, connection: &Connection) {
        if !self.copier.ask() {
            self.copy(connection);
        }
    }

    /// While nobody writes: copies all of it.
    pub(super) fn copy_while_idle(&mut self, connection: &Connection) {
        self.copy(connection);
        self.uncopied = false;
    }

    /// After a write that failed: if there was no room, later logs stay shorter. One that is copied can
    /// be written over, which needs no more room.
    pub(super) fn make_room(&mut self, connection: &Connection) {
        if let Ok(lengths) = lengths(connection) {
            self.room = self.room.min((lengths.log * 3 / 4).max(1));
        }
        self.copy(connection);
    }

    fn copy(&mut self, connection: &Connection) {
        self.run(connection, "PRAGMA wal_checkpoint(PASSIVE)");
    }

    /// Copies all of it and waits for readers, for a short while, so that it can begin again from its start.
    fn restart(&mut self, connection: &Connection) {
        let usual = connection.pragma_query_value(None, "busy_timeout", |row| row.get::<_, u32>(0));
        let Ok(usual) = usual.map(|millis| Duration::from_millis(millis.into())) else {
            return self.copy(connection);
        };
        let set = connection.busy_timeout(READERS_END);
        self.run(connection, "PRAGMA wal_checkpoint(RESTART)");
        if let Err(error) = set.and_then(|()| connection.busy_timeout(usual)) {
            tracing::warn!(%error, "the time to wait for others could not be set");
        }
    }

    /// Copies here and now. There is one copy at a time, so the copier's comes first.
    fn run(&mut self, connection: &Connection, sql: &str) {
        let report = self.copier.wait();
        self.heed(report);
        if self.failed {
            return;
        }
        let copied = connection
            .prepare_cached(sql)
            .and_then(|mut copy| copy.query_row([], |_| Ok(())));
        match copied {
            Ok(()) => self.stuck = None,
            // Part of the log may be copied and not synced, and the engine does not know which.
            Err(error) if self.disk.is_failed_by(&error) => {
                self.fail(&format!(
                    "the log could not be copied into the database: {error}"
                ));
            }
            Err(error) => self.stuck = Some(Fault::from(error).into()),
        }
        self.warn();
    }

    /// Looks at why something could not be written: after a failure of the disk nothing more is added or copied.
    pub(super) fn judge(&mut self, fault: &Fault) {
        if let Fault::Engine(error) = fault
            && self.disk.is_failed_by(error)
        {
            self.fail(&format!(
                "the log or the database could not be written: {error}"
            ));
        }
    }

    fn fail(&mut self, reason: &str) {
        self.failed = true;
        let why = "the disk failed, and the process ends so that it can be started again";
        self.stuck = Some(StoreError::Unavailable(why.to_owned()));
        self.disk.fail(reason);
    }

    fn heed(&mut self, report: Option<Copied>) {
        match report {
            None | Some(Copied::Well) => return,
            Some(Copied::Not(error)) if self.disk.is_failed_by(&error) => {
                self.fail(&format!(
                    "the log could not be copied into the database: {error}"
                ));
            }
            Some(Copied::Not(error)) => self.stuck = Some(Fault::from(error).into()),
            Some(Copied::Perhaps(error)) => {
                self.fail(&format!("the database could not be synced: {error}"));
            }
        }
        self.warn();
    }

    fn warn(&mut self) {
        if let Some(error) = &self.stuck
            && let Some(attempts) = self.failed_copies.count(1, Instant::now())
        {
            tracing::warn!(%error, attempts, "the log could not be copied into the database");
        }
    }

    /// Ends the copier. Answers whether the log may be emptied.
    pub(super) fn end(&mut self) -> bool {
        let report = self.copier.wait();
        self.heed(report);
        self.copier.end();
        !self.failed
    }

    /// Has the log stay as it is when the connection is closed.
    pub(super) fn keep_on_close(&self, connection: &Connection) {
        let keep = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        if let Err(error) = connection.set_db_config(keep, true) {
            tracing::error!(%error, "the log could not be kept from being copied");
        }
    }
}

fn lengths(connection: &Connection) -> rusqlite::Result<Lengths> {
    let mut look = connection.prepare_cached("PRAGMA wal_checkpoint(NOOP)")?;
    let (log, copied) = look.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))?;
    let mut pages = connection.prepare_cached("PRAGMA page_count")?;
    Ok(Lengths {
        log,
        copied,
        database: pages.query_row([], |row| row.get(0))?,
    })
}
