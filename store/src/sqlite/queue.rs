//! Work that waits for a thread: bounded, so that those who bring it wait when there is too much.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// A queue from async callers to threads.
pub(super) struct Queue<J> {
    state: Mutex<State<J>>,
    /// Told when there is something to take.
    filled: Condvar,
    /// One permit for each free place.
    places: Semaphore,
}

struct State<J> {
    jobs: VecDeque<J>,
    /// How many threads wait, so that nobody pays for waking none.
    idle: usize,
    closed: bool,
}

/// What came of waiting for jobs.
pub(super) enum Taken {
    Some,
    /// Nothing came for the whole time.
    Nothing,
    /// Nothing will ever come.
    End,
}

impl<J> Queue<J> {
    pub(super) fn new(places: usize) -> Self {
        Self {
            state: Mutex::new(State {
                jobs: VecDeque::new(),
                idle: 0,
                closed: false,
            }),
            filled: Condvar::new(),
            places: Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS)),
        }
    }

    /// Adds a job, when there is a place for it. Answers whether it was added: not if it is closed.
    pub(super) async fn push(&self, job: J) -> bool {
        let Ok(place) = self.places.acquire().await else {
            return false;
        };
        place.forget();
        let mut state = self.lock();
        if state.closed {
            return false;
        }
        state.jobs.push_back(job);
        let sleeping = state.idle > 0;
        drop(state);
        if sleeping {
            self.filled.notify_one();
        }
        true
    }

    /// Waits for a job, then takes all that wait, as long as there are fewer than `most` and `fits`
    /// agrees to the next.
    pub(super) fn take(
        &self,
        into: &mut Vec<J>,
        most: usize,
        patience: Duration,
        mut fits: impl FnMut(&J) -> bool,
    ) -> Taken {
        let mut state = self.lock();
        while state.jobs.is_empty() {
            if state.closed {
                return Taken::End;
            }
            state.idle += 1;
            let (woken, time) = self
                .filled
                .wait_timeout(state, patience)
                .unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if time.timed_out() && state.jobs.is_empty() && !state.closed {
                return Taken::Nothing;
            }
        }
        let mut taken = 0;
        while taken < most {
            let Some(job) = state.jobs.front() else {
                break;
            };
            // One that fits nowhere goes alone.
            if !fits(job) && taken > 0 {
                break;
            }
            into.extend(state.jobs.pop_front());
            taken += 1;
        }
        drop(state);
        self.places.add_permits(taken);
        Taken::Some
    }

    /// Lets nothing more in. What is in will be taken.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.places.close();
        self.filled.notify_all();
    }

    /// Lets nothing more in and drops what is in, because nobody is left to take it.
    pub(super) fn abandon(&self) {
        self.close();
        let left = std::mem::take(&mut self.lock().jobs);
        drop(left);
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        // Nothing is half done when a thread panics here.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
