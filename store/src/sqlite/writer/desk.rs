//! The writer's thread: groups and transactions. When the log is copied is not decided here.

use super::Shared;
use super::log::Log;
use crate::sqlite::cache::TaskCache;
use crate::sqlite::fault::{Fault, Outcome, again};
use crate::sqlite::job::{Counters, Job, Session, Wakes};
use crate::sqlite::open::mark_clean;
use crate::sqlite::queue::Taken;
use interzone_hub::Repeats;
use interzone_hub::ports::StoreError;
use interzone_protocol::vocab::TaskId;
use rusqlite::{Connection, ErrorCode};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

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

/// How often the log says that writes are refused. A disk without room refuses every call for as long as it is full.
pub(super) const REFUSAL_LINES: Duration = Duration::from_secs(5);

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
    /// Calls that were refused.
    refusals: Repeats,
    /// Its copier keeps the database's file open, so this comes after the connection.
    log: Log,
}

impl Desk {
    pub(super) fn new(
        shared: Arc<Shared>,
        connection: Connection,
        counters: Counters,
        cache: Arc<TaskCache>,
        log: Log,
    ) -> Self {
        Self {
            shared,
            connection,
            counters,
            wakes: Wakes::default(),
            cache,
            changed: Vec::new(),
            refusals: Repeats::new(REFUSAL_LINES),
            log,
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
            let is_done = self.log.is_copied() && self.refusals.is_empty();
            let patience = if is_done { LONG } else { IDLE };
            match shared
                .queue
                .take(&mut jobs, GROUP, patience, |job| fits(job.weight()))
            {
                Taken::Some => {
                    shared.busy_since.store(shared.millis(), Ordering::Relaxed);
                    self.group(&mut jobs);
                    self.log.look_after(&self.connection);
                    shared.busy_since.store(0, Ordering::Relaxed);
                }
                Taken::Nothing => self.log.copy_while_idle(&self.connection),
                Taken::End => return,
            }
            if let Some(calls) = self.refusals.due(Instant::now()) {
                tracing::warn!(calls, "writes were refused");
            }
        }
    }

    /// Does a group of jobs and answers all of them.
    fn group(&mut self, jobs: &mut Jobs) {
        if let Some(error) = self.log.refuses(&self.connection) {
            return refuse(jobs, error, &mut self.refusals);
        }
        let outside: Jobs = jobs.extract_if(.., |job| job.is_outside()).collect();
        if !jobs.is_empty() {
            let before = self.connection.total_changes();
            let bytes: usize = jobs.iter().map(|job| job.weight()).sum();
            let outcomes = self.durably(jobs);
            let changes = self.connection.total_changes() - before;
            self.log
                .grew(changes + u64::try_from(bytes / CHANGE).unwrap_or(0));
            match outcomes {
                Ok(outcomes) => {
                    for (job, outcome) in jobs.drain(..).zip(outcomes) {
                        job.answer(outcome);
                    }
                    self.wakes.send(&self.shared.wakes);
                }
                Err(error) => {
                    self.wakes.clear();
                    refuse(jobs, &error, &mut self.refusals);
                }
            }
        }
        for mut job in outside {
            let outcome = job.run(&mut self.session());
            self.roll_back();
            self.wakes.clear();
            if let Err(fault) = &outcome {
                self.log.judge(fault);
            }
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
            let _at_once = interzone_wal::commit();
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
                self.log.judge(&fault);
                let mut error = StoreError::from(fault);
                if !harmless && !self.bury_the_tail() {
                    let why = "the disk took neither the write nor its undoing";
                    error = StoreError::InDoubt(why.to_owned());
                }
                self.log.make_room(&self.connection);
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

    /// The orderly end: the log is empty and the mark says so.
    fn finish(&mut self) {
        self.roll_back();
        match self.empty_log() {
            Ok(()) => {}
            Err(rusqlite::Error::SqliteFailure(code, _))
                if code.code == ErrorCode::DatabaseBusy =>
            {
                tracing::debug!("the log is still being read, so it stays");
            }
            Err(error) => {
                tracing::warn!(%error, "the log could not be emptied and stays; the next start copies it");
                self.log.judge(&Fault::from(error));
                // Closing would copy the log again, and a sync that succeeds then says nothing about the pages of the
                // one that failed.
                self.log.keep_on_close(&self.connection);
            }
        }
    }

    /// Copies the log into the database and marks it as complete. The mark comes after the copy, so that the next start
    /// checks the database if the copy failed.
    fn empty_log(&mut self) -> rusqlite::Result<()> {
        if !self.log.end() {
            tracing::warn!("the log stays, and is copied again at the next start");
            self.log.keep_on_close(&self.connection);
            return Ok(());
        }
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        self.connection.query_row(checkpoint, [], |_| Ok(()))?;
        mark_clean(&self.connection)?;
        self.connection.query_row(checkpoint, [], |_| Ok(()))
    }
}

/// Tells all of them that nothing was written.
fn refuse(jobs: &mut Jobs, error: &StoreError, refusals: &mut Repeats) {
    let count = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
    if let Some(calls) = refusals.count(count, Instant::now()) {
        tracing::warn!(%error, calls, "writes were refused");
    }
    jobs.drain(..).for_each(|job| job.answer(Err(again(error))));
}

/// However the thread ends, nobody waits for it in vain.
struct Abandon(Arc<Shared>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.queue.abandon();
    }
}
