//! Memory accounts: memory for responses and for agent input is reserved before content is read.

use async_trait::async_trait;
use interzone_edge::budget::{MemoryBudget, Reservation, ShareKey};
use interzone_hub::ReadMemory;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Time the calls of a request wait for response memory. A caller that reads several large tasks at once is then served
/// one after another and does not have to retry.
const RESERVATION_TIMEOUT: Duration = Duration::from_secs(2);

/// Deadline of all waits for memory of one request, set by the first. Calls of a batch that waited one after another
/// would exceed the time of the request. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct ReservationDeadline(Arc<OnceLock<Instant>>);

impl ReservationDeadline {
    fn get(&self) -> Instant {
        *self.0.get_or_init(|| Instant::now() + RESERVATION_TIMEOUT)
    }
}

/// Memory that one call or run may read, a part of a memory budget. The first 64 KiB need no reservation.
pub(crate) struct MemoryAccount {
    budget: MemoryBudget,
    key: ShareKey,
    /// Deadline of the request; `None` if each wait has its own.
    deadline: Option<ReservationDeadline>,
    state: Mutex<AccountState>,
}

#[derive(Default)]
struct AccountState {
    wanted: usize,
    reserved: Option<Reservation>,
}

impl MemoryAccount {
    pub(crate) fn new(budget: &MemoryBudget, key: ShareKey) -> Self {
        Self {
            budget: budget.clone(),
            key,
            deadline: None,
            state: Mutex::default(),
        }
    }

    /// Limits all waits by the deadline of a request.
    pub(crate) fn with_deadline(mut self, deadline: &ReservationDeadline) -> Self {
        self.deadline = Some(deadline.clone());
        self
    }

    /// Returns the reservation, which the response body then holds.
    pub(crate) fn into_reservation(self) -> Option<Reservation> {
        let state = self.state.into_inner();
        state.unwrap_or_else(PoisonError::into_inner).reserved
    }

    fn lock(&self) -> MutexGuard<'_, AccountState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grows the reservation to this many bytes. The error tells if the call already has a reservation.
    fn grow_to(&self, wanted: usize) -> Result<(), ReserveError> {
        let mut state = self.lock();
        if wanted <= MemoryBudget::PAGE {
            return Ok(());
        }
        // A single response may exceed half of its caller's share if it is the caller's only reservation.
        let bytes = wanted.min(self.budget.max_reservation(&self.key));
        let grown = match &mut state.reserved {
            Some(reserved) => reserved.grow_to(bytes),
            None => {
                state.reserved = self.budget.reserve(&self.key, bytes);
                state.reserved.is_some()
            }
        };
        match (grown, &state.reserved) {
            (true, _) => Ok(()),
            (false, Some(_)) => Err(ReserveError::CannotGrow),
            (false, None) => Err(ReserveError::NothingReserved),
        }
    }
}

/// Failed reservation.
enum ReserveError {
    /// The call has no memory reserved.
    NothingReserved,
    /// The call holds a reservation that cannot grow.
    CannotGrow,
}

#[async_trait]
impl ReadMemory for MemoryAccount {
    async fn reserve(&self, bytes: usize) -> bool {
        let wanted = self.lock().wanted.saturating_add(bytes);
        let own_deadline = ReservationDeadline::default();
        let deadline = self.deadline.as_ref().unwrap_or(&own_deadline);
        loop {
            let released = self.budget.released();
            match self.grow_to(wanted) {
                Ok(()) => {
                    self.lock().wanted = wanted;
                    return true;
                }
                // Calls that hold memory and wait for more could deadlock.
                Err(ReserveError::CannotGrow) => return false,
                Err(ReserveError::NothingReserved) => {}
            }
            if timeout_at(deadline.get(), released).await.is_err() {
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
    async fn reads_over_one_page_are_reserved() {
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
    async fn call_waits_for_memory_until_another_response_is_sent() {
        let budget = budget(6);
        let first = memory(&budget, "anna");
        assert!(first.reserve(2 * PAGE).await);
        let second = memory(&budget, "anna");
        let (reserved, ()) = tokio::join!(second.reserve(2 * PAGE), async {
            tokio::task::yield_now().await;
            drop(first);
        });
        assert!(reserved);
        let third = memory(&budget, "anna");
        let started = Instant::now();
        assert!(!third.reserve(2 * PAGE).await, "timed out");
        assert_eq!(started.elapsed(), RESERVATION_TIMEOUT);
        assert!(memory(&budget, "bert").reserve(2 * PAGE).await);
    }

    #[tokio::test(start_paused = true)]
    async fn calls_of_a_request_share_the_time_to_wait() {
        let budget = budget(4);
        let first = memory(&budget, "anna");
        assert!(first.reserve(2 * PAGE).await);
        let deadline = ReservationDeadline::default();
        let call = || memory(&budget, "anna").with_deadline(&deadline);
        tokio::time::advance(RESERVATION_TIMEOUT).await;
        let started = Instant::now();
        for _ in 0..10 {
            assert!(!call().reserve(2 * PAGE).await);
        }
        assert_eq!(started.elapsed(), RESERVATION_TIMEOUT);
        drop(first);
        assert!(call().reserve(2 * PAGE).await, "no wait is needed");
    }

    #[tokio::test(start_paused = true)]
    async fn call_holding_memory_does_not_wait_for_more() {
        let budget = budget(4);
        let anna = memory(&budget, "anna");
        assert!(anna.reserve(2 * PAGE).await);
        let _others = budget.reserve(&ShareKey::Unattributed, 2 * PAGE).unwrap();
        let started = Instant::now();
        assert!(!anna.reserve(PAGE).await);
        assert_eq!(started.elapsed(), Duration::ZERO);
    }
}
