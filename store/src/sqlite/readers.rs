//! Reader threads: a few threads with a read-only connection each.

use super::batch_queue::{BatchQueue, PopResult};
use super::error::{SqliteResult, closed_error};
use super::write_job::catch_panic;
use interzone_hub::ports::StoreError;
use rusqlite::Connection;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// Maximum number of queued reads.
const READ_QUEUE_CAPACITY: usize = 4096;
/// Wait of a reader before it polls again; closing the queue wakes it anyway.
const READER_IDLE_TIMEOUT: Duration = Duration::from_secs(3600);

type ReadJob = Box<dyn FnOnce(&Connection) + Send>;

/// Handle of the reader threads, for callers.
pub(super) struct Readers {
    queue: Arc<BatchQueue<ReadJob>>,
}

impl Readers {
    /// Starts a thread for each connection. The returned closure stops the threads and waits for them.
    pub(super) fn start(
        connections: Vec<Connection>,
    ) -> Result<(Self, impl FnOnce() + Send + use<>), StoreError> {
        let queue = Arc::new(BatchQueue::new(READ_QUEUE_CAPACITY));
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        for connection in connections {
            let queue = queue.clone();
            let thread = std::thread::Builder::new()
                .name("interzone-reads".to_owned())
                .spawn(move || run_reader(&queue, &connection))
                .map_err(|error| StoreError::Unavailable(error.to_string()))?;
            threads.push(thread);
        }
        let stopped = queue.clone();
        let stop = move || {
            stopped.close();
            // A thread that panicked has logged it.
            threads.into_iter().for_each(|thread| drop(thread.join()));
            stopped.abandon();
        };
        Ok((Self { queue }, stop))
    }

    /// Closes the queue. The threads finish the queued reads and end.
    pub(super) fn close(&self) {
        self.queue.close();
    }

    /// Runs a read on one of the connections.
    pub(super) async fn read<T, F>(&self, body: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> SqliteResult<T> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let read: ReadJob = Box::new(move |connection| {
            if reply.is_closed() {
                return;
            }
            let value = catch_panic(|| body(connection)).map_err(StoreError::from);
            // The caller may be gone.
            drop(reply.send(value));
        });
        if !self.queue.push(read).await {
            return Err(closed_error());
        }
        answer.await.unwrap_or_else(|_| Err(closed_error()))
    }
}

fn run_reader(queue: &BatchQueue<ReadJob>, connection: &Connection) {
    let mut jobs = Vec::with_capacity(1);
    loop {
        match queue.pop_batch(&mut jobs, 1, READER_IDLE_TIMEOUT, |_| true) {
            PopResult::Popped => jobs.drain(..).for_each(|read| read(connection)),
            PopResult::TimedOut => {}
            PopResult::Closed => return,
        }
    }
}
