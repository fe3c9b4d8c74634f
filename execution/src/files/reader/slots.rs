//! Who may start a child process now.
//!
//! Three semaphores are passed one after another: of the person, of the principal, and of the node. All
//! are first in, first out, and the first two let few through at once. So each principal has few entries
//! in the node's queue, each person has one in the principal's, and turns go round, however many files
//! one of them sends.

use super::FileOwner;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How many files wait or are read on a node. Each holds its bytes in memory.
const NODE_QUEUE: usize = 1_024;

/// How many of them are of one principal.
const PRINCIPAL_QUEUE: usize = 256;

/// How many files of one person are read at once.
const PERSON_SHARE: usize = 1;

#[derive(Debug)]
pub(super) struct Slots {
    queue: Arc<Semaphore>,
    processes: Arc<Semaphore>,
    principals: Shares,
    people: Shares,
}

/// Permission to run a child process, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    _permits: Vec<OwnedSemaphorePermit>,
    _shares: Vec<Arc<Share>>,
}

impl Slots {
    pub(super) fn new(processes: usize) -> Self {
        let processes = processes.max(1);
        Self {
            queue: Arc::new(Semaphore::new(NODE_QUEUE)),
            processes: Arc::new(Semaphore::new(processes)),
            // One process is left to the others, whatever one principal sends.
            principals: Shares::new((processes - 1).max(1), PRINCIPAL_QUEUE),
            people: Shares::new(PERSON_SHARE, PRINCIPAL_QUEUE),
        }
    }

    /// Waits for a slot; nothing if too many wait already.
    pub(super) async fn acquire(&self, owner: &FileOwner) -> Option<Slot> {
        let mut permits = vec![self.queue.clone().try_acquire_owned().ok()?];
        let principal = self.principals.share(&owner.principal);
        permits.push(principal.queue.clone().try_acquire_owned().ok()?);
        let mut shares = vec![principal.clone()];
        if let Some(person) = &owner.person {
            let person = self.people.share(&format!("{}\n{person}", owner.principal));
            permits.push(person.running.clone().acquire_owned().await.ok()?);
            shares.push(person);
        }
        permits.push(principal.running.clone().acquire_owned().await.ok()?);
        permits.push(self.processes.clone().acquire_owned().await.ok()?);
        Some(Slot {
            _permits: permits,
            _shares: shares,
        })
    }
}

/// Those who have files that wait or are read.
#[derive(Debug)]
struct Shares {
    running: usize,
    queue: usize,
    by_name: Mutex<HashMap<String, Arc<Share>>>,
}

#[derive(Debug)]
struct Share {
    queue: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

impl Shares {
    fn new(running: usize, queue: usize) -> Self {
        Self {
            running,
            queue,
            by_name: Mutex::default(),
        }
    }

    fn share(&self, name: &str) -> Arc<Share> {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        // Shares that are in use alone are kept; there are no more of them than places in the queue.
        by_name.retain(|_, share| Arc::strong_count(share) > 1);
        let new = || {
            Arc::new(Share {
                queue: Arc::new(Semaphore::new(self.queue)),
                running: Arc::new(Semaphore::new(self.running)),
            })
        };
        by_name.entry(name.to_owned()).or_insert_with(new).clone()
    }
}
