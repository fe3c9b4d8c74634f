//! The writer's thread: groups, transactions, and the log.

use super::Shared;
use crate::sqlite::fault::{Outcome, again};
use crate::sqlite::job::{Counters, Job, Session, Wakes};
use crate::sqlite::open::mark_clean;
use crate::sqlite::queue::Taken;
use interzone_hub::ports::StoreError;
use rusqlite::{Connection, ErrorCode};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The most jobs in a group: enough to share a sync among all callers there may be, few enough that
/// the first does not wait long for the last.
const GROUP: usize = 1024;
/// The most bytes in a group, so that large files do not hold up small writes for long.
const GROUP_BYTES: usize = 8 << 20;
/// How long without a job counts as idle.
const IDLE: Duration = Duration::from_millis(500);
/// How long to wait when there is nothing to do while idle.
const LONG: Duration = Duration::from_secs(3600);
/// Pages of log after which it is copied into the database while nobody waits.
const CHECKPOINT_WHEN_QUIET: i64 = 1_000;
/// Pages of log after which it is copied even though somebody waits (32 MiB).
const CHECKPOINT_ALWAYS: i64 = 8_000;

/// Pages of log after which it is copied while room is scarce.
const CHECKPOINT_WHEN_TIGHT: i64 = 64;
/// For how many groups room counts as scarce after there was none.
const SCARCE: u32 = 10_000;

type Jobs = Vec<Box<dyn Job>>;

/// The thread's end.
pub(super) struct Desk {
    shared: Arc<Shared>,
    connection: Connection,
    counters: Counters,
    wakes: Wakes,
    /// Changes since the length of the log was last looked at.
    unchecked: u64,
    /// Whether the log may hold something that is not in the database yet.
    uncopied: bool,
    /// Whether a group has found no room, and the log has not been emptied since.
    tight: bool,
    /// For how many more groups room counts as scarce, so that the log is kept short.
    scarce: u32,
}

impl Desk {
    pub(super) fn new(shared: Arc<Shared>, connection: Connection, counters: Counters) -> Self {
        Self {
            shared,
            connection,
            counters,
            wakes: Wakes::default(),
            unchecked: 0,
            uncopied: true,
            tight: false,
            scarce: 0,
        }
    }

    /// Works until the queue is closed and empty, then stops the readers and leaves all in order.
    pub(super) fn work(mut self, stop_readers: impl FnOnce()) {
        let guard = Abandon(self.shared.clone());
        self.serve();
        drop(guard);
        stop_readers();
        self.finish();
    }

    fn serve(&mut self) {
        let shared = self.shared.clone();
        let mut jobs = Vec::with_capacity(GROUP);
        loop {
            let mut bytes = 0;
            let mut fits = |weight: usize| {
                bytes += weight;
                bytes <= GROUP_BYTES
            };
            let patience = if self.uncopied { IDLE } else { LONG };
            match shared
                .queue
                .take(&mut jobs, GROUP, patience, |job| fits(job.weight()))
            {
                Taken::Some => {
                    shared.busy_since.store(shared.millis(), Ordering::Relaxed);
                    self.group(&mut jobs);
                    self.uncopied = true;
                    self.checkpoint_if_long();
                    shared.busy_since.store(0, Ordering::Relaxed);
                }
                Taken::Nothing => {
                    self.uncopied = !self.checkpoint();
                }
                Taken::End => return,
            }
        }
    }

    /// Does a group of jobs and answers all of them.
    fn group(&mut self, jobs: &mut Jobs) {
        let outside: Jobs = jobs.extract_if(.., |job| job.is_outside()).collect();
        if !jobs.is_empty() {
            let before = self.connection.total_changes();
            let outcomes = self.durably(jobs);
            self.unchecked += self.connection.total_changes() - before;
            match outcomes {
                Ok(outcomes) => {
                    for (job, outcome) in jobs.drain(..).zip(outcomes) {
                        job.answer(outcome);
                    }
                    self.wakes.send(&self.shared.wakes);
                }
                Err(error) => {
                    self.wakes.clear();
                    tracing::warn!(%error, jobs = jobs.len(), "nothing of this group was written");
                    jobs.drain(..)
                        .for_each(|job| job.answer(Err(again(&error))));
                }
            }
        }
        for mut job in outside {
            let outcome = job.run(&mut self.session());
            self.roll_back();
            self.wakes.clear();
            job.answer(outcome.map_err(StoreError::from));
        }
    }

    /// Does the jobs in one transaction. An error means that nothing of any of them is there.
    fn durably(&mut self, jobs: &mut Jobs) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        // The log holds many versions of the same pages, and takes up room that the database would
        // not. Until it has been emptied, whatever room there is again is kept for that: writing on
        // would lengthen the log, and the disk would be full for good.
        if self.tight && !self.empty_the_log() {
            return Err(StoreError::Full);
        }
        self.tight = false;
        let outcomes = match self.attempt(jobs, false) {
            Ok(Some(outcomes)) => Ok(outcomes),
            Ok(None) => {
                self.roll_back();
                self.attempt(jobs, true).map(Option::unwrap_or_default)
            }
            Err(fault) => Err(fault),
        };
        let done = outcomes.and_then(|outcomes| {
            self.simply("COMMIT")?;
            Ok(outcomes)
        });
        match done {
            Ok(outcomes) => {
                self.shared.groups.fetch_add(1, Ordering::Relaxed);
                Ok(outcomes)
            }
            Err(fault) => {
                self.roll_back();
                let error = StoreError::from(fault);
                if matches!(error, StoreError::Full) {
                    self.tight = true;
                    self.scarce = SCARCE;
                } else if !self.bury_the_tail() {
                    return Err(StoreError::InDoubt(
                        "the disk took neither the write nor its undoing".to_owned(),
                    ));
                }
                Err(error)
            }
        }
    }

    /// Does the jobs in a transaction that stays open. Without savepoints, nothing is handed back if
    /// one of them failed after it had written something.
    fn attempt(
        &mut self,
        jobs: &mut Jobs,
        savepoints: bool,
    ) -> Outcome<Option<Vec<Result<(), StoreError>>>> {
        self.wakes.clear();
        self.simply("BEGIN IMMEDIATE")?;
        let mut outcomes = Vec::with_capacity(jobs.len());
        for job in jobs.iter_mut() {
            let (changes, wakes) = (self.connection.total_changes(), self.wakes.named.len());
            if savepoints {
                self.simply("SAVEPOINT job")?;
            }
            let outcome = job.run(&mut self.session());
            if let Err(fault) = outcome {
                // Some failures of the engine take the whole transaction with them.
                if self.connection.is_autocommit() {
                    return Err(fault);
                }
                if savepoints {
                    self.simply("ROLLBACK TO job")?;
                } else if self.connection.total_changes() != changes {
                    return Ok(None);
                }
                self.wakes.named.truncate(wakes);
                outcomes.push(Err(fault.into()));
            } else {
                outcomes.push(Ok(()));
            }
            if savepoints {
                self.simply("RELEASE job")?;
            }
        }
        Ok(Some(outcomes))
    }

    fn session(&mut self) -> Session<'_> {
        Session {
            connection: &self.connection,
            wakes: &mut self.wakes,
            counters: &mut self.counters,
        }
    }

    fn simply(&self, sql: &str) -> Outcome<()> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    /// After a sync has failed, the log may end with a whole transaction that callers are about to be
    /// told was not written. It does not count for us, but it would after a crash; so something else
    /// is written in its place before they are told. Answers whether that was done.
    fn bury_the_tail(&self) -> bool {
        let probe = "UPDATE meta SET value = value + 1 WHERE name = 'probe'";
        for _ in 0..3 {
            match self.connection.execute_batch(probe) {
                Ok(()) => return true,
                Err(error) => tracing::error!(%error, "the disk does not take anything now"),
            }
            self.roll_back();
        }
        false
    }

    /// Looks at the log now and then, and copies it into the database when it has become long.
    fn checkpoint_if_long(&mut self) {
        let quiet = self.shared.queue.len() == 0;
        // A page holds several changes, an index spreads one over several pages: about as many.
        let (changes, limit) = match (self.scarce, quiet) {
            (1.., _) => (0, CHECKPOINT_WHEN_TIGHT),
            (0, true) => (500, CHECKPOINT_WHEN_QUIET),
            (0, false) => (4_000, CHECKPOINT_ALWAYS),
        };
        self.scarce = self.scarce.saturating_sub(1);
        if self.unchecked < changes {
            return;
        }
        self.unchecked = 0;
        match self.log_pages() {
            Ok(pages) if pages < limit => {}
            Ok(_) => {
                self.checkpoint();
            }
            Err(error) => tracing::warn!(%error, "the log's length cannot be read"),
        }
    }

    fn log_pages(&self) -> rusqlite::Result<i64> {
        let mut look = self
            .connection
            .prepare_cached("PRAGMA wal_checkpoint(NOOP)")?;
        look.query_row([], |row| row.get(1))
    }

    /// Copies the log into the database, as far as nobody still reads it. Tells whether that could
    /// be done: a log that is copied is written over, and needs no more room.
    fn checkpoint(&self) -> bool {
        let copy = |connection: &Connection| -> rusqlite::Result<()> {
            let mut copy = connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?;
            copy.query_row([], |_| Ok(()))
        };
        match copy(&self.connection) {
            Ok(()) => true,
            Err(error) => {
                // The log goes on growing, and is copied when it can be.
                tracing::warn!(%error, "the log could not be copied into the database");
                false
            }
        }
    }

    /// Copies the whole log into the database and gives its room back. Tells whether that could be
    /// done: it needs a little room itself, and nobody who still reads.
    fn empty_the_log(&self) -> bool {
        let emptied = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| {
                row.get::<_, i64>(0)
            });
        match emptied {
            Ok(busy) => busy == 0,
            Err(error) => {
                tracing::warn!(%error, "there is no room to empty the log");
                false
            }
        }
    }

    /// The orderly end: the log is empty and the mark says so.
    fn finish(&mut self) {
        self.roll_back();
        let end = mark_clean(&self.connection).and_then(|()| {
            self.connection
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        });
        match end {
            Err(rusqlite::Error::SqliteFailure(code, _))
                if code.code == ErrorCode::DatabaseBusy =>
            {
                tracing::debug!("somebody still reads the log, so it stays");
            }
            Err(error) => tracing::warn!(%error, "the end was not orderly; the next start checks"),
            Ok(()) => {}
        }
    }
}

/// However the thread ends, nobody waits for it in vain.
struct Abandon(Arc<Shared>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.queue.abandon();
    }
}
