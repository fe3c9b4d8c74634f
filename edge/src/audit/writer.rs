//! Audit writer: lines wait in a bounded buffer, and a dedicated thread writes them in batches.

use crate::telemetry::Metrics;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Maximum number of buffered bytes. At 300 bytes a line it is some thousand lines, far more than a working disk ever
/// has waiting.
const BUFFER_LIMIT: usize = 1024 * 1024;
/// Time that a line may wait for others to be written with. Waking a thread and writing cost far more than a line.
const BATCH_DELAY: Duration = Duration::from_millis(10);

#[derive(Default)]
struct PendingLines {
    bytes: Vec<u8>,
    lines: u64,
    closed: bool,
}

#[derive(Default)]
struct AuditQueue {
    pending: Mutex<PendingLines>,
    changed: Condvar,
}

impl AuditQueue {
    fn lock(&self) -> MutexGuard<'_, PendingLines> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asynchronous writer of audit lines. Dropping it writes the pending lines.
pub(super) struct AuditWriter {
    queue: Arc<AuditQueue>,
    metrics: Arc<Metrics>,
    thread: Option<JoinHandle<()>>,
}

impl AuditWriter {
    pub(super) fn spawn(
        output: impl Write + Send + 'static,
        metrics: Arc<Metrics>,
    ) -> io::Result<Self> {
        let queue = Arc::new(AuditQueue::default());
        let (writer_queue, counts) = (Arc::clone(&queue), Arc::clone(&metrics));
        let writer = thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write_all(output, &writer_queue, &counts))?;
        Ok(Self {
            queue,
            metrics,
            thread: Some(writer),
        })
    }

    /// Queues a line, or drops and counts it if the buffer is full.
    pub(super) fn push(&self, line: &[u8]) {
        let mut waiting = self.queue.lock();
        if waiting.bytes.len() + line.len() > BUFFER_LIMIT {
            drop(waiting);
            return self.metrics.record_audit_dropped();
        }
        let was_empty = waiting.bytes.is_empty();
        let before = waiting.bytes.len();
        waiting.bytes.extend_from_slice(line);
        waiting.lines += 1;
        let is_half_full = before < BUFFER_LIMIT / 2 && waiting.bytes.len() >= BUFFER_LIMIT / 2;
        drop(waiting);
        if was_empty || is_half_full {
            self.queue.changed.notify_one();
        }
    }
}

impl Drop for AuditWriter {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.changed.notify_one();
        if let Some(writer) = self.thread.take() {
            // The result of a panicked writer is ignored.
            let _ = writer.join();
        }
    }
}

impl std::fmt::Debug for AuditWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AuditWriter")
    }
}

fn write_all(mut output: impl Write, queue: &AuditQueue, metrics: &Metrics) {
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
        let keep_waiting =
            |waiting: &mut PendingLines| !waiting.closed && waiting.bytes.len() < BUFFER_LIMIT / 2;
        let (mut waiting, _) = queue
            .changed
            .wait_timeout_while(waiting, BATCH_DELAY, keep_waiting)
            .unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut waiting.bytes, &mut bytes);
        let lines = std::mem::take(&mut waiting.lines);
        drop(waiting);
        match output.write_all(&bytes).and_then(|()| output.flush()) {
            Ok(()) => failing = false,
            Err(error) => {
                metrics.record_audit_dropped_many(lines);
                // Logged once per series of failures: a full disk must not fill the log as well.
                if !std::mem::replace(&mut failing, true) {
                    tracing::error!(%error, "audit write failed, lines lost");
                }
            }
        }
        bytes.clear();
    }
}
