//! Memory that many callers share: a total, and in it a share for each caller, so that one of them cannot take
//! all of it. What the memory is used for is not known here.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The part of an address that stands for one caller: an IPv4 address, or the /64 of an IPv6 address, since
/// one customer of a network usually has a whole /64. An IPv4 address mapped to IPv6 is that IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressPrefix(IpAddr);

impl AddressPrefix {
    /// The prefix of an address.
    pub fn from_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self(IpAddr::V4(address)),
            IpAddr::V6(address) => {
                let network = address.to_bits() & !u128::from(u64::MAX);
                Self(IpAddr::V6(Ipv6Addr::from_bits(network)))
            }
        }
    }
}

/// To whose share memory is counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ShareKey {
    /// A caller that has not been authenticated, by its address.
    Address(AddressPrefix),
    /// A caller that has been authenticated.
    Principal(Arc<str>),
    /// No caller in particular: only the total counts.
    Unattributed,
}

/// Which part of a total one caller may have: 16 is a sixteenth, 1 is all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// For one address, of callers that have not been authenticated.
    pub address: usize,
    /// For one principal.
    pub principal: usize,
}

impl Shares {
    /// Every caller may have all of it: for places where all callers have one address.
    pub const WHOLE: Self = Self {
        address: 1,
        principal: 1,
    };
}

impl Default for Shares {
    fn default() -> Self {
        Self {
            address: 16,
            principal: 4,
        }
    }
}

/// Memory with a total and a share for each caller. Clones share it. Memory is counted in pages.
#[derive(Clone)]
pub struct MemoryBudget(Arc<Inner>);

struct Inner {
    bytes: usize,
    shares: Shares,
    reserved: Mutex<Reserved>,
    /// Wakes those who wait for memory whenever some is given back.
    released: Notify,
}

/// How many pages a caller may have: usually, and in its only reservation.
#[derive(Clone, Copy)]
struct Share {
    usual: usize,
    alone: usize,
}

impl Share {
    const fn strict(pages: usize) -> Self {
        Self {
            usual: pages,
            alone: pages,
        }
    }
}

/// How many pages are reserved. A caller has an entry only while it has reserved something.
#[derive(Default)]
struct Reserved {
    total: usize,
    by_key: HashMap<ShareKey, usize>,
}

impl MemoryBudget {
    /// Memory is counted in pages of this many bytes.
    pub const PAGE: usize = 64 * 1024;

    /// So many bytes, rounded up to pages, with the usual shares.
    pub fn new(bytes: usize) -> Self {
        Self::with_shares(bytes, Shares::default())
    }

    /// So many bytes with these shares. A share has at least one page.
    pub fn with_shares(bytes: usize, shares: Shares) -> Self {
        Self(Arc::new(Inner {
            bytes,
            shares,
            reserved: Mutex::default(),
            released: Notify::new(),
        }))
    }

    /// The most bytes that a caller may have in its only reservation.
    pub fn largest(&self, key: &ShareKey) -> usize {
        let pages = self.share(key).alone.min(self.pages());
        pages.saturating_mul(Self::PAGE)
    }

    /// Completes when memory is given back after this was called. It need not be enough, and others may take it first.
    pub fn released(&self) -> impl Future<Output = ()> {
        self.0.released.notified()
    }

    /// Reserves so many bytes, until the reservation is dropped; `None` if the total or the caller's share
    /// has not that much left. The only reservation of a principal may exceed its share.
    pub fn reserve(&self, key: &ShareKey, bytes: usize) -> Option<Reservation> {
        let mut reservation = Reservation {
            budget: self.clone(),
            key: key.clone(),
            pages: 0,
        };
        reservation.grow_to(bytes).then_some(reservation)
    }

    /// The pages that a caller may have.
    fn share(&self, key: &ShareKey) -> Share {
        let pages = self.pages();
        let part = |divisor: usize| pages.div_ceil(divisor.max(1)).max(1);
        match key {
            ShareKey::Address(_) => Share::strict(part(self.0.shares.address)),
            ShareKey::Principal(_) => {
                let usual = part(self.0.shares.principal);
                // The answer for one large task may exceed the share, but never takes the last quarter.
                let alone = usual.max(pages - pages / 4);
                Share { usual, alone }
            }
            ShareKey::Unattributed => Share::strict(pages),
        }
    }

    fn pages(&self) -> usize {
        self.0.bytes.div_ceil(Self::PAGE)
    }

    fn lock(&self) -> MutexGuard<'_, Reserved> {
        self.0
            .reserved
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes more pages for a reservation that has some already.
    fn take(&self, key: &ShareKey, own: usize, pages: usize) -> bool {
        let mut reserved = self.lock();
        let total = reserved.total.saturating_add(pages);
        let taken = total <= self.pages() && reserved.add(key, own, pages, self.share(key));
        if taken {
            reserved.total = total;
        }
        taken
    }

    fn transfer(&self, from: &ShareKey, to: &ShareKey, pages: usize) -> bool {
        let mut reserved = self.lock();
        let taken = reserved.add(to, 0, pages, self.share(to));
        if taken {
            reserved.remove(from, pages);
        }
        taken
    }

    fn give_back(&self, key: &ShareKey, pages: usize) {
        let mut reserved = self.lock();
        reserved.total = reserved.total.saturating_sub(pages);
        reserved.remove(key, pages);
        drop(reserved);
        self.0.released.notify_waiters();
    }
}

impl Reserved {
    /// Counts pages to a caller, if its share has room for them. `own` is what their reservation has already.
    fn add(&mut self, key: &ShareKey, own: usize, pages: usize, share: Share) -> bool {
        let held = self.by_key.get(key).copied().unwrap_or(0);
        let most = match held > own {
            true => share.usual,
            false => share.alone,
        };
        let held = held.saturating_add(pages);
        if held > most {
            return false;
        }
        if held > 0 {
            self.by_key.insert(key.clone(), held);
        }
        true
    }

    fn remove(&mut self, key: &ShareKey, pages: usize) {
        if let Entry::Occupied(mut held) = self.by_key.entry(key.clone()) {
            *held.get_mut() = held.get().saturating_sub(pages);
            if *held.get() == 0 {
                held.remove();
            }
        }
    }
}

impl Default for MemoryBudget {
    /// Half a gibibyte.
    fn default() -> Self {
        Self::new(512 * 1024 * 1024)
    }
}

impl PartialEq for MemoryBudget {
    fn eq(&self, other: &Self) -> bool {
        self.0.bytes == other.0.bytes && self.0.shares == other.0.shares
    }
}

impl Eq for MemoryBudget {}

impl fmt::Debug for MemoryBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBudget")
            .field("bytes", &self.0.bytes)
            .field("shares", &self.0.shares)
            .finish_non_exhaustive()
    }
}

/// Memory that is reserved, until this is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: MemoryBudget,
    key: ShareKey,
    pages: usize,
}

impl Reservation {
    /// How many bytes are reserved.
    pub fn bytes(&self) -> usize {
        self.pages.saturating_mul(MemoryBudget::PAGE)
    }

    /// Reserves as much as is missing to so many bytes. Says whether there was that much; if not, what was
    /// reserved stays reserved.
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        let pages = bytes.div_ceil(MemoryBudget::PAGE);
        let missing = pages.saturating_sub(self.pages);
        let taken = self.budget.take(&self.key, self.pages, missing);
        if taken {
            self.pages += missing;
        }
        taken
    }

    /// Gives back what is reserved beyond so many bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        let pages = bytes.div_ceil(MemoryBudget::PAGE);
        if pages < self.pages {
            self.budget.give_back(&self.key, self.pages - pages);
            self.pages = pages;
        }
    }

    /// Takes so many bytes out of the reservation, or all of it if it has fewer, as a reservation of their own.
    #[must_use]
    pub fn split(&mut self, bytes: usize) -> Self {
        let pages = bytes.div_ceil(MemoryBudget::PAGE).min(self.pages);
        self.pages -= pages;
        Self {
            budget: self.budget.clone(),
            key: self.key.clone(),
            pages,
        }
    }

    /// Adds another reservation of the same caller and budget to this one.
    pub fn merge(&mut self, mut other: Self) {
        if Arc::ptr_eq(&self.budget.0, &other.budget.0) && self.key == other.key {
            self.pages += std::mem::take(&mut other.pages);
        }
    }

    /// Counts what is reserved to another caller's share. Says whether that share had room for it; if not,
    /// nothing changes.
    pub fn transfer(&mut self, key: &ShareKey) -> bool {
        if self.key == *key {
            return true;
        }
        let moved = self.budget.transfer(&self.key, key, self.pages);
        if moved {
            self.key = key.clone();
        }
        moved
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.pages > 0 {
            self.budget.give_back(&self.key, self.pages);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: usize = MemoryBudget::PAGE;

    fn principal(name: &str) -> ShareKey {
        ShareKey::Principal(name.into())
    }

    fn address(text: &str) -> ShareKey {
        ShareKey::Address(AddressPrefix::from_address(text.parse().unwrap()))
    }

    #[test]
    fn one_caller_gets_its_share_and_others_get_theirs() {
        let budget = MemoryBudget::with_shares(8 * PAGE, Shares::default());
        let mut first = budget.reserve(&principal("a"), 1).unwrap();
        let also = budget.reserve(&principal("a"), 1).unwrap();
        assert!(budget.reserve(&principal("a"), 1).is_none(), "a quarter");
        assert!(!first.grow_to(PAGE + 1));
        assert_eq!(first.bytes(), PAGE, "what it has stays");
        let _second = budget.reserve(&principal("b"), 2 * PAGE).unwrap();
        drop((first, also));
        budget.reserve(&principal("a"), 2 * PAGE).unwrap();
        assert_eq!(budget.lock().by_key.len(), 1, "no entry without memory");
    }

    #[test]
    fn only_reservation_of_a_principal_may_exceed_its_share() {
        let budget = MemoryBudget::new(16 * PAGE);
        let mut large = budget.reserve(&principal("a"), PAGE).unwrap();
        assert!(large.grow_to(12 * PAGE));
        assert!(budget.reserve(&principal("a"), 1).is_none());
        budget.reserve(&principal("b"), 4 * PAGE).unwrap();
        drop(large);
        assert!(budget.reserve(&principal("a"), 13 * PAGE).is_none());
        assert!(budget.reserve(&address("10.0.0.1"), 2 * PAGE).is_none());
    }

    #[test]
    fn total_bounds_all_callers_together() {
        let budget = MemoryBudget::with_shares(2 * PAGE, Shares::WHOLE);
        let held = budget.reserve(&principal("a"), 2 * PAGE).unwrap();
        for key in [principal("b"), address("10.0.0.1"), ShareKey::Unattributed] {
            assert!(budget.reserve(&key, 1).is_none());
        }
        drop(held);
        budget.reserve(&ShareKey::Unattributed, 2 * PAGE).unwrap();
        assert!(budget.reserve(&ShareKey::Unattributed, 3 * PAGE).is_none());
    }

    #[test]
    fn reservation_moves_from_an_address_to_a_principal() {
        let budget = MemoryBudget::with_shares(16 * PAGE, Shares::default());
        let mut moved = budget.reserve(&address("10.0.0.1"), 1).unwrap();
        assert!(budget.reserve(&address("10.0.0.1"), 1).is_none());
        assert!(moved.transfer(&principal("a")));
        let _again = budget.reserve(&address("10.0.0.1"), 1).unwrap();
        assert!(moved.grow_to(4 * PAGE));
        assert!(moved.transfer(&principal("a")), "it is there already");
        let mut other = budget.reserve(&address("10.0.0.2"), 1).unwrap();
        assert!(!other.transfer(&principal("a")), "its share is used up");
        assert_eq!(other.bytes(), PAGE);
    }

    #[test]
    fn addresses_of_one_customer_are_one_caller() {
        assert_eq!(address("10.0.0.1"), address("::ffff:10.0.0.1"));
        assert_ne!(address("10.0.0.1"), address("10.0.0.2"));
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:2"));
        assert_ne!(address("2001:db8:0:1::1"), address("2001:db8:0:2::1"));
    }
}
