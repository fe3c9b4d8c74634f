//! Connection limit per address: a share of all connections, so that one address cannot block the others.

use super::conn_registry::{ConnState, ShutdownOrder};
use super::heads::{ChargeTotal, EvictionOrder, HeadAccount, HeadMeter, HeadTotal};
use crate::budget::AddressPrefix;
use crate::limits::HttpLimits;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Connections by address, numbered in order of time. An address has an entry only while it has connections.
#[derive(Debug)]
pub(super) struct AddressTable {
    share: usize,
    /// Memory of partial heads.
    pub(super) heads: HeadTotal,
    entries: Mutex<AddressEntries>,
}

#[derive(Debug, Default)]
struct AddressEntries {
    next_id: u64,
    by_address: HashMap<AddressPrefix, AddressEntry>,
}

#[derive(Debug)]
struct AddressEntry {
    connections: BTreeMap<u64, Arc<ConnState>>,
    heads: Arc<ChargeTotal>,
    requests: Arc<AtomicUsize>,
}

/// Result of admitting a connection.
pub(super) enum AddressAdmission {
    /// Admitted.
    Admitted(AddressSlot),
    /// Admitted, and an older connection of the same address is evicted.
    AdmittedByEviction(AddressSlot),
    /// Rejected: all others of its address are in use.
    Rejected,
}

impl AddressTable {
    pub(super) fn new(limits: &HttpLimits) -> Arc<Self> {
        let part = limits.shares.address.max(1);
        Arc::new(Self {
            share: limits.connections.div_ceil(part).max(1),
            heads: HeadTotal::new(limits.partial_head_bytes, part),
            entries: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, AddressEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection until the slot is dropped.
    pub(super) fn admit(
        self: &Arc<Self>,
        address: AddressPrefix,
        conn: &Arc<ConnState>,
    ) -> AddressAdmission {
        let mut list = self.lock();
        let id = list.next_id;
        list.next_id = list.next_id.wrapping_add(1);
        let entry = list.by_address.entry(address);
        let of_address = entry.or_insert_with(|| AddressEntry {
            connections: BTreeMap::new(),
            heads: Arc::new(ChargeTotal::new(self.heads.share)),
            requests: Arc::default(),
        });
        let heads = Arc::clone(&of_address.heads);
        let requests = Arc::clone(&of_address.requests);
        let of_address = &mut of_address.connections;
        let mut evicted = None;
        if of_address.len() >= self.share {
            // The map is ordered by time, so the first of the lowest rank is the oldest.
            let ranked = of_address
                .iter()
                .map(|(id, conn)| (conn.eviction_rank(), *id));
            let lowest = ranked.filter_map(|(rank, id)| Some((rank?, id))).min();
            evicted = lowest.and_then(|(_, id)| of_address.remove(&id));
            if evicted.is_none() {
                return AddressAdmission::Rejected;
            }
        }
        of_address.insert(id, Arc::clone(conn));
        drop(list);
        conn.heads().set_account(HeadAccount {
            addresses: Arc::clone(self),
            prefix: address,
            of_address: heads,
            requests,
        });
        let slot = AddressSlot {
            id,
            address,
            addresses: Arc::clone(self),
        };
        match evicted {
            None => AddressAdmission::Admitted(slot),
            Some(evicted) => {
                evicted.signal(ShutdownOrder::Abort);
                AddressAdmission::AdmittedByEviction(slot)
            }
        }
    }
}

impl AddressTable {
    /// Closes connections of an address whose partial heads exceed its share, largest first, except `newest`.
    pub(super) fn evict_for_address(&self, address: AddressPrefix, newest: &HeadMeter) {
        let list = self.lock();
        let Some(of_address) = list.by_address.get(&address) else {
            return;
        };
        let tally = Arc::clone(&of_address.heads);
        let to_close = self.select(
            &tally,
            of_address.connections.values(),
            Some(newest),
            EvictionOrder::Largest,
        );
        drop(list);
        self.heads.close_all(&to_close);
        tally.finish_search();
    }

    /// Closes connections when all partial heads exceed the limit, oldest first, except `newest`.
    pub(super) fn evict_for_total(&self, newest: Option<&HeadMeter>) {
        let list = self.lock();
        let connections = list.by_address.values();
        let connections = connections.flat_map(|of_address| of_address.connections.values());
        let to_close = self.select(
            &self.heads.tally,
            connections,
            newest,
            EvictionOrder::Oldest,
        );
        drop(list);
        self.heads.close_all(&to_close);
        self.heads.tally.finish_search();
    }

    fn select<'p>(
        &self,
        tally: &ChargeTotal,
        connections: impl Iterator<Item = &'p Arc<ConnState>>,
        newest: Option<&HeadMeter>,
        order: EvictionOrder,
    ) -> Vec<Arc<ConnState>> {
        // Another task may have closed enough while this one waited for the lock.
        if !tally.is_exceeded() {
            return Vec::new();
        }
        let mut search = self.heads.search();
        connections.for_each(|conn| search.consider(conn));
        search.select(tally, order, newest)
    }

    /// Checks again whether connections must be closed: one that could not be closed before may have become old.
    /// Returns the number of connections closed since the last call.
    pub(super) fn sweep_heads(&self) -> u64 {
        if self.heads.tally.is_exceeded() {
            self.evict_for_total(None);
        }
        self.heads.take_closed()
    }
}

/// Slot of a connection among those of its address.
pub(super) struct AddressSlot {
    id: u64,
    address: AddressPrefix,
    addresses: Arc<AddressTable>,
}

impl Drop for AddressSlot {
    fn drop(&mut self) {
        let mut list = self.addresses.lock();
        if let Some(of_address) = list.by_address.get_mut(&self.address) {
            of_address.connections.remove(&self.id);
            if of_address.connections.is_empty() {
                list.by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Shares;
    use crate::listener::conn_registry::{ConnRegistry, Registration};
    use std::task::Waker;

    fn limits(connections: usize, address: usize) -> HttpLimits {
        HttpLimits {
            connections,
            shares: Shares {
                address,
                ..Shares::default()
            },
            ..HttpLimits::default()
        }
    }

    struct TestConnection {
        registration: Registration,
        admission: AddressAdmission,
    }

    impl TestConnection {
        fn open(
            registry: &Arc<ConnRegistry>,
            addresses: &Arc<AddressTable>,
            address: &str,
        ) -> Self {
            let address = AddressPrefix::from_address(address.parse().unwrap());
            let registration = registry.register();
            let admission = addresses.admit(address, registration.conn());
            Self {
                registration,
                admission,
            }
        }

        fn is_aborted(&self) -> bool {
            self.registration.conn().poll_order(Waker::noop()) == ShutdownOrder::Abort
        }
    }

    #[test]
    fn newest_connection_evicts_one_that_is_not_in_use() {
        let (registry, addresses) = (ConnRegistry::new(), AddressTable::new(&limits(8, 4)));
        let open = |address| TestConnection::open(&registry, &addresses, address);
        let silent = open("10.0.0.1");
        let idle = open("10.0.0.1");
        idle.registration.conn().start_http(false);
        drop(idle.registration.conn().begin_request());
        let third = open("10.0.0.1");
        assert!(matches!(
            third.admission,
            AddressAdmission::AdmittedByEviction(_)
        ));
        assert!(silent.is_aborted() && !idle.is_aborted(), "had no request");
        third.registration.conn().start_http(false);
        let _running = third.registration.conn().begin_request();
        let fourth = open("10.0.0.1");
        assert!(idle.is_aborted() && !third.is_aborted(), "has no request");
        fourth.registration.conn().start_http(false);
        let _also_running = fourth.registration.conn().begin_request();
        fourth.registration.conn().count_upload(true);
        let fifth = open("10.0.0.1");
        assert!(
            fourth.is_aborted() && !third.is_aborted(),
            "is only uploading"
        );
        fifth.registration.conn().start_http(false);
        let _running_too = fifth.registration.conn().begin_request();
        let sixth = open("10.0.0.1");
        assert!(matches!(sixth.admission, AddressAdmission::Rejected));
        let other = open("10.0.0.2");
        assert!(matches!(other.admission, AddressAdmission::Admitted(_)));
    }

    #[test]
    fn address_without_connections_leaves_no_entry() {
        let (registry, addresses) = (ConnRegistry::new(), AddressTable::new(&limits(1, 16)));
        let first = TestConnection::open(&registry, &addresses, "10.0.0.1");
        let second = TestConnection::open(&registry, &addresses, "10.0.0.1");
        assert_eq!(addresses.lock().by_address.len(), 1);
        drop((first, second));
        assert_eq!(addresses.lock().by_address.len(), 0);
    }
}
