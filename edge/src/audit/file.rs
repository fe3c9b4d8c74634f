//! The file of the audit: lines wait in a bounded buffer, and one thread of its own writes them.
//! What a line says is not known here.

use crate::telemetry::Metrics;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

/// Bytes that may wait. At 300 bytes a line it is some thousand lines, far more than a disk that
/// works ever has waiting.
const ROOM: usize = 1024 * 1024;

#[derive(Default)]
struct Waiting {
    bytes: Vec<u8>,
    lines: u64,
    closed: bool,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open file of lines. Dropping it writes what still waits.
pub(super) struct Lines {
    queue: Arc<Queue>,
    metrics: Arc<Metrics>,
    writer: Option<JoinHandle<()>>,
}

impl Lines {
    pub(super) fn open(path: &Path, metrics: Arc<Metrics>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        let queue = Arc::new(Queue::default());
        let (theirs, counts) = (Arc::clone(&queue), Arc::clone(&metrics));
        let writer = thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write_all(file, &theirs, &counts))?;
        Ok(Self {
            queue,
            metrics,
            writer: Some(writer),
        })
    }

    /// Adds a line, or drops and counts it if there is no room.
    pub(super) fn push(&self, line: &str) {
        let mut waiting = self.queue.lock();
        if waiting.bytes.len() + line.len() >= ROOM {
            drop(waiting);
            return self.metrics.audit_dropped();
        }
        let first = waiting.bytes.is_empty();
        waiting.bytes.extend_from_slice(line.as_bytes());
        waiting.bytes.push(b'\n');
        waiting.lines += 1;
        drop(waiting);
        if first {
            self.queue.changed.notify_one();
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.changed.notify_one();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has nothing more to tell.
            let _ = writer.join();
        }
    }
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lines")
    }
}

fn write_all(mut file: File, queue: &Queue, metrics: &Metrics) {
    let mut bytes = Vec::new();
    let mut failing = false;
    loop {
        let mut waiting = queue.lock();
        while waiting.bytes.is_empty() && !waiting.closed {
            waiting = queue
                .changed
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if waiting.bytes.is_empty() {
            return;
        }
        std::mem::swap(&mut waiting.bytes, &mut bytes);
        let lines = std::mem::take(&mut waiting.lines);
        drop(waiting);
        match file.write_all(&bytes) {
            Ok(()) => failing = false,
            Err(error) => {
                metrics.audit_dropped_many(lines);
                // Once for a row of failures: a full disk must not fill the log as well.
                if !std::mem::replace(&mut failing, true) {
                    tracing::error!(%error, "the audit file cannot be written, lines are lost");
                }
            }
        }
        bytes.clear();
    }
}
