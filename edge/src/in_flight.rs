//! In-flight request limit per caller, so that one caller cannot take all request slots of a listener.

use crate::budget::ShareKey;
use crate::limits::HttpLimits;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Counts requests in flight: in total, and for each address or principal.
pub struct InFlight {
    total: usize,
    address: usize,
    principal: usize,
    counts: Mutex<InFlightCounts>,
}

/// In-flight counts. A caller has an entry only while it has a request in flight.
#[derive(Default)]
struct InFlightCounts {
    total: usize,
    by_key: HashMap<ShareKey, usize>,
}

impl InFlight {
    /// Creates a counter with the limits `limits.requests` and its shares. A share is at least one request.
    pub fn new(limits: &HttpLimits) -> Arc<Self> {
        let total = limits.requests.max(1);
        let part = |divisor: usize| total.div_ceil(divisor.max(1));
        Arc::new(Self {
            total,
            address: part(limits.shares.address),
            principal: part(limits.shares.principal),
            counts: Mutex::default(),
        })
    }

    /// Counts one more request until the returned guard is dropped; `None` if the caller has used its share, or all
    /// callers together have reached the total.
    pub fn begin(self: &Arc<Self>, key: ShareKey) -> Option<InFlightRequest> {
        let share = match key {
            ShareKey::Address(_) => self.address,
            ShareKey::Principal(_) => self.principal,
            ShareKey::Unattributed => self.total,
        };
        let mut counts = self.lock();
        if counts.total >= self.total {
            return None;
        }
        match counts.by_key.get_mut(&key) {
            Some(count) if *count >= share => return None,
            Some(count) => *count += 1,
            None => drop(counts.by_key.insert(key.clone(), 1)),
        }
        counts.total += 1;
        drop(counts);
        Some(InFlightRequest {
            in_flight: Arc::clone(self),
            key,
        })
    }

    fn lock(&self) -> MutexGuard<'_, InFlightCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of a request in flight.
pub struct InFlightRequest {
    in_flight: Arc<InFlight>,
    key: ShareKey,
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        let mut counts = self.in_flight.lock();
        counts.total = counts.total.saturating_sub(1);
        if let Some(count) = counts.by_key.get_mut(&self.key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                counts.by_key.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{AddressPrefix, Shares};

    fn in_flight(requests: usize) -> Arc<InFlight> {
        InFlight::new(&HttpLimits {
            requests,
            shares: Shares {
                address: 4,
                principal: 2,
            },
            ..HttpLimits::default()
        })
    }

    fn principal(name: &str) -> ShareKey {
        ShareKey::Principal(name.into())
    }

    #[test]
    fn principal_beyond_its_share_is_rejected_others_are_not() {
        let in_flight = in_flight(8);
        let mut requests: Vec<_> = (0..4)
            .map(|_| in_flight.begin(principal("anna")).unwrap())
            .collect();
        assert!(in_flight.begin(principal("anna")).is_none());
        let other = in_flight.begin(principal("bert")).unwrap();
        requests.pop();
        requests.push(in_flight.begin(principal("anna")).unwrap());
        drop((requests, other));
        assert!(in_flight.lock().by_key.is_empty(), "entries are removed");
        assert_eq!(in_flight.lock().total, 0);
    }

    #[test]
    fn address_has_a_share_of_its_own() {
        let in_flight = in_flight(8);
        let address = || {
            let address = [10, 0, 0, 1].into();
            ShareKey::Address(AddressPrefix::from_address(address))
        };
        let _requests = (in_flight.begin(address()), in_flight.begin(address()));
        assert!(in_flight.begin(address()).is_none());
        assert!(in_flight.begin(principal("anna")).is_some());
    }

    #[test]
    fn all_callers_together_are_limited_by_the_total() {
        let in_flight = in_flight(2);
        let _requests = (
            in_flight.begin(principal("anna")).unwrap(),
            in_flight.begin(principal("bert")).unwrap(),
        );
        assert!(in_flight.begin(principal("carl")).is_none());
        assert!(in_flight.begin(ShareKey::Unattributed).is_none());
    }
}
