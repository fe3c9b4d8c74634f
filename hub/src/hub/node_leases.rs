//! Leases held by this node: runs of tasks, and outbox entries.
//!
//! They are never claimed a second time while they are tracked here. A lease that ends without being settled in the
//! store, because the store did not respond or the worker panicked, is abandoned: it is released before the next
//! claim.

use super::Hub;
use crate::error::HubError;
use crate::lease::Lease;
use crate::outbox::OutboxEntry;
use crate::ports::Fence;
use interzone_protocol::vocab::DeliveryId;
use std::collections::{HashMap, HashSet};
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Leases held by this node.
#[derive(Default)]
pub(super) struct NodeLeases {
    state: Mutex<NodeLeasesState>,
}

#[derive(Default)]
struct NodeLeasesState {
    /// Claim numbers of the current runs.
    running: HashSet<u64>,
    abandoned_work: Vec<Fence>,
    /// Entries being delivered, with their attempt number.
    in_flight: HashMap<DeliveryId, u32>,
    abandoned_entries: Vec<(DeliveryId, u32)>,
}

impl NodeLeases {
    fn lock(&self) -> MutexGuard<'_, NodeLeasesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tracks a started run.
    pub(super) fn add_run(&self, claim: u64) {
        self.lock().running.insert(claim);
    }

    /// Stops tracking a run; abandons it if it was not settled in the store.
    pub(super) fn remove_run(&self, fence: Fence, is_settled: bool) {
        let mut state = self.lock();
        state.running.remove(&fence.claim);
        if !is_settled {
            state.abandoned_work.push(fence);
        }
    }

    /// Claim numbers of the current runs.
    pub(super) fn running_claims(&self) -> Vec<u64> {
        self.lock().running.iter().copied().collect()
    }

    /// Entries being delivered.
    fn in_flight(&self) -> Vec<DeliveryId> {
        self.lock().in_flight.keys().cloned().collect()
    }

    /// Stops tracking a settled attempt.
    pub(super) fn settle_entry(&self, id: &DeliveryId, attempt: u32) {
        let mut state = self.lock();
        if state.in_flight.get(id) == Some(&attempt) {
            state.in_flight.remove(id);
        }
    }

    /// Stops tracking an attempt; abandons it if it was not settled.
    fn remove_entry(&self, id: &DeliveryId, attempt: u32) {
        let mut state = self.lock();
        if state.in_flight.get(id) == Some(&attempt) {
            state.in_flight.remove(id);
            state.abandoned_entries.push((id.clone(), attempt));
        }
    }
}

impl Hub {
    /// Releases abandoned runs in the store.
    pub(super) async fn release_abandoned_work(&self) -> Result<(), HubError> {
        let leases = &self.inner.leases;
        let abandoned = leases.lock().abandoned_work.clone();
        if abandoned.is_empty() {
            return Ok(());
        }
        self.store().abandon_work(&abandoned).await?;
        let released: HashSet<u64> = abandoned.iter().map(|fence| fence.claim).collect();
        let mut state = leases.lock();
        state
            .abandoned_work
            .retain(|fence| !released.contains(&fence.claim));
        Ok(())
    }

    /// Releases abandoned outbox entries in the store, and returns the entries being delivered.
    pub(super) async fn release_abandoned_entries(&self) -> Result<Vec<DeliveryId>, HubError> {
        let leases = &self.inner.leases;
        let abandoned = leases.lock().abandoned_entries.clone();
        if !abandoned.is_empty() {
            self.store().abandon_outbox(&abandoned, self.now()).await?;
            let mut state = leases.lock();
            state
                .abandoned_entries
                .retain(|attempt| !abandoned.contains(attempt));
        }
        Ok(leases.in_flight())
    }

    /// Tracks a claimed outbox entry.
    pub(super) fn track_entry(&self, entry: OutboxEntry, lease: Lease) -> LeasedEntry {
        let mut state = self.inner.leases.lock();
        state.in_flight.insert(entry.id.clone(), entry.attempt);
        drop(state);
        let hub = self.clone();
        LeasedEntry { hub, entry, lease }
    }
}

/// An outbox entry leased by this node. If it is dropped before it was settled, it is due again at the next claim.
pub struct LeasedEntry {
    hub: Hub,
    entry: OutboxEntry,
    lease: Lease,
}

impl LeasedEntry {
    /// The lease of the entry.
    pub const fn lease(&self) -> &Lease {
        &self.lease
    }
}

impl Deref for LeasedEntry {
    type Target = OutboxEntry;

    fn deref(&self) -> &OutboxEntry {
        &self.entry
    }
}

impl std::fmt::Debug for LeasedEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.entry.fmt(f)
    }
}

impl Drop for LeasedEntry {
    fn drop(&mut self) {
        let OutboxEntry { id, attempt, .. } = &self.entry;
        self.hub.inner.leases.remove_entry(id, *attempt);
    }
}
