//! The writer's thread: groups, transactions, and the log.

use super::Shared;
use crate::sqlite::cache::TaskCache;
use crate::sqlite::fault::{Fault, Outcome, again};
use crate::sqlite::job::{Counters, Job, Session, Wakes};
use crate::sqlite::open::mark_clean;
use crate::sqlite::queue::Taken;
use interzone_hub::ports::StoreError;
use interzone_protocol::vocab::TaskId;
use rusqlite::{Connection, ErrorCode};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The most jobs in a group: enough to share a sync among all callers there may be, few enough that
/// the first does not wait long for the last.
const GROUP: usize = 1024;
/// The most bytes in a group, so that large files do not hold up small writes for long.
const GROUP_BYTES: usize = 8 << 20;
/// So many bytes count as one more change when the log's length is guessed.
const CHANGE: usize = 8 << 10;
/// How long without a job counts as idle.
const IDLE: Duration = Duration::from_millis(500);
/// How long to wait when there is nothing to do while idle.
const LONG: Duration = Duration::from_secs(3600);
/// Pages of log after which it is copied into the database while nobody waits.
const SHORT_LOG: i64 = 1_000;
/// Pages of log after which it is copied even though somebody waits (32 MiB), in a database that is
/// at least as long: no log is much longer than what it belongs to.
const LONG_LOG: i64 = 8_000;
/// Pages of log after which readers are waited for, so that it can begin anew (64 MiB). They end
/// soon, and those that come meanwhile do not need the log.
const TOO_LONG_LOG: i64 = 16_000;

type Jobs = Vec<Box<dyn Job>>;

/// The thread's end.
pub(super) struct Desk {
    shared: Arc<Shared>,
    connection: Connection,
    counters: Counters,
    wakes: Wakes,
    cache: Arc<TaskCache>,
    /// The tasks that the present group changes.
    changed: Vec<TaskId>,
    /// Changes since the length of the log was last looked at.
    unchecked: u64,
    /// Whether the log may hold something that is not in the database yet.
    uncopied: bool,
    /// Why the log could not be copied. Until it can be, nothing is added to it: a log that takes
    /// all the room there is would leave none for the copy, and never get shorter.
    stuck: Option<StoreError>,
    /// The most pages of log there have been room for, once the disk was found to be full: later logs
    /// stay below, so that the room they leave is there for the database.
    room: i64,
}

impl Desk {
    pub(super) fn new(
        shared: Arc<Shared>,
        connection: Connection,
        counters: Counters,
        cache: Arc<TaskCache>,
    ) -> Self {
        Self {
            shared,
            connection,
            counters,
            wakes: Wakes::default(),
            cache,
            changed: Vec::new(),
            unchecked: 0,
            uncopied: true,
            stuck: None,
            room: i64::MAX,
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
                    self.checkpoint();
                    self.uncopied = false;
                }
                Taken::End => return,
            }
        }
    }

    /// Does a group of jobs and answers all of them.
    fn group(&mut self, jobs: &mut Jobs) {
        if self.stuck.is_some() {
            self.checkpoint();
        }
        if let Some(error) = &self.stuck {
            return refuse(jobs, error);
        }
        let outside: Jobs = jobs.extract_if(.., |job| job.is_outside()).collect();
        if !jobs.is_empty() {
            let before = self.connection.total_changes();
            let bytes: usize = jobs.iter().map(|job| job.weight()).sum();
            let outcomes = self.durably(jobs);
            self.unchecked += self.connection.total_changes() - before;
            self.unchecked += u64::try_from(bytes / CHANGE).unwrap_or(0);
            match outcomes {
                Ok(outcomes) => {
                    for (job, outcome) in jobs.drain(..).zip(outcomes) {
                        job.answer(outcome);
                    }
                    self.wakes.send(&self.shared.wakes);
                }
                Err(error) => {
                    self.wakes.clear();
                    refuse(jobs, &error);
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
        let outcomes = match self.attempt(jobs, false) {
            Ok(Some(outcomes)) => Ok(outcomes),
            Ok(None) => {
                self.roll_back();
                self.attempt(jobs, true).map(Option::unwrap_or_default)
            }
            Err(fault) => Err(fault),
        };
        // Nobody may find in the cache what is about to be the past.
        self.cache.block(&self.changed);
        let done = outcomes.and_then(|outcomes| {
            self.simply("COMMIT")?;
            Ok(outcomes)
        });
        if done.is_err() {
            self.roll_back();
        }
        self.cache.unblock(&self.changed);
        match done {
            Ok(outcomes) => {
                self.shared.groups.fetch_add(1, Ordering::Relaxed);
                Ok(outcomes)
            }
            Err(fault) => {
                let harmless = fault.left_nothing_whole();
                let mut error = StoreError::from(fault);
                if !harmless && !self.bury_the_tail() {
                    let why = "the disk took neither the write nor its undoing";
                    error = StoreError::InDoubt(why.to_owned());
                }
                if let Ok(pages) = self.log_pages() {
                    self.room = self.room.min((pages * 3 / 4).max(1));
                }
                // A log that is copied can be written over, which needs no more room.
                self.checkpoint();
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
        self.changed.clear();
        self.counters.epoch = None;
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
                    // It may be the one that this job had raised.
                    self.counters.epoch = None;
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
            changed: &mut self.changed,
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
        // One change touches two or three pages, many together fewer.
        if self.unchecked < 200 {
            return;
        }
        self.unchecked = 0;
        let quiet = self.shared.queue.len() == 0;
        let look = || -> rusqlite::Result<(i64, i64)> {
            if quiet {
                return Ok((self.log_pages()?, SHORT_LOG));
            }
            let mut pages = self.connection.prepare_cached("PRAGMA page_count")?;
            let pages: i64 = pages.query_row([], |row| row.get(0))?;
            Ok((self.log_pages()?, pages.clamp(SHORT_LOG, LONG_LOG)))
        };
        match look() {
            Ok((log, limit)) if log < limit.min(self.room) => {}
            Ok((log, _)) if log < TOO_LONG_LOG => self.checkpoint(),
            Ok(_) => self.copy_log("PRAGMA wal_checkpoint(RESTART)"),
            Err(error) => tracing::warn!(%error, "the log's length cannot be read"),
        }
    }

    fn log_pages(&self) -> rusqlite::Result<i64> {
        let mut look = self
            .connection
            .prepare_cached("PRAGMA wal_checkpoint(NOOP)")?;
        look.query_row([], |row| row.get(1))
    }

    fn checkpoint(&mut self) {
        self.copy_log("PRAGMA wal_checkpoint(PASSIVE)");
    }

    fn copy_log(&mut self, sql: &str) {
        let copy = |connection: &Connection| -> rusqlite::Result<()> {
            connection.prepare_cached(sql)?.query_row([], |_| Ok(()))
        };
        let stuck = copy(&self.connection).err();
        let stuck = stuck.map(|error| StoreError::from(Fault::from(error)));
        if let Some(error) = &stuck {
            tracing::warn!(%error, "the log could not be copied into the database");
        }
        self.stuck = stuck;
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

/// Tells all of them that nothing was written.
fn refuse(jobs: &mut Jobs, error: &StoreError) {
    tracing::warn!(%error, jobs = jobs.len(), "nothing of this group was written");
    jobs.drain(..).for_each(|job| job.answer(Err(again(error))));
}

/// However the thread ends, nobody waits for it in vain.
struct Abandon(Arc<Shared>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.queue.abandon();
    }
}
