//! Fair scheduling of child processes.
//!
//! Three semaphores are acquired in order: of the user, of the principal and of the node. All are FIFO, and the first
//! two admit few at once. So each principal has few entries in the node's queue, each user has one in the principal's,
//! and turns rotate, however many files one of them sends.

use super::FileOwner;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of files that wait or are read on a node. Each holds its bytes in memory.
const MAX_NODE_FILES: usize = 1_024;

/// Maximum number of them per principal.
const MAX_PRINCIPAL_FILES: usize = 256;

/// Maximum number of files of one user that are read at once.
const MAX_USER_PROCESSES: usize = 1;

#[derive(Debug)]
pub(super) struct ReaderSlots {
    queue: Arc<Semaphore>,
    processes: Arc<Semaphore>,
    principals: OwnerLimits,
    people: OwnerLimits,
}

/// Permission to run a child process, until it is dropped.
#[derive(Debug)]
pub(super) struct ReaderSlot {
    _permits: Vec<OwnedSemaphorePermit>,
    _shares: Vec<Arc<OwnerLimit>>,
}

impl ReaderSlots {
    pub(super) fn new(processes: usize) -> Self {
        let processes = processes.max(1);
        Self {
            queue: Arc::new(Semaphore::new(MAX_NODE_FILES)),
            processes: Arc::new(Semaphore::new(processes)),
            // One process is reserved for other principals.
            principals: OwnerLimits::new((processes - 1).max(1), MAX_PRINCIPAL_FILES),
            people: OwnerLimits::new(MAX_USER_PROCESSES, MAX_PRINCIPAL_FILES),
        }
    }

    /// Waits for a slot; returns `None` if too many files are waiting.
    pub(super) async fn acquire(&self, owner: &FileOwner) -> Option<ReaderSlot> {
        let mut permits = vec![self.queue.clone().try_acquire_owned().ok()?];
        let principal = self.principals.limit_for(&owner.principal);
        permits.push(principal.queue.clone().try_acquire_owned().ok()?);
        let mut shares = vec![principal.clone()];
        if let Some(person) = &owner.person {
            let person = self
                .people
                .limit_for(&format!("{}\n{person}", owner.principal));
            permits.push(person.running.clone().acquire_owned().await.ok()?);
            shares.push(person);
        }
        permits.push(principal.running.clone().acquire_owned().await.ok()?);
        permits.push(self.processes.clone().acquire_owned().await.ok()?);
        Some(ReaderSlot {
            _permits: permits,
            _shares: shares,
        })
    }
}

/// Limits of the owners whose files wait or are read.
#[derive(Debug)]
struct OwnerLimits {
    running: usize,
    queue: usize,
    by_name: Mutex<HashMap<String, Arc<OwnerLimit>>>,
}

#[derive(Debug)]
struct OwnerLimit {
    queue: Arc<Semaphore>,
    running: Arc<Semaphore>,
}

impl OwnerLimits {
    fn new(running: usize, queue: usize) -> Self {
        Self {
            running,
            queue,
            by_name: Mutex::default(),
        }
    }

    fn limit_for(&self, name: &str) -> Arc<OwnerLimit> {
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        // Only limits in use are kept; there are at most as many as entries in the queue.
        by_name.retain(|_, share| Arc::strong_count(share) > 1);
        let new = || {
            Arc::new(OwnerLimit {
                queue: Arc::new(Semaphore::new(self.queue)),
                running: Arc::new(Semaphore::new(self.running)),
            })
        };
        by_name.entry(name.to_owned()).or_insert_with(new).clone()
    }
}
