//! How many connections one address may have: a share of all, so that one address cannot keep out the others.

use super::heads::{Account, First, HeadMeter, HeadTotal, Tally};
use super::pulse::{Order, Pulse};
use crate::budget::AddressPrefix;
use crate::limits::HttpLimits;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections of each address, by numbers that grow with time. An address has an entry only while it has
/// connections.
#[derive(Debug)]
pub(super) struct Addresses {
    share: usize,
    /// What their unfinished heads take.
    pub(super) heads: HeadTotal,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    next: u64,
    by_address: HashMap<AddressPrefix, OfAddress>,
}

#[derive(Debug)]
struct OfAddress {
    connections: BTreeMap<u64, Arc<Pulse>>,
    heads: Arc<Tally>,
}

/// What happens to a connection of an address.
pub(super) enum Entered {
    /// It is let in.
    Now(AddressSlot),
    /// It is let in, and an older one of the same address is cut off for it.
    InPlaceOfAnother(AddressSlot),
    /// It is refused: all others of its address are in use.
    Refused,
}

impl Addresses {
    pub(super) fn new(limits: &HttpLimits) -> Arc<Self> {
        let part = limits.shares.address.max(1);
        Arc::new(Self {
            share: limits.connections.div_ceil(part).max(1),
            heads: HeadTotal::new(limits.heads, part),
            list: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, until the slot is dropped.
    pub(super) fn enter(self: &Arc<Self>, address: AddressPrefix, pulse: &Arc<Pulse>) -> Entered {
        let mut list = self.lock();
        let id = list.next;
        list.next = list.next.wrapping_add(1);
        let entry = list.by_address.entry(address);
        let of_address = entry.or_insert_with(|| OfAddress {
            connections: BTreeMap::new(),
            heads: Arc::new(Tally::new(self.heads.share)),
        });
        let heads = Arc::clone(&of_address.heads);
        let of_address = &mut of_address.connections;
        let mut displaced = None;
        if of_address.len() >= self.share {
            // The map is in the order of time, so the first of the least rank is the oldest.
            let ranked = of_address.iter().map(|(id, pulse)| (pulse.rank(), *id));
            let least = ranked.filter_map(|(rank, id)| Some((rank?, id))).min();
            displaced = least.and_then(|(_, id)| of_address.remove(&id));
            if displaced.is_none() {
                return Entered::Refused;
            }
        }
        of_address.insert(id, Arc::clone(pulse));
        drop(list);
        pulse.heads().open(Account {
            addresses: Arc::clone(self),
            prefix: address,
            of_address: heads,
        });
        let slot = AddressSlot {
            id,
            address,
            addresses: Arc::clone(self),
        };
        match displaced {
            None => Entered::Now(slot),
            Some(displaced) => {
                displaced.give(Order::Cut);
                Entered::InPlaceOfAnother(slot)
            }
        }
    }
}

impl Addresses {
    /// Closes connections of an address whose unfinished heads exceed its share, the largest first. `newest` stays.
    pub(super) fn relieve_address(&self, address: AddressPrefix, newest: &HeadMeter) {
        let list = self.lock();
        let Some(of_address) = list.by_address.get(&address) else {
            return;
        };
        let tally = Arc::clone(&of_address.heads);
        let found = self.select(
            &tally,
            of_address.connections.values(),
            Some(newest),
            First::Largest,
        );
        drop(list);
        self.heads.close(&found);
        tally.searched();
    }

    /// Closes connections when the unfinished heads of all exceed their limit, the oldest first. `newest` stays.
    pub(super) fn relieve_all(&self, newest: Option<&HeadMeter>) {
        let list = self.lock();
        let connections = list.by_address.values();
        let connections = connections.flat_map(|of_address| of_address.connections.values());
        let found = self.select(&self.heads.tally, connections, newest, First::Oldest);
        drop(list);
        self.heads.close(&found);
        self.heads.tally.searched();
    }

    fn select<'p>(
        &self,
        tally: &Tally,
        connections: impl Iterator<Item = &'p Arc<Pulse>>,
        newest: Option<&HeadMeter>,
        first: First,
    ) -> Vec<Arc<Pulse>> {
        // Another task may have closed enough while this one waited for the lock.
        if !tally.is_exceeded() {
            return Vec::new();
        }
        let mut search = self.heads.search();
        connections.for_each(|pulse| search.add(pulse));
        search.select(tally, first, newest)
    }

    /// Looks again whether connections must be closed: one that could not be closed before may have become old. Says
    /// how many were closed since the last time.
    pub(super) fn sweep_heads(&self) -> u64 {
        if self.heads.tally.is_exceeded() {
            self.relieve_all(None);
        }
        self.heads.take_closed()
    }
}

/// A connection's place among those of its address.
pub(super) struct AddressSlot {
    id: u64,
    address: AddressPrefix,
    addresses: Arc<Addresses>,
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
    use crate::listener::pulse::{Entry, Pulses};
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

    struct Connection {
        entry: Entry,
        entered: Entered,
    }

    impl Connection {
        fn open(pulses: &Arc<Pulses>, addresses: &Arc<Addresses>, address: &str) -> Self {
            let address = AddressPrefix::from_address(address.parse().unwrap());
            let entry = pulses.enter();
            let entered = addresses.enter(address, entry.pulse());
            Self { entry, entered }
        }

        fn is_cut(&self) -> bool {
            self.entry.pulse().order(Waker::noop()) == Order::Cut
        }
    }

    #[test]
    fn newest_connection_displaces_one_that_is_not_in_use() {
        let (pulses, addresses) = (Pulses::new(), Addresses::new(&limits(8, 4)));
        let open = |address| Connection::open(&pulses, &addresses, address);
        let silent = open("10.0.0.1");
        let idle = open("10.0.0.1");
        idle.entry.pulse().drive(false);
        drop(idle.entry.pulse().begin());
        let third = open("10.0.0.1");
        assert!(matches!(third.entered, Entered::InPlaceOfAnother(_)));
        assert!(silent.is_cut() && !idle.is_cut(), "never asked anything");
        third.entry.pulse().drive(false);
        let _running = third.entry.pulse().begin();
        let fourth = open("10.0.0.1");
        assert!(idle.is_cut() && !third.is_cut(), "asks nothing now");
        fourth.entry.pulse().drive(false);
        let _also_running = fourth.entry.pulse().begin();
        fourth.entry.pulse().sends(true);
        let fifth = open("10.0.0.1");
        assert!(fourth.is_cut() && !third.is_cut(), "is only sending");
        fifth.entry.pulse().drive(false);
        let _running_too = fifth.entry.pulse().begin();
        let sixth = open("10.0.0.1");
        assert!(matches!(sixth.entered, Entered::Refused));
        let other = open("10.0.0.2");
        assert!(matches!(other.entered, Entered::Now(_)));
    }

    #[test]
    fn address_without_connections_leaves_no_entry() {
        let (pulses, addresses) = (Pulses::new(), Addresses::new(&limits(1, 16)));
        let first = Connection::open(&pulses, &addresses, "10.0.0.1");
        let second = Connection::open(&pulses, &addresses, "10.0.0.1");
        assert_eq!(addresses.lock().by_address.len(), 1);
        drop((first, second));
        assert_eq!(addresses.lock().by_address.len(), 0);
    }
}
