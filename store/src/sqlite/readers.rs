//! The readers: a few threads with a connection each, which cannot write and hold nobody up.

use super::fault::{Outcome, closed};
use super::job::unless_it_panics;
use super::queue::{Queue, Taken};
use interzone_hub::ports::StoreError;
use rusqlite::Connection;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::oneshot;

/// How many reads may wait.
const PLACES: usize = 4096;
/// How long a reader waits before it looks whether it should end; closing wakes it anyway.
const PATIENCE: Duration = Duration::from_secs(3600);

type Read = Box<dyn FnOnce(&Connection) + Send>;

/// The callers' end.
pub(super) struct Readers {
    queue: Arc<Queue<Read>>,
}

impl Readers {
    /// Starts a thread for each connection. What is handed back besides stops them and waits.
    pub(super) fn start(
        connections: Vec<Connection>,
    ) -> Result<(Self, impl FnOnce() + Send + use<>), StoreError> {
        let queue = Arc::new(Queue::new(PLACES));
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        for connection in connections {
            let queue = queue.clone();
            let thread = std::thread::Builder::new()
                .name("interzone-reads".to_owned())
                .spawn(move || work(&queue, &connection))
                .map_err(|error| StoreError::Unavailable(error.to_string()))?;
            threads.push(thread);
        }
        let stopped = queue.clone();
        let stop = move || {
            stopped.close();
            // A thread that panicked has nothing left to tell.
            threads.into_iter().for_each(|thread| drop(thread.join()));
            stopped.abandon();
        };
        Ok((Self { queue }, stop))
    }

    /// Lets nothing more in. The threads do what waits, and end.
    pub(super) fn close(&self) {
        self.queue.close();
    }

    /// Reads on one of the connections.
    pub(super) async fn read<T, F>(&self, work: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> Outcome<T> + Send + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let read: Read = Box::new(move |connection| {
            if reply.is_closed() {
                return;
            }
            let value = unless_it_panics(|| work(connection)).map_err(StoreError::from);
            // Whoever asked may have gone.
            drop(reply.send(value));
        });
        if !self.queue.push(read).await {
            return Err(closed());
        }
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}

fn work(queue: &Queue<Read>, connection: &Connection) {
    let mut taken = Vec::with_capacity(1);
    loop {
        match queue.take(&mut taken, 1, PATIENCE, |_| true) {
            Taken::Some => taken.drain(..).for_each(|read| read(connection)),
            Taken::Nothing => {}
            Taken::End => return,
        }
    }
}
