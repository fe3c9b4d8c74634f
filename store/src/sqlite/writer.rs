//! The one writer: takes everything that waits, writes it in one transaction, syncs once, and only
//! then answers.
//!
//! A group is first tried without savepoints, which would copy every page that a job touches. Most
//! jobs that fail do so before they have written anything, and then nothing needs to be undone. If
//! one fails later, the group is rolled back and done again with a savepoint for each job.

use super::cache::TaskCache;
use super::failure::Disk;
use super::fault::{Outcome, closed};
use super::job::{Call, Job, Session};
use super::open::Opened;
use super::queue::Queue;
use copier::Copier;
use desk::Desk;
use interzone_hub::ports::{StoreError, Wake};
use log::Log;
use rusqlite::Connection;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{broadcast, oneshot};

mod copier;
mod desk;
mod log;

/// How many jobs may wait.
const PLACES: usize = 4096;
/// How long a group may take before callers are told that the store cannot get on.
const STALLED: Duration = Duration::from_secs(30);

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
    /// Starts the thread, and the one that copies the log for it. It keeps the lock, and ends after the
    /// readers that it is given.
    pub(super) fn start(
        opened: Opened,
        copier: (Connection, File),
        disk: Disk,
        wakes: broadcast::Sender<Wake>,
        cache: Arc<TaskCache>,
        readers: impl FnOnce() + Send + 'static,
    ) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared {
            queue: Queue::new(PLACES),
            wakes,
            started: Instant::now(),
            busy_since: AtomicU64::new(0),
            groups: AtomicU64::new(0),
        });
        let log = Log::new(Copier::start(copier.0, copier.1)?, disk);
        let Opened {
            lock,
            connection,
            counters,
            ..
        } = opened;
        let desk = Desk::new(shared.clone(), connection, counters, cache, log);
        let thread = std::thread::Builder::new()
            .name("interzone-store".to_owned())
            .spawn(move || {
                desk.work(readers);
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
        match answer.await {
            Ok((outcome, _done)) => outcome,
            Err(_) => Err(closed()),
        }
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
