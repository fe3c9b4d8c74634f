//! Checkpointer: the thread that checkpoints the WAL into the database while the writer goes on writing. The
//! checkpoint policy decides when.

use interzone_hub::ports::StoreError;
use rusqlite::Connection;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

/// Result of a checkpoint.
pub(super) enum CheckpointResult {
    /// The checkpointed pages are synced to disk.
    Synced,
    /// The checkpoint failed, and the WAL does not count any page as checkpointed.
    Failed(rusqlite::Error),
    /// The WAL counts the pages as checkpointed, but they may not be on disk.
    SyncFailed(std::io::Error),
}

/// Handle of the checkpointer thread, for the writer. One checkpoint is requested at a time.
pub(super) struct Checkpointer {
    requests: Option<SyncSender<()>>,
    results: Receiver<CheckpointResult>,
    is_running: bool,
    thread: Option<JoinHandle<()>>,
    /// Closing a file releases all locks that the process has on it, SQLite's included. So it
    /// stays open until this is dropped, which must be after all connections.
    _database: Arc<File>,
}

impl Checkpointer {
    /// Starts the thread, with a connection of its own and the database as a file.
    pub(super) fn start(connection: Connection, database: File) -> Result<Self, StoreError> {
        Self::start_with(database, move |database| checkpoint(&connection, database))
    }

    /// Starts the thread with a given checkpoint function.
    pub(super) fn start_with(
        database: File,
        checkpoint: impl FnMut(&File) -> CheckpointResult + Send + 'static,
    ) -> Result<Self, StoreError> {
        let database = Arc::new(database);
        let file = database.clone();
        let (requests, request_receiver) = sync_channel(1);
        let (result_sender, results) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("interzone-ckpt".to_owned())
            .spawn(move || run_checkpointer(checkpoint, &file, &request_receiver, &result_sender))
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Self {
            requests: Some(requests),
            results,
            is_running: false,
            thread: Some(thread),
            _database: database,
        })
    }

    /// Requests a checkpoint, unless one is running. Returns false if the thread is gone.
    pub(super) fn request(&mut self) -> bool {
        if !self.is_running {
            self.is_running = self
                .requests
                .as_ref()
                .is_some_and(|asks| asks.send(()).is_ok());
        }
        self.is_running
    }

    /// Returns the result of the requested checkpoint, if it is done. Does not wait.
    pub(super) fn poll(&mut self) -> Option<CheckpointResult> {
        if !self.is_running {
            return None;
        }
        let result = match self.results.try_recv() {
            Ok(report) => Some(report),
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => None,
        };
        self.is_running = false;
        result
    }

    /// As [`Checkpointer::poll`], but waits for the checkpoint.
    pub(super) fn wait(&mut self) -> Option<CheckpointResult> {
        let result = self.is_running.then(|| self.results.recv().ok()).flatten();
        self.is_running = false;
        result
    }

    pub(super) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Ends the thread and waits for it.
    pub(super) fn stop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic has been logged by the thread.
            drop(thread.join());
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn run_checkpointer(
    mut checkpoint: impl FnMut(&File) -> CheckpointResult,
    database: &File,
    requests: &Receiver<()>,
    results: &SyncSender<CheckpointResult>,
) {
    while requests.recv().is_ok() {
        // The channel has capacity for the one pending result.
        if results.send(checkpoint(database)).is_err() {
            return;
        }
    }
}

/// Checkpoints the current content of the WAL. SQLite syncs the database only if nothing was written to the WAL
/// during the checkpoint; otherwise the writer would have to sync, which delays all its callers.
pub(super) fn checkpoint(connection: &Connection, database: &File) -> CheckpointResult {
    let result = connection
        .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")
        .and_then(|mut copy| copy.query_row([], |_| Ok(())));
    match result {
        Err(error) => CheckpointResult::Failed(error),
        Ok(()) => database
            .sync_data()
            .map_or_else(CheckpointResult::SyncFailed, |()| CheckpointResult::Synced),
    }
}
