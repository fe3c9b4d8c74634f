//! The thread that copies the log into the database while the writer goes on writing. When to copy is
//! the log's business; here is only the copy.

use interzone_hub::ports::StoreError;
use rusqlite::Connection;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread::JoinHandle;

/// What came of a copy.
pub(super) enum Copied {
    /// What could be copied is on the disk.
    Well,
    /// It was not copied, and the log counts none of it as copied.
    Not(rusqlite::Error),
    /// The log counts it as copied, and it may not be on the disk.
    Perhaps(std::io::Error),
}

/// The writer's end. It asks for one copy at a time and hears how that went.
pub(super) struct Copier {
    asks: Option<SyncSender<()>>,
    reports: Receiver<Copied>,
    at_work: bool,
    thread: Option<JoinHandle<()>>,
    /// Closing a file lets go of all locks that the process has on it, those of the engine too. So it
    /// stays open until this is dropped, which must be after all connections.
    _database: Arc<File>,
}

impl Copier {
    /// Starts the thread, with a connection of its own and the database as a file.
    pub(super) fn start(connection: Connection, database: File) -> Result<Self, StoreError> {
        Self::with(database, move |database| copy(&connection, database))
    }

    /// The same, with what is done for a copy.
    pub(super) fn with(
        database: File,
        copy: impl FnMut(&File) -> Copied + Send + 'static,
    ) -> Result<Self, StoreError> {
        let database = Arc::new(database);
        let file = database.clone();
        let (asks, asked) = sync_channel(1);
        let (report, reports) = sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("interzone-copy".to_owned())
            .spawn(move || work(copy, &file, &asked, &report))
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Self {
            asks: Some(asks),
            reports,
            at_work: false,
            thread: Some(thread),
            _database: database,
        })
    }

    /// Asks for a copy, unless one is being made. Answers whether there is somebody to ask.
    pub(super) fn ask(&mut self) -> bool {
        if !self.at_work {
            self.at_work = self.asks.as_ref().is_some_and(|asks| asks.send(()).is_ok());
        }
        self.at_work
    }

    /// What came of the copy that was asked for, if it is done. Does not wait.
    pub(super) fn report(&mut self) -> Option<Copied> {
        if !self.at_work {
            return None;
        }
        let report = match self.reports.try_recv() {
            Ok(report) => Some(report),
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => None,
        };
        self.at_work = false;
        report
    }

    /// As [`Copier::report`], when the copy is done.
    pub(super) fn wait(&mut self) -> Option<Copied> {
        let report = self.at_work.then(|| self.reports.recv().ok()).flatten();
        self.at_work = false;
        report
    }

    pub(super) fn is_at_work(&self) -> bool {
        self.at_work
    }

    /// Ends the thread and waits for that.
    pub(super) fn end(&mut self) {
        self.asks = None;
        if let Some(thread) = self.thread.take() {
            // It has logged why, if it panicked.
            drop(thread.join());
        }
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        self.end();
    }
}

fn work(
    mut copy: impl FnMut(&File) -> Copied,
    database: &File,
    asked: &Receiver<()>,
    report: &SyncSender<Copied>,
) {
    while asked.recv().is_ok() {
        // There is room for the one report that is waited for.
        if report.send(copy(database)).is_err() {
            return;
        }
    }
}

/// Copies what is in the log now. The engine syncs the database only if nothing was written to the log
/// meanwhile; else that would be left to the writer, with all those waiting who wait for it.
pub(super) fn copy(connection: &Connection, database: &File) -> Copied {
    let copied = connection
        .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")
        .and_then(|mut copy| copy.query_row([], |_| Ok(())));
    match copied {
        Err(error) => Copied::Not(error),
        Ok(()) => database
            .sync_data()
            .map_or_else(Copied::Perhaps, |()| Copied::Well),
    }
}
