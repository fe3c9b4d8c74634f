//! What this node has claimed and not yet ended: runs of tasks, and entries of the outbox.
//!
//! It is never claimed a second time while it is here. What ends without a word to the store, because
//! the store did not answer or the worker panicked, is abandoned: it is freed before the next claim.

use super::Hub;
use crate::error::HubError;
use crate::lease::Lease;
use crate::outbox::OutboxEntry;
use crate::ports::Fence;
use interzone_protocol::vocab::DeliveryId;
use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// All that this node holds.
#[derive(Default)]
pub(super) struct Holdings {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// The numbers of the claims that are worked at.
    running: HashSet<u64>,
    abandoned_work: Vec<Fence>,
    /// The entries that are carried, and which attempt it is.
    carrying: HashMap<DeliveryId, u32>,
    abandoned_entries: Vec<(DeliveryId, u32)>,
}

impl Holdings {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A run begins.
    pub(super) fn begin_run(&self, claim: u64) {
        self.lock().running.insert(claim);
    }

    /// A run ended, and the store knows what became of it, or does not.
    pub(super) fn end_run(&self, fence: Fence, settled: bool) {
        let mut held = self.lock();
        held.running.remove(&fence.claim);
        if !settled {
            held.abandoned_work.push(fence);
        }
    }

    /// The claims that are worked at.
    pub(super) fn running(&self) -> Vec<u64> {
        self.lock().running.iter().copied().collect()
    }

    /// The entries that are carried.
    fn carrying(&self) -> Vec<DeliveryId> {
        self.lock().carrying.keys().cloned().collect()
    }

    /// An attempt was settled.
    pub(super) fn settle(&self, id: &DeliveryId, attempt: u32) {
        let mut held = self.lock();
        if held.carrying.get(id) == Some(&attempt) {
            held.carrying.remove(id);
        }
    }

    /// An attempt ended. If it was not settled, it is abandoned.
    fn end_entry(&self, id: &DeliveryId, attempt: u32) {
        let mut held = self.lock();
        if held.carrying.get(id) == Some(&attempt) {
            held.carrying.remove(id);
            held.abandoned_entries.push((id.clone(), attempt));
        }
    }
}

impl Hub {
    /// Frees runs that ended without a word.
    pub(super) async fn free_abandoned_work(&self) -> Result<(), HubError> {
        let holdings = &self.inner.holdings;
        let abandoned = holdings.lock().abandoned_work.clone();
        if abandoned.is_empty() {
            return Ok(());
        }
        self.store().abandon_work(&abandoned).await?;
        let freed: HashSet<u64> = abandoned.iter().map(|fence| fence.claim).collect();
        let mut held = holdings.lock();
        held.abandoned_work
            .retain(|fence| !freed.contains(&fence.claim));
        Ok(())
    }

    /// Frees entries whose carrying ended without a word, and answers which ones are carried.
    pub(super) async fn free_abandoned_entries(&self) -> Result<Vec<DeliveryId>, HubError> {
        let holdings = &self.inner.holdings;
        let abandoned = holdings.lock().abandoned_entries.clone();
        if !abandoned.is_empty() {
            self.store().abandon_outbox(&abandoned, self.now()).await?;
            let mut held = holdings.lock();
            held.abandoned_entries
                .retain(|attempt| !abandoned.contains(attempt));
        }
        Ok(holdings.carrying())
    }

    /// Holds an entry that was claimed.
    pub(super) fn held_entry(&self, entry: OutboxEntry, lease: Lease) -> HeldEntry {
        let mut held = self.inner.holdings.lock();
        held.carrying.insert(entry.id.clone(), entry.attempt);
        drop(held);
        let hub = self.clone();
        HeldEntry { hub, entry, lease }
    }
}

/// An entry of the outbox that this node carries. One that is dropped before it was settled is due
/// again when entries are claimed next.
pub struct HeldEntry {
    hub: Hub,
    entry: OutboxEntry,
    lease: Lease,
}

impl HeldEntry {
    /// For how long this node may rely on it.
    pub const fn lease(&self) -> &Lease {
        &self.lease
    }
}

impl Deref for HeldEntry {
    type Target = OutboxEntry;

    fn deref(&self) -> &OutboxEntry {
        &self.entry
    }
}

impl std::fmt::Debug for HeldEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.entry.fmt(f)
    }
}

impl Drop for HeldEntry {
    fn drop(&mut self) {
        let OutboxEntry { id, attempt, .. } = &self.entry;
        self.hub.inner.holdings.end_entry(id, *attempt);
    }
}
