//! Group commit: the loop of the writer thread. The checkpoint policy decides when to checkpoint.

use super::WriterShared;
use super::checkpoint_policy::CheckpointPolicy;
use crate::sqlite::batch_queue::PopResult;
use crate::sqlite::cache::TaskCache;
use crate::sqlite::error::{SqliteError, SqliteResult, duplicate};
use crate::sqlite::open::mark_clean;
use crate::sqlite::write_job::{Counters, PendingHints, WriteJob, WriteSession};
use interzone_hub::LogThrottle;
use interzone_hub::ports::StoreError;
use interzone_protocol::vocab::TaskId;
use rusqlite::{Connection, ErrorCode};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Maximum jobs per group: enough to share a sync among all possible callers, few enough that
/// the first does not wait long for the last.
const MAX_GROUP_JOBS: usize = 1024;
/// Maximum bytes per group, so that large files do not hold up small writes for long.
const MAX_GROUP_BYTES: usize = 8 << 20;
/// Bytes that count as one more change when the length of the WAL is estimated.
const BYTES_PER_CHANGE: usize = 8 << 10;
/// Time without a job that counts as idle.
const IDLE_TIMEOUT: Duration = Duration::from_millis(500);
/// Wait when there is nothing to do while idle.
const LONG_WAIT: Duration = Duration::from_secs(3600);

/// Minimum interval of log lines about rejected writes. A full disk rejects every call for as long as it is full.
pub(super) const REJECTION_LOG_INTERVAL: Duration = Duration::from_secs(5);

type Jobs = Vec<Box<dyn WriteJob>>;

/// Group commit loop of the writer thread.
pub(super) struct WriterLoop {
    shared: Arc<WriterShared>,
    connection: Connection,
    counters: Counters,
    hints: PendingHints,
    cache: Arc<TaskCache>,
    /// Tasks changed by the current group.
    changed_tasks: Vec<TaskId>,
    /// Counts rejected calls, for the log.
    rejections: LogThrottle,
    /// Its checkpointer keeps the database file open, so this is dropped after the connection.
    checkpoint_policy: CheckpointPolicy,
}

impl WriterLoop {
    pub(super) fn new(
        shared: Arc<WriterShared>,
        connection: Connection,
        counters: Counters,
        cache: Arc<TaskCache>,
        log: CheckpointPolicy,
    ) -> Self {
        Self {
            shared,
            connection,
            counters,
            hints: PendingHints::default(),
            cache,
            changed_tasks: Vec::new(),
            rejections: LogThrottle::new(REJECTION_LOG_INTERVAL),
            checkpoint_policy: log,
        }
    }

    /// Runs until the queue is closed and empty, then stops the readers and shuts down cleanly.
    pub(super) fn run(mut self, stop_readers: impl FnOnce()) {
        let guard = AbandonQueueOnDrop(self.shared.clone());
        self.run_until_closed();
        drop(guard);
        stop_readers();
        self.shut_down();
    }

    fn run_until_closed(&mut self) {
        let shared = self.shared.clone();
        let mut jobs = Vec::with_capacity(MAX_GROUP_JOBS);
        loop {
            let mut bytes = 0;
            let mut fits = |weight: usize| {
                bytes += weight;
                bytes <= MAX_GROUP_BYTES
            };
            let is_idle_done =
                self.checkpoint_policy.is_checkpointed() && self.rejections.is_empty();
            let timeout = if is_idle_done {
                LONG_WAIT
            } else {
                IDLE_TIMEOUT
            };
            match shared
                .queue
                .pop_batch(&mut jobs, MAX_GROUP_JOBS, timeout, |job| {
                    fits(job.estimated_bytes())
                }) {
                PopResult::Popped => {
                    shared
                        .busy_since
                        .store(shared.elapsed_millis(), Ordering::Relaxed);
                    self.run_group(&mut jobs);
                    self.checkpoint_policy.maybe_checkpoint(&self.connection);
                    shared.busy_since.store(0, Ordering::Relaxed);
                }
                PopResult::TimedOut => self.checkpoint_policy.checkpoint_idle(&self.connection),
                PopResult::Closed => return,
            }
            if let Some(calls) = self.rejections.take_due(Instant::now()) {
                tracing::warn!(calls, "writes rejected");
            }
        }
    }

    /// Runs a group of jobs and replies to all of them.
    fn run_group(&mut self, jobs: &mut Jobs) {
        if let Some(error) = self.checkpoint_policy.check_blocked(&self.connection) {
            return reject_all(jobs, error, &mut self.rejections);
        }
        let outside_transaction: Jobs = jobs
            .extract_if(.., |job| job.runs_outside_transaction())
            .collect();
        if !jobs.is_empty() {
            let before = self.connection.total_changes();
            let bytes: usize = jobs.iter().map(|job| job.estimated_bytes()).sum();
            let outcomes = self.commit_group(jobs);
            let changes = self.connection.total_changes() - before;
            self.checkpoint_policy
                .record_growth(changes + u64::try_from(bytes / BYTES_PER_CHANGE).unwrap_or(0));
            match outcomes {
                Ok(outcomes) => {
                    for (job, outcome) in jobs.drain(..).zip(outcomes) {
                        job.complete(outcome);
                    }
                    self.hints.send(&self.shared.wakes);
                }
                Err(error) => {
                    self.hints.clear();
                    reject_all(jobs, &error, &mut self.rejections);
                }
            }
        }
        for mut job in outside_transaction {
            let outcome = job.run(&mut self.session());
            self.roll_back();
            self.hints.clear();
            if let Err(error) = &outcome {
                self.checkpoint_policy.record_error(error, &self.connection);
            }
            job.complete(outcome.map_err(StoreError::from));
        }
    }

    /// Runs the jobs in one transaction and commits it. An error means that nothing was written.
    fn commit_group(&mut self, jobs: &mut Jobs) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        let outcomes = match self.run_jobs(jobs, false) {
            Ok(Some(outcomes)) => Ok(outcomes),
            Ok(None) => {
                self.roll_back();
                self.run_jobs(jobs, true).map(Option::unwrap_or_default)
            }
            Err(fault) => Err(fault),
        };
        // The cache must not serve the old state once the commit is visible.
        self.cache.begin_invalidation(&self.changed_tasks);
        let committed = outcomes.and_then(|outcomes| {
            self.execute("COMMIT")?;
            Ok(outcomes)
        });
        if committed.is_err() {
            self.roll_back();
        }
        self.cache.end_invalidation(&self.changed_tasks);
        match committed {
            Ok(outcomes) => {
                self.shared.group_commits.fetch_add(1, Ordering::Relaxed);
                Ok(outcomes)
            }
            Err(fault) => {
                let not_committed = fault.is_certainly_not_committed();
                self.checkpoint_policy
                    .record_error(&fault, &self.connection);
                let mut error = StoreError::from(fault);
                if !not_committed && !self.overwrite_unsynced_tail() {
                    let reason = "write failed and could not be rolled back";
                    error = StoreError::InDoubt(reason.to_owned());
                }
                self.checkpoint_policy.free_space(&self.connection);
                Err(error)
            }
        }
    }

    /// Runs the jobs in a transaction that stays open. Without savepoints, returns `None` if a job
    /// failed after it had written something.
    fn run_jobs(
        &mut self,
        jobs: &mut Jobs,
        savepoints: bool,
    ) -> SqliteResult<Option<Vec<Result<(), StoreError>>>> {
        self.hints.clear();
        self.changed_tasks.clear();
        self.counters.epoch = None;
        self.execute("BEGIN IMMEDIATE")?;
        let mut outcomes = Vec::with_capacity(jobs.len());
        for job in jobs.iter_mut() {
            let (changes, hint_count) =
                (self.connection.total_changes(), self.hints.specific.len());
            if savepoints {
                self.execute("SAVEPOINT job")?;
            }
            let outcome = job.run(&mut self.session());
            if let Err(error) = outcome {
                // Some SQLite errors roll back the whole transaction.
                if self.connection.is_autocommit() {
                    return Err(error);
                }
                if savepoints {
                    self.execute("ROLLBACK TO job")?;
                    // The cached epoch may be the one that this job had raised.
                    self.counters.epoch = None;
                } else if self.connection.total_changes() != changes {
                    return Ok(None);
                }
                self.hints.specific.truncate(hint_count);
                outcomes.push(Err(error.into()));
            } else {
                outcomes.push(Ok(()));
            }
            if savepoints {
                self.execute("RELEASE job")?;
            }
        }
        Ok(Some(outcomes))
    }

    fn session(&mut self) -> WriteSession<'_> {
        WriteSession {
            connection: &self.connection,
            hints: &mut self.hints,
            counters: &mut self.counters,
            changed_tasks: &mut self.changed_tasks,
        }
    }

    fn execute(&self, sql: &str) -> SqliteResult<()> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "rollback failed");
        }
    }

    /// Overwrites the tail of the WAL. After a failed sync, the WAL may end with a complete transaction that is about
    /// to be reported as not written. This process ignores it, but the next start would recover it after a crash, so
    /// another transaction is written in its place. Returns true if that succeeded.
    fn overwrite_unsynced_tail(&self) -> bool {
        let probe = "UPDATE meta SET value = value + 1 WHERE name = 'probe'";
        for _ in 0..3 {
            match self.connection.execute_batch(probe) {
                Ok(()) => return true,
                Err(error) => tracing::error!(%error, "failed to overwrite unsynced WAL tail"),
            }
            self.roll_back();
        }
        false
    }

    /// Clean shutdown: truncates the WAL and marks the database as clean.
    fn shut_down(&mut self) {
        self.roll_back();
        match self.truncate_wal() {
            Ok(()) => {}
            Err(rusqlite::Error::SqliteFailure(code, _))
                if code.code == ErrorCode::DatabaseBusy =>
            {
                tracing::debug!("WAL is still being read, not truncated");
            }
            Err(error) => {
                tracing::warn!(%error, "WAL not truncated, next start checkpoints it");
                self.checkpoint_policy
                    .record_error(&SqliteError::from(error), &self.connection);
                // Closing would checkpoint the WAL again, and a sync that succeeds then proves nothing about the pages of
                // the one that failed.
                self.checkpoint_policy.keep_wal_on_close(&self.connection);
            }
        }
    }

    /// Checkpoints and truncates the WAL, then marks the database as clean. The mark comes after the checkpoint, so that
    /// the next start checks the database if the checkpoint failed.
    fn truncate_wal(&mut self) -> rusqlite::Result<()> {
        if !self.checkpoint_policy.stop_checkpointer(&self.connection) {
            tracing::warn!("WAL kept, next start checkpoints it");
            self.checkpoint_policy.keep_wal_on_close(&self.connection);
            return Ok(());
        }
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        self.connection.query_row(checkpoint, [], |_| Ok(()))?;
        mark_clean(&self.connection)?;
        self.connection.query_row(checkpoint, [], |_| Ok(()))
    }
}

/// Replies to all jobs that nothing was written.
fn reject_all(jobs: &mut Jobs, error: &StoreError, refusals: &mut LogThrottle) {
    let count = u64::try_from(jobs.len()).unwrap_or(u64::MAX);
    if let Some(calls) = refusals.record(count, Instant::now()) {
        tracing::warn!(%error, calls, "writes rejected");
    }
    jobs.drain(..)
        .for_each(|job| job.complete(Err(duplicate(error))));
}

/// Guard that empties the queue however the thread ends, so that no caller waits forever.
struct AbandonQueueOnDrop(Arc<WriterShared>);

impl Drop for AbandonQueueOnDrop {
    fn drop(&mut self) {
        self.0.queue.abandon();
    }
}
