//! One way out of the audit: lines wait in a bounded buffer, and one thread of its own writes them, many
//! at once. What a line says is not known here.

use crate::telemetry::Metrics;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Bytes that may wait. At 300 bytes a line it is some thousand lines, far more than a disk that
/// works ever has waiting.
const ROOM: usize = 1024 * 1024;
/// How long a line may wait for others to be written with. To wake a thread and to write costs far
/// more than a line.
const LINGER: Duration = Duration::from_millis(10);

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

/// Where lines go. Dropping it writes what still waits.
pub(super) struct Lines {
    queue: Arc<Queue>,
    metrics: Arc<Metrics>,
    writer: Option<JoinHandle<()>>,
}

impl Lines {
    pub(super) fn to(
        output: impl Write + Send + 'static,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let (theirs, counts) = (Arc::clone(&queue), Arc::clone(&metrics));
        let writer = thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write_all(output, &theirs, &counts))?;
        Ok(Self {
            queue,
            metrics,
            writer: Some(writer),
        })
    }

    /// Adds a line, or drops and counts it if there is no room.
    pub(super) fn push(&self, line: &[u8]) {
        let mut waiting = self.queue.lock();
        if waiting.bytes.len() + line.len() > ROOM {
            drop(waiting);
            return self.metrics.audit_dropped();
        }
        let first = waiting.bytes.is_empty();
        let before = waiting.bytes.len();
        waiting.bytes.extend_from_slice(line);
        waiting.lines += 1;
        let half = before < ROOM / 2 && waiting.bytes.len() >= ROOM / 2;
        drop(waiting);
        if first || half {
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

fn write_all(mut output: impl Write, queue: &Queue, metrics: &Metrics) {
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
        let more = |waiting: &mut Waiting| !waiting.closed && waiting.bytes.len() < ROOM / 2;
        let (mut waiting, _) = queue
            .changed
            .wait_timeout_while(waiting, LINGER, more)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut waiting.bytes, &mut bytes);
        let lines = std::mem::take(&mut waiting.lines);
        drop(waiting);
        match output.write_all(&bytes).and_then(|()| output.flush()) {
            Ok(()) => failing = false,
            Err(error) => {
                metrics.audit_dropped_many(lines);
                // Once for a row of failures: a full disk must not fill the log as well.
                if !std::mem::replace(&mut failing, true) {
                    tracing::error!(%error, "the audit cannot be written, lines are lost");
                }
            }
        }
        bytes.clear();
    }
}
