//! Bounded queue from async callers to threads, popped in batches; callers wait when it is full (backpressure).

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// A bounded batch queue from async callers to threads.
pub(super) struct BatchQueue<J> {
    state: Mutex<QueueState<J>>,
    /// Notified when there is something to pop.
    not_empty: Condvar,
    /// One permit for each free slot.
    free_slots: Semaphore,
}

struct QueueState<J> {
    jobs: VecDeque<J>,
    /// Number of waiting threads, so that no notification is sent when none waits.
    idle_threads: usize,
    is_closed: bool,
}

/// Result of waiting for jobs.
pub(super) enum PopResult {
    Popped,
    /// No job arrived in time.
    TimedOut,
    /// The queue is closed and empty.
    Closed,
}

impl<J> BatchQueue<J> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            state: Mutex::new(QueueState {
                jobs: VecDeque::new(),
                idle_threads: 0,
                is_closed: false,
            }),
            not_empty: Condvar::new(),
            free_slots: Semaphore::new(capacity.clamp(1, Semaphore::MAX_PERMITS)),
        }
    }

    /// Adds a job, when there is a free slot. Returns false if the queue is closed.
    pub(super) async fn push(&self, job: J) -> bool {
        let Ok(slot) = self.free_slots.acquire().await else {
            return false;
        };
        slot.forget();
        let mut state = self.lock();
        if state.is_closed {
            return false;
        }
        state.jobs.push_back(job);
        let has_waiter = state.idle_threads > 0;
        drop(state);
        if has_waiter {
            self.not_empty.notify_one();
        }
        true
    }

    /// Waits for a job, then pops all that wait, as long as there are fewer than `max_jobs` and `fits`
    /// accepts the next.
    pub(super) fn pop_batch(
        &self,
        into: &mut Vec<J>,
        max_jobs: usize,
        timeout: Duration,
        mut fits: impl FnMut(&J) -> bool,
    ) -> PopResult {
        let mut state = self.lock();
        while state.jobs.is_empty() {
            if state.is_closed {
                return PopResult::Closed;
            }
            state.idle_threads += 1;
            let (guard, wait_result) = self
                .not_empty
                .wait_timeout(state, timeout)
                .unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.idle_threads -= 1;
            if wait_result.timed_out() && state.jobs.is_empty() && !state.is_closed {
                return PopResult::TimedOut;
            }
        }
        let mut popped = 0;
        while popped < max_jobs {
            let Some(job) = state.jobs.front() else {
                break;
            };
            // A job that fits into no batch goes alone.
            if !fits(job) && popped > 0 {
                break;
            }
            into.extend(state.jobs.pop_front());
            popped += 1;
        }
        drop(state);
        self.free_slots.add_permits(popped);
        PopResult::Popped
    }

    /// Closes the queue. Queued jobs will still be popped.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.free_slots.close();
        self.not_empty.notify_all();
    }

    /// Closes the queue and drops queued jobs, because no thread is left to pop them.
    pub(super) fn abandon(&self) {
        self.close();
        let remaining = std::mem::take(&mut self.lock().jobs);
        drop(remaining);
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<J>> {
        // Every critical section is panic-safe, so a poisoned lock is usable.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
