//! The single writer: group commit. It takes all queued jobs, writes them in one transaction, syncs once, and
//! only then replies.
//!
//! A group is first tried without savepoints, which would copy every page that a job touches. Most
//! jobs that fail do so before they have written anything, and then nothing needs to be undone. If
//! one fails later, the group is rolled back and repeated with a savepoint for each job.

use super::batch_queue::BatchQueue;
use super::cache::TaskCache;
use super::disk_failure::DiskHealth;
use super::error::{SqliteResult, closed_error};
use super::open::OpenDatabase;
use super::write_job::{ClosureJob, WriteJob, WriteSession};
use checkpoint_policy::CheckpointPolicy;
use checkpointer::Checkpointer;
use group_commit::WriterLoop;
use interzone_hub::ports::{ChangeHint, StoreError};
use rusqlite::Connection;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{broadcast, oneshot};

mod checkpoint_policy;
mod checkpointer;
mod group_commit;

/// Maximum number of queued jobs.
const WRITE_QUEUE_CAPACITY: usize = 4096;
/// Duration of a group after which further calls are rejected.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Handle of the writer thread, for callers.
pub(super) struct WriterHandle {
    shared: Arc<WriterShared>,
    thread: Option<JoinHandle<()>>,
}

struct WriterShared {
    queue: BatchQueue<Box<dyn WriteJob>>,
    wakes: broadcast::Sender<ChangeHint>,
    started_at: Instant,
    /// Start of the current group, in milliseconds since `started_at` plus one; zero between groups.
    busy_since: AtomicU64,
    group_commits: AtomicU64,
}

impl WriterHandle {
    /// Starts the writer thread and the checkpointer thread. The writer holds the lock, and stops the readers
    /// before it ends.
    pub(super) fn start(
        opened: OpenDatabase,
        checkpointer: (Connection, File),
        disk: DiskHealth,
        wakes: broadcast::Sender<ChangeHint>,
        cache: Arc<TaskCache>,
        stop_readers: impl FnOnce() + Send + 'static,
    ) -> Result<Self, StoreError> {
        let shared = Arc::new(WriterShared {
            queue: BatchQueue::new(WRITE_QUEUE_CAPACITY),
            wakes,
            started_at: Instant::now(),
            busy_since: AtomicU64::new(0),
            group_commits: AtomicU64::new(0),
        });
        let checkpoint_policy =
            CheckpointPolicy::new(Checkpointer::start(checkpointer.0, checkpointer.1)?, disk);
        let OpenDatabase {
            lock,
            connection,
            counters,
            ..
        } = opened;
        let writer_loop = WriterLoop::new(
            shared.clone(),
            connection,
            counters,
            cache,
            checkpoint_policy,
        );
        let thread = std::thread::Builder::new()
            .name("interzone-store".to_owned())
            .spawn(move || {
                writer_loop.run(stop_readers);
                drop(lock);
            })
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Runs a job and waits until it is durable.
    pub(super) async fn write<T, F>(&self, estimated_bytes: usize, body: F) -> Result<T, StoreError>
    where
        F: FnMut(&mut WriteSession<'_>) -> SqliteResult<T> + Send + 'static,
        T: Send + 'static,
    {
        self.submit(false, estimated_bytes, body).await
    }

    /// As [`WriterHandle::write`], for a job that must run outside of a transaction.
    pub(super) async fn write_outside_transaction<T, F>(&self, body: F) -> Result<T, StoreError>
    where
        F: FnMut(&mut WriteSession<'_>) -> SqliteResult<T> + Send + 'static,
        T: Send + 'static,
    {
        self.submit(true, 0, body).await
    }

    async fn submit<T, F>(
        &self,
        outside_transaction: bool,
        estimated_bytes: usize,
        body: F,
    ) -> Result<T, StoreError>
    where
        F: FnMut(&mut WriteSession<'_>) -> SqliteResult<T> + Send + 'static,
        T: Send + 'static,
    {
        self.shared.reject_if_stalled()?;
        let (reply, answer) = oneshot::channel();
        let job = ClosureJob {
            body,
            value: None,
            reply,
            outside_transaction,
            estimated_bytes,
        };
        if !self.shared.queue.push(Box::new(job)).await {
            return Err(closed_error());
        }
        match answer.await {
            Ok((outcome, _done)) => outcome,
            Err(_) => Err(closed_error()),
        }
    }

    /// Number of group commits.
    pub(super) fn group_commit_count(&self) -> u64 {
        self.shared.group_commits.load(Ordering::Relaxed)
    }

    /// Closes the queue. The thread finishes the queued jobs and ends.
    pub(super) fn close(&self) {
        self.shared.queue.close();
    }

    /// Closes the queue and waits for the thread to end.
    pub(super) fn join(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            // A panic has been logged by the thread.
            drop(thread.join());
        }
    }
}

impl WriterShared {
    fn reject_if_stalled(&self) -> Result<(), StoreError> {
        let since = self.busy_since.load(Ordering::Relaxed);
        if since == 0 || self.elapsed_millis().saturating_sub(since) < as_millis(STALL_TIMEOUT) {
            return Ok(());
        }
        Err(StoreError::Unavailable(
            "the disk has not completed a write for a long time".to_owned(),
        ))
    }

    fn elapsed_millis(&self) -> u64 {
        as_millis(self.started_at.elapsed()) + 1
    }
}

fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
