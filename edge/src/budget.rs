//! Memory budget shared by many callers: a total, and a share for each caller that shrinks with the free memory, so that
//! neither one caller nor a few together can take all.

use serde::Deserialize;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Address prefix that identifies one caller: an IPv4 address, or the /64 of an IPv6 address, since one customer of a
/// network usually has a whole /64. An IPv4-mapped IPv6 address counts as the IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AddressPrefix(IpAddr);

impl AddressPrefix {
    /// Returns the prefix of an address.
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

/// Caller whose share memory counts against.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ShareKey {
    /// An unauthenticated caller, by address.
    Address(AddressPrefix),
    /// An authenticated caller.
    Principal(Arc<str>),
    /// No particular caller: only the total applies.
    Unattributed,
}

/// Part of its share that a caller without memory may take although less would stay free: a sixteenth.
const FIRST_RESERVATION_DIVISOR: usize = 16;

/// Maximum part of a total for one caller: 16 is a sixteenth, 1 is all of it.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub struct Shares {
    /// For one address, of unauthenticated callers.
    #[serde(
        rename = "address_share",
        deserialize_with = "interzone_options::positive"
    )]
    pub address: usize,
    /// For one principal.
    #[serde(
        rename = "principal_share",
        deserialize_with = "interzone_options::positive"
    )]
    pub principal: usize,
}

impl Shares {
    /// Every caller may have all of it: for deployments where all callers have one address.
    pub const FULL: Self = Self {
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

/// Memory budget with a total and a share for each caller. Clones share it. Memory is counted in pages.
///
/// A caller may hold at most its share, and at most as much as stays free (dynamic threshold of Choudhury and Hahne).
/// So however many callers hold all they may, some memory stays free for the next. A caller that holds nothing may
/// take up to a sixteenth of its share of what is free.
#[derive(Clone)]
pub struct MemoryBudget(Arc<BudgetState>);

struct BudgetState {
    bytes: usize,
    shares: Shares,
    reserved: Mutex<ReservedPages>,
    /// Notifies waiters whenever memory is released.
    released: Notify,
}

/// Page limits of a caller.
#[derive(Clone, Copy)]
struct PageLimit {
    /// Pages that it may hold. If that is less than the total, at most as many as stay free.
    share: usize,
    /// Pages of an only reservation that it may hold whatever stays free.
    first: usize,
    /// Pages of an only reservation that it may hold if a quarter of the total stays free.
    alone: usize,
}

/// Reserved pages. A caller has an entry only while it has a reservation.
#[derive(Default)]
struct ReservedPages {
    total: usize,
    by_key: HashMap<ShareKey, usize>,
}

impl MemoryBudget {
    /// Page size in bytes, the unit of accounting.
    pub const PAGE: usize = 64 * 1024;

    /// Creates a budget of so many bytes, rounded up to pages, with the default shares.
    pub fn new(bytes: usize) -> Self {
        Self::with_shares(bytes, Shares::default())
    }

    /// Creates a budget of so many bytes with these shares. A share has at least one page.
    pub fn with_shares(bytes: usize, shares: Shares) -> Self {
        Self(Arc::new(BudgetState {
            bytes,
            shares,
            reserved: Mutex::default(),
            released: Notify::new(),
        }))
    }

    /// Returns the maximum bytes of a caller's only reservation.
    pub fn max_reservation(&self, key: &ShareKey) -> usize {
        let limit = self.page_limit(key);
        limit.share.max(limit.alone).saturating_mul(Self::PAGE)
    }

    /// Completes when memory is released after this call. It need not be enough, and other callers may take it first.
    pub fn released(&self) -> impl Future<Output = ()> {
        self.0.released.notified()
    }

    /// Reserves so many bytes until the reservation is dropped; `None` if the total or the caller's share is used up, or
    /// if less than the caller holds would stay free. The only reservation of a principal may exceed its share.
    pub fn reserve(&self, key: &ShareKey, bytes: usize) -> Option<Reservation> {
        let mut reservation = Reservation {
            budget: self.clone(),
            key: key.clone(),
            pages: 0,
        };
        reservation.grow_to(bytes).then_some(reservation)
    }

    /// Returns the page limits of a caller.
    fn page_limit(&self, key: &ShareKey) -> PageLimit {
        let pages = self.pages();
        let share = match key {
            ShareKey::Address(_) => self.0.shares.address,
            ShareKey::Principal(_) => self.0.shares.principal,
            ShareKey::Unattributed => 1,
        };
        let share = pages.div_ceil(share.max(1)).max(1);
        PageLimit {
            share,
            first: (share / FIRST_RESERVATION_DIVISOR).max(1),
            // The response for one large task may exceed the share, but never takes the last quarter.
            alone: match key {
                ShareKey::Principal(_) => pages - pages / 4,
                ShareKey::Address(_) | ShareKey::Unattributed => 0,
            },
        }
    }

    fn pages(&self) -> usize {
        self.0.bytes.div_ceil(Self::PAGE)
    }

    fn lock(&self) -> MutexGuard<'_, ReservedPages> {
        self.0
            .reserved
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes more pages for a reservation that has `already` pages.
    fn try_acquire(&self, key: &ShareKey, already: usize, pages: usize) -> bool {
        let mut reserved = self.lock();
        let total = reserved.total.saturating_add(pages);
        let is_acquired =
            total <= self.pages() && self.add(&mut reserved, key, already, pages, total);
        if is_acquired {
            reserved.total = total;
        }
        is_acquired
    }

    fn transfer(&self, from: &ShareKey, to: &ShareKey, pages: usize) -> bool {
        let mut reserved = self.lock();
        let total = reserved.total;
        let is_moved = self.add(&mut reserved, to, 0, pages, total);
        if is_moved {
            reserved.remove(from, pages);
        }
        is_moved
    }

    /// Adds pages to a caller if its limits allow it. `already` is what their reservation has, `total` the pages of
    /// all callers afterwards.
    fn add(
        &self,
        reserved: &mut ReservedPages,
        key: &ShareKey,
        already: usize,
        pages: usize,
        total: usize,
    ) -> bool {
        let before = reserved.by_key.get(key).copied().unwrap_or(0);
        let held = before.saturating_add(pages);
        let all = self.pages();
        let free = all.saturating_sub(total);
        let limit = self.page_limit(key);
        let is_only = before <= already;
        let is_within_share = held <= limit.share && (held <= free || limit.share >= all);
        let is_first = is_only && held <= limit.first;
        let is_alone = is_only && held <= limit.alone && free >= all / 4;
        if pages > 0 && !(is_within_share || is_first || is_alone) {
            return false;
        }
        if held > 0 {
            reserved.by_key.insert(key.clone(), held);
        }
        true
    }

    fn release(&self, key: &ShareKey, pages: usize) {
        let mut reserved = self.lock();
        reserved.total = reserved.total.saturating_sub(pages);
        reserved.remove(key, pages);
        drop(reserved);
        self.0.released.notify_waiters();
    }
}

impl ReservedPages {
    fn remove(&mut self, key: &ShareKey, pages: usize) {
        if let Entry::Occupied(mut entry) = self.by_key.entry(key.clone()) {
            *entry.get_mut() = entry.get().saturating_sub(pages);
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

impl Default for MemoryBudget {
    /// Returns a budget of 512 MiB.
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

/// Reserved memory, released when dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: MemoryBudget,
    key: ShareKey,
    pages: usize,
}

impl Reservation {
    /// Returns the number of reserved bytes.
    pub fn bytes(&self) -> usize {
        self.pages.saturating_mul(MemoryBudget::PAGE)
    }

    /// Grows the reservation to so many bytes. Returns false, and changes nothing, if there is not enough memory.
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        let pages = bytes.div_ceil(MemoryBudget::PAGE);
        let missing = pages.saturating_sub(self.pages);
        let is_acquired = self.budget.try_acquire(&self.key, self.pages, missing);
        if is_acquired {
            self.pages += missing;
        }
        is_acquired
    }

    /// Releases everything beyond so many bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        let pages = bytes.div_ceil(MemoryBudget::PAGE);
        if pages < self.pages {
            self.budget.release(&self.key, self.pages - pages);
            self.pages = pages;
        }
    }

    /// Splits off so many bytes, or all if there are fewer, as a separate reservation.
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

    /// Moves the reservation to another caller's share. Returns false, and changes nothing, if that share is used up.
    pub fn transfer(&mut self, key: &ShareKey) -> bool {
        if self.key == *key {
            return true;
        }
        let is_moved = self.budget.transfer(&self.key, key, self.pages);
        if is_moved {
            self.key = key.clone();
        }
        is_moved
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.pages > 0 {
            self.budget.release(&self.key, self.pages);
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
    fn caller_is_limited_to_its_share() {
        let budget = MemoryBudget::with_shares(8 * PAGE, Shares::default());
        let mut first = budget.reserve(&principal("a"), 1).unwrap();
        let second = budget.reserve(&principal("a"), 1).unwrap();
        assert!(budget.reserve(&principal("a"), 1).is_none(), "a quarter");
        assert!(!first.grow_to(PAGE + 1));
        assert_eq!(first.bytes(), PAGE, "the reservation is unchanged");
        let _second = budget.reserve(&principal("b"), 2 * PAGE).unwrap();
        drop((first, second));
        budget.reserve(&principal("a"), 2 * PAGE).unwrap();
        assert_eq!(budget.lock().by_key.len(), 1, "no entry without memory");
    }

    /// Reserves one page after the other until there is no more, and returns the pages.
    fn reserve_all(budget: &MemoryBudget, key: &ShareKey) -> Vec<Reservation> {
        std::iter::from_fn(|| budget.reserve(key, 1)).collect()
    }

    #[test]
    fn callers_that_take_all_they_may_leave_memory_to_the_next() {
        let budget = MemoryBudget::new(512 * PAGE);
        let mut held = Vec::new();
        for (name, pages) in [("a", 128), ("b", 128), ("c", 128), ("d", 64), ("e", 32)] {
            let of_caller = reserve_all(&budget, &principal(name));
            assert_eq!(of_caller.len(), pages, "{name}");
            held.push(of_caller);
        }
        // A caller without memory need not leave as much free.
        let mut first = budget.reserve(&principal("f"), 4 * PAGE).unwrap();
        assert!(first.grow_to(8 * PAGE));
        for name in ["g", "h"] {
            assert!(budget.reserve(&principal(name), 13 * PAGE).is_none());
            held.push(vec![budget.reserve(&principal(name), 8 * PAGE).unwrap()]);
        }
        assert!(budget.reserve(&principal("f"), 8 * PAGE).is_none());
        // What is released is free for those who hold less.
        held.remove(0);
        assert!(first.grow_to(72 * PAGE));
        assert!(!first.grow_to(73 * PAGE), "as much stays free");
    }

    #[test]
    fn addresses_leave_memory_to_the_next() {
        let budget = MemoryBudget::new(64 * PAGE);
        let held: Vec<_> = (0..15)
            .map(|n| reserve_all(&budget, &address(&format!("10.0.0.{n}"))))
            .collect();
        let pages: usize = held.iter().map(Vec::len).sum();
        assert_eq!(pages, 60);
        let last = reserve_all(&budget, &address("10.0.1.0"));
        assert_eq!(last.len(), 2);
    }

    #[test]
    fn full_share_is_not_reduced() {
        let budget = MemoryBudget::with_shares(16 * PAGE, Shares::FULL);
        for key in [principal("a"), address("10.0.0.1")] {
            assert_eq!(reserve_all(&budget, &key).len(), 16);
        }
    }

    #[test]
    fn only_reservation_of_a_principal_may_exceed_its_share() {
        let budget = MemoryBudget::new(16 * PAGE);
        let mut large = budget.reserve(&principal("a"), PAGE).unwrap();
        assert!(large.grow_to(12 * PAGE));
        assert!(budget.reserve(&principal("a"), 1).is_none());
        assert!(budget.reserve(&principal("b"), 3 * PAGE).is_none());
        budget.reserve(&principal("b"), 2 * PAGE).unwrap();
        drop(large);
        let small = budget.reserve(&principal("b"), PAGE).unwrap();
        assert!(budget.reserve(&principal("a"), 12 * PAGE).is_none());
        drop(small);
        assert!(budget.reserve(&principal("a"), 13 * PAGE).is_none());
        assert!(budget.reserve(&address("10.0.0.1"), 2 * PAGE).is_none());
    }

    #[test]
    fn total_bounds_all_callers_together() {
        let budget = MemoryBudget::with_shares(2 * PAGE, Shares::FULL);
        let reservation = budget.reserve(&principal("a"), 2 * PAGE).unwrap();
        for key in [principal("b"), address("10.0.0.1"), ShareKey::Unattributed] {
            assert!(budget.reserve(&key, 1).is_none());
        }
        drop(reservation);
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
        assert!(moved.transfer(&principal("a")), "already there");
        let mut other = budget.reserve(&address("10.0.0.2"), 1).unwrap();
        assert!(!other.transfer(&principal("a")), "its share is used up");
        assert_eq!(other.bytes(), PAGE);
    }

    #[test]
    fn addresses_of_one_prefix_are_one_caller() {
        assert_eq!(address("10.0.0.1"), address("::ffff:10.0.0.1"));
        assert_ne!(address("10.0.0.1"), address("10.0.0.2"));
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:2"));
        assert_ne!(address("2001:db8:0:1::1"), address("2001:db8:0:2::1"));
    }
}
