//! Memory for answers and for what agents are given, reserved before it is read.

use async_trait::async_trait;
use interzone_edge::budget::{MemoryBudget, Reservation, ShareKey};
use interzone_hub::ReadMemory;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long a call waits for memory that other answers take. A caller that reads several large tasks at once is
/// served one after another then, and need not ask again.
const WAIT: Duration = Duration::from_secs(2);

/// What one call or run may read: a part of a memory budget. Up to 64 KiB need none.
pub(crate) struct MemoryAccount {
    budget: MemoryBudget,
    key: ShareKey,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    wanted: usize,
    reserved: Option<Reservation>,
}

impl MemoryAccount {
    pub(crate) fn new(budget: &MemoryBudget, key: ShareKey) -> Self {
        Self {
            budget: budget.clone(),
            key,
            state: Mutex::default(),
        }
    }

    /// What was reserved, for the answer to be counted in.
    pub(crate) fn into_reservation(self) -> Option<Reservation> {
        let state = self.state.into_inner();
        state.unwrap_or_else(PoisonError::into_inner).reserved
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has so many bytes reserved. Says whether there was that much, and if not, whether the call has some already.
    fn grow_to(&self, wanted: usize) -> Result<(), Lacking> {
        let mut state = self.lock();
        if wanted <= MemoryBudget::PAGE {
            return Ok(());
        }
        // One answer may be larger than half of what its caller may have in its only reservation.
        let bytes = wanted.min(self.budget.largest(&self.key));
        let grown = match &mut state.reserved {
            Some(reserved) => reserved.grow_to(bytes),
            None => {
                state.reserved = self.budget.reserve(&self.key, bytes);
                state.reserved.is_some()
            }
        };
        match (grown, &state.reserved) {
            (true, _) => Ok(()),
            (false, Some(_)) => Err(Lacking::More),
            (false, None) => Err(Lacking::All),
        }
    }
}

/// What could not be reserved.
enum Lacking {
    /// Anything at all.
    All,
    /// More than there is already.
    More,
}

#[async_trait]
impl ReadMemory for MemoryAccount {
    async fn reserve(&self, bytes: usize) -> bool {
        let wanted = self.lock().wanted.saturating_add(bytes);
        let until = Instant::now() + WAIT;
        loop {
            let released = self.budget.released();
            match self.grow_to(wanted) {
                Ok(()) => {
                    self.lock().wanted = wanted;
                    return true;
                }
                // Calls that have some and wait for more could wait for each other.
                Err(Lacking::More) => return false,
                Err(Lacking::All) => {}
            }
            if timeout_at(until, released).await.is_err() {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use interzone_edge::budget::Shares;

    const PAGE: usize = MemoryBudget::PAGE;

    fn memory(budget: &MemoryBudget, principal: &str) -> MemoryAccount {
        MemoryAccount::new(budget, ShareKey::Principal(principal.into()))
    }

    fn budget(pages: usize) -> MemoryBudget {
        let shares = Shares {
            address: 1,
            principal: 2,
        };
        MemoryBudget::with_shares(pages * PAGE, shares)
    }

    #[tokio::test(start_paused = true)]
    async fn little_needs_no_reservation_and_much_does() {
        let budget = budget(4);
        let memory = memory(&budget, "anna");
        assert!(memory.reserve(PAGE / 2).await);
        assert!(memory.reserve(PAGE / 2).await);
        assert!(memory.lock().reserved.is_none());
        assert!(memory.reserve(1).await);
        let reserved = memory.into_reservation();
        assert_eq!(reserved.map(|reserved| reserved.bytes()), Some(2 * PAGE));
    }

    #[tokio::test(start_paused = true)]
    async fn call_waits_for_memory_until_another_answer_is_sent() {
        let budget = budget(4);
        let first = memory(&budget, "anna");
        assert!(first.reserve(2 * PAGE).await);
        let second = memory(&budget, "anna");
        let (reserved, ()) = tokio::join!(second.reserve(2 * PAGE), async {
            tokio::task::yield_now().await;
            drop(first);
        });
        assert!(reserved);
        let third = memory(&budget, "anna");
        let asked = Instant::now();
        assert!(!third.reserve(2 * PAGE).await, "its time is over");
        assert_eq!(asked.elapsed(), WAIT);
        assert!(memory(&budget, "bert").reserve(2 * PAGE).await);
    }

    #[tokio::test(start_paused = true)]
    async fn call_that_has_memory_does_not_wait_for_more() {
        let budget = budget(4);
        let (anna, bert) = (memory(&budget, "anna"), memory(&budget, "bert"));
        assert!(anna.reserve(2 * PAGE).await && bert.reserve(2 * PAGE).await);
        let asked = Instant::now();
        assert!(!anna.reserve(PAGE).await);
        assert_eq!(asked.elapsed(), Duration::ZERO);
    }
}
