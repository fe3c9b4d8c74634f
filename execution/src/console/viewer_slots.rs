//! Limits the number of live console pages: in total and per session, with fair eviction.

use super::session::SecretHash;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio_util::sync::CancellationToken;

/// Maximum number of live pages.
const MAX_SLOTS: usize = 32;
/// Maximum number of live pages per session. Only visible pages are live, so this means four windows.
const MAX_SLOTS_PER_SESSION: usize = 4;

/// Slots of live pages.
#[derive(Default)]
pub(super) struct ViewerSlots(Mutex<ViewerSlotsInner>);

#[derive(Default)]
struct ViewerSlotsInner {
    last_id: u64,
    /// In the order in which they were acquired.
    held: Vec<HeldSlot>,
}

struct HeldSlot {
    id: u64,
    session: SecretHash,
    evicted: CancellationToken,
}

/// A slot, released on drop.
pub(super) struct ViewerSlot {
    slots: Arc<ViewerSlots>,
    id: u64,
    evicted: CancellationToken,
}

impl ViewerSlots {
    fn lock(&self) -> MutexGuard<'_, ViewerSlotsInner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires a slot for a page of this session. A session at its limit loses its oldest slot, since
    /// users look at the page they opened last. Returns `None` if all slots are held and no session has
    /// at least two more than this one.
    pub(super) fn acquire(self: &Arc<Self>, session: SecretHash) -> Option<ViewerSlot> {
        let mut inner = self.lock();
        if let Some(victim) = inner.find_victim(session)? {
            inner.evict_oldest(victim);
        }
        inner.last_id += 1;
        let (number, leave) = (inner.last_id, CancellationToken::new());
        inner.held.push(HeldSlot {
            id: number,
            session,
            evicted: leave.clone(),
        });
        drop(inner);
        Some(ViewerSlot {
            slots: Arc::clone(self),
            id: number,
            evicted: leave,
        })
    }
}

impl ViewerSlotsInner {
    /// Returns the session that must give up a slot for this session, or `Some(None)` if a slot is free.
    fn find_victim(&self, session: SecretHash) -> Option<Option<SecretHash>> {
        let mut held = HashMap::<SecretHash, usize>::new();
        for slot in &self.held {
            *held.entry(slot.session).or_default() += 1;
        }
        let own = held.get(&session).copied().unwrap_or_default();
        if own >= MAX_SLOTS_PER_SESSION {
            return Some(Some(session));
        }
        if self.held.len() < MAX_SLOTS {
            return Some(None);
        }
        // The victim must keep at least as many slots as the new owner gets, or the two would evict each
        // other for ever.
        let (victim, held) = held.into_iter().max_by_key(|(_, held)| *held)?;
        (held > own + 1).then_some(Some(victim))
    }

    fn evict_oldest(&mut self, session: SecretHash) {
        let oldest = self.held.iter().position(|one| one.session == session);
        if let Some(oldest) = oldest {
            self.held.remove(oldest).evicted.cancel();
        }
    }
}

impl ViewerSlot {
    /// Completes when the slot was evicted for another page.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for ViewerSlot {
    fn drop(&mut self) {
        let mut inner = self.slots.lock();
        inner.held.retain(|one| one.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_evicted(place: &ViewerSlot) -> bool {
        place.evicted.is_cancelled()
    }

    #[test]
    fn session_at_its_limit_loses_its_oldest_slot() {
        let slots = Arc::new(ViewerSlots::default());
        let other = slots.acquire([9; 32]).unwrap();
        let mine: Vec<_> = (0..MAX_SLOTS_PER_SESSION + 2)
            .map(|_| slots.acquire([1; 32]).unwrap())
            .collect();
        let kept_slots: Vec<_> = mine.iter().map(|place| !is_evicted(place)).collect();
        assert_eq!(kept_slots, [false, false, true, true, true, true]);
        assert!(!is_evicted(&other), "other sessions lose no slot");
        // A dropped slot is free again, and an evicted one is not freed twice.
        drop(mine);
        assert_eq!(slots.lock().held.len(), 1);
    }

    #[test]
    fn full_slots_evict_from_the_session_with_most() {
        let slots = Arc::new(ViewerSlots::default());
        let mut all = Vec::new();
        for session in 1..=8 {
            all.extend((0..MAX_SLOTS_PER_SESSION).map(|_| slots.acquire([session; 32]).unwrap()));
        }
        assert_eq!(all.len(), MAX_SLOTS);
        let new_slots: Vec<_> = (100..124)
            .map(|one| slots.acquire([one; 32]).expect("one each"))
            .collect();
        assert!(!new_slots.iter().any(is_evicted));
        assert_eq!(all.iter().filter(|place| is_evicted(place)).count(), 24);
        // Now each session has one slot, and none can be evicted.
        assert!(slots.acquire([200; 32]).is_none());
        assert!(
            slots.acquire([100; 32]).is_none(),
            "not even for the same session"
        );
        drop(new_slots);
        assert!(slots.acquire([200; 32]).is_some());
    }
}
