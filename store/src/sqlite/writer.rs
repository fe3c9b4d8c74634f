//! The one writer: takes everything that waits, writes it in one transaction, syncs once, and only
//! then answers.
//!
//! A group is first tried without savepoints, which would copy every page that a job touches. Most
//! jobs that fail do so before they have written anything, and then nothing needs to be undone. If
//! one fails later, the group is rolled back and done again with a savepoint for each job.

use super::fault::{Outcome, again, closed};
use super::job::{Call, Counters, Job, Session, Wakes};
use super::open::{LockFile, mark_clean};
use super::queue::{Queue, Taken};
use interzone_hub::ports::{StoreError, Wake};
use rusqlite::{Connection, ErrorCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{broadcast, oneshot};

/// The most jobs in a group: enough to share a sync among all callers there may be, few enough that
/// the first does not wait long for the last.
const GROUP: usize = 1024;
/// The most bytes in a group, so that large files do not hold up small writes for long.
const GROUP_BYTES: usize = 8 << 20;
/// How many jobs may wait.
const PLACES: usize = 4096;
/// How long without a job counts as idle.
const IDLE: Duration = Duration::from_millis(500);
/// How long to wait when there is nothing to do while idle.
const LONG: Duration = Duration::from_secs(3600);
/// Pages of log after which it is copied into the database while nobody waits.
const CHECKPOINT_WHEN_QUIET: i64 = 1_000;
/// Pages of log after which it is copied even though somebody waits (32 MiB).
const CHECKPOINT_ALWAYS: i64 = 8_000;
/// How long a group may take before callers are told that the store cannot get on.
const STALLED: Duration = Duration::from_secs(30);

type Jobs = Vec<Box<dyn Job>>;

/// The callers' end.
pub(super) struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    queue: Queue<Box<dyn Job>>,
    wakes: broadcast::Sender<Wake>,
    started: Instant,
    /// When the present group began, in milliseconds since the start plus one; zero between groups.
    busy_since: AtomicU64,
    groups: AtomicU64,
}

impl Writer {
    /// Starts the thread. It keeps the lock, and ends after the readers that it is given.
    pub(super) fn start(
        connection: Connection,
        counters: Counters,
        lock: LockFile,
        wakes: broadcast::Sender<Wake>,
        readers: impl FnOnce() + Send + 'static,
    ) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared {
            queue: Queue::new(PLACES),
            wakes,
            started: Instant::now(),
            busy_since: AtomicU64::new(0),
            groups: AtomicU64::new(0),
        });
        let mut desk = Desk {
            shared: shared.clone(),
            connection,
            counters,
            wakes: Wakes::default(),
            unchecked: 0,
            uncopied: true,
        };
        let thread = std::thread::Builder::new()
            .name("interzone-store".to_owned())
            .spawn(move || {
                let guard = Abandon(desk.shared.clone());
                desk.work();
                drop(guard);
                readers();
                desk.finish();
                drop(lock);
            })
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Has a job done, and waits until it is durable.
    pub(super) async fn write<T, F>(&self, weight: usize, work: F) -> Result<T, StoreError>
    where
        F: FnMut(&mut Session<'_>) -> Outcome<T> + Send + 'static,
        T: Send + 'static,
    {
        self.submit(false, weight, work).await
    }

    /// As [`Writer::write`], for what must not be inside a transaction.
    pub(super) async fn outside<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: FnMut(&mut Session<'_>) -> Outcome<T> + Send + 'static,
        T: Send + 'static,
    {
        self.submit(true, 0, work).await
    }

    async fn submit<T, F>(&self, outside: bool, weight: usize, work: F) -> Result<T, StoreError>
    where
        F: FnMut(&mut Session<'_>) -> Outcome<T> + Send + 'static,
        T: Send + 'static,
    {
        self.shared.refuse_if_stalled()?;
        let (reply, answer) = oneshot::channel();
        let job = Call {
            work,
            value: None,
            reply,
            outside,
            weight,
        };
        if !self.shared.queue.push(Box::new(job)).await {
            return Err(closed());
        }
        answer.await.unwrap_or_else(|_| Err(closed()))
    }

    /// How many groups have been made durable.
    pub(super) fn groups(&self) -> u64 {
        self.shared.groups.load(Ordering::Relaxed)
    }

    /// Lets nothing more in. The thread does what waits, and ends.
    pub(super) fn close(&self) {
        self.shared.queue.close();
    }

    /// Waits for the thread to end.
    pub(super) fn join(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            // It has logged why, if it panicked.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn refuse_if_stalled(&self) -> Result<(), StoreError> {
        let since = self.busy_since.load(Ordering::Relaxed);
        if since == 0 || self.millis().saturating_sub(since) < millis(STALLED) {
            return Ok(());
        }
        Err(StoreError::Unavailable(
            "the disk has not finished a write for a long time".to_owned(),
        ))
    }

    fn millis(&self) -> u64 {
        millis(self.started.elapsed()) + 1
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// However the thread ends, nobody waits for it in vain.
struct Abandon(Arc<Shared>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.queue.abandon();
    }
}

/// The thread's end.
struct Desk {
    shared: Arc<Shared>,
    connection: Connection,
    counters: Counters,
    wakes: Wakes,
    /// Changes since the length of the log was last looked at.
    unchecked: u64,
    /// Whether the log may hold something that is not in the database yet.
    uncopied: bool,
}

impl Desk {
    fn work(&mut self) {
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
                if !matches!(error, StoreError::Full) {
                    self.bury_the_tail();
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
    /// is written in its place before they are told.
    fn bury_the_tail(&self) {
        let probe = "UPDATE meta SET value = value + 1 WHERE name = 'probe'";
        for _ in 0..3 {
            match self.connection.execute_batch(probe) {
                Ok(()) => return,
                Err(error) => tracing::error!(%error, "the disk does not take anything now"),
            }
            self.roll_back();
        }
    }

    /// Looks at the log now and then, and copies it into the database when it has become long.
    fn checkpoint_if_long(&mut self) {
        // A page holds several changes, an index spreads one over several pages: about as many.
        let quiet = self.shared.queue.len() == 0;
        if self.unchecked < if quiet { 500 } else { 4_000 } {
            return;
        }
        self.unchecked = 0;
        let limit = if quiet {
            CHECKPOINT_WHEN_QUIET
        } else {
            CHECKPOINT_ALWAYS
        };
        match self.log_pages() {
            Ok(pages) if pages < limit => {}
            Ok(_) => self.checkpoint(),
            Err(error) => tracing::warn!(%error, "the log's length cannot be read"),
        }
    }

    fn log_pages(&self) -> rusqlite::Result<i64> {
        let mut look = self
            .connection
            .prepare_cached("PRAGMA wal_checkpoint(NOOP)")?;
        look.query_row([], |row| row.get(1))
    }

    fn checkpoint(&self) {
        let copy = |connection: &Connection| -> rusqlite::Result<()> {
            let mut copy = connection.prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?;
            copy.query_row([], |_| Ok(()))
        };
        if let Err(error) = copy(&self.connection) {
            // The log goes on growing, and is copied when it can be.
            tracing::warn!(%error, "the log could not be copied into the database");
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
