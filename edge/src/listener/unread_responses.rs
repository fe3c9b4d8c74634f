//! Memory limit for small responses that clients do not read. Large ones count in the response memory budget; small
//! ones are many: a client that opens no window can have hundreds of them on each HTTP/2 connection, and one of
//! HTTP/1.1 that sends requests and reads nothing fills the buffers of its connection in both directions.

use super::conn_registry::ConnState;
use super::transfer::RESPONSE_OVERHEAD;
use crate::budget::AddressPrefix;
use crate::limits::HttpLimits;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// Connections whose memory differs by less than this count as equal. A reader of one large response has the buffer of
/// the TLS library; any more comes from further requests.
const EQUAL_STEP: u64 = 64 * 1024 + RESPONSE_OVERHEAD;

/// Unread bytes of the connections of a listener, collected in one sweep.
#[derive(Default)]
pub(super) struct UnreadResponses {
    connections: Vec<UnreadConnection>,
    by_address: HashMap<AddressPrefix, u64>,
    total: u64,
}

/// Unread bytes of one connection.
struct UnreadConnection {
    bytes: u64,
    /// Some of it was read recently.
    makes_progress: bool,
    prefix: AddressPrefix,
    conn: Arc<ConnState>,
}

impl UnreadResponses {
    /// Adds the unread bytes of one connection.
    pub(super) fn add(
        &mut self,
        conn: &Arc<ConnState>,
        prefix: Option<&AddressPrefix>,
        bytes: u64,
        makes_progress: bool,
    ) {
        let (Some(prefix), 1..) = (prefix, bytes) else {
            return;
        };
        self.connections.push(UnreadConnection {
            bytes,
            makes_progress,
            prefix: *prefix,
            conn: Arc::clone(conn),
        });
        *self.by_address.entry(*prefix).or_default() += bytes;
        self.total += bytes;
    }

    /// Returns the connections to abort, so that no address exceeds its share and all together do not exceed the limit.
    /// Those with the most bytes go first, and of about equal ones those without progress.
    pub(super) fn select_excess(mut self, limits: &HttpLimits) -> Vec<Arc<ConnState>> {
        let parts = u64::try_from(limits.shares.address.max(1)).unwrap_or(u64::MAX);
        let share = limits.unread_response_bytes.div_ceil(parts);
        if self.total <= share {
            return Vec::new();
        }
        self.connections.sort_by_key(|one| {
            let steps = one.bytes.div_ceil(EQUAL_STEP);
            (Reverse(steps), one.makes_progress, Reverse(one.bytes))
        });
        let mut aborted = Vec::new();
        for one in self.connections {
            let UnreadConnection {
                bytes,
                prefix,
                conn: pulse,
                ..
            } = one;
            let of_address = self.by_address.entry(prefix).or_default();
            if *of_address > share || self.total > limits.unread_response_bytes {
                *of_address = of_address.saturating_sub(bytes);
                self.total = self.total.saturating_sub(bytes);
                aborted.push(pulse);
            }
        }
        aborted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Shares;
    use crate::listener::conn_registry::{ConnRegistry, Registration};

    fn aborted(limits: &HttpLimits, connections: &[(&str, u64)]) -> Vec<usize> {
        let connections: Vec<_> = connections
            .iter()
            .map(|(address, bytes)| (*address, *bytes, false))
            .collect();
        aborted_with_progress(limits, &connections)
    }

    fn aborted_with_progress(limits: &HttpLimits, connections: &[(&str, u64, bool)]) -> Vec<usize> {
        let registry = ConnRegistry::new();
        let entries: Vec<Registration> = connections.iter().map(|_| registry.register()).collect();
        let mut unread = UnreadResponses::default();
        for ((address, bytes, moves), registration) in connections.iter().zip(&entries) {
            let prefix = AddressPrefix::from_address(address.parse().unwrap());
            unread.add(registration.conn(), Some(&prefix), *bytes, *moves);
        }
        let cut = unread.select_excess(limits);
        let is_cut = |registration: &Registration| {
            cut.iter()
                .any(|conn| Arc::ptr_eq(conn, registration.conn()))
        };
        (0..)
            .zip(&entries)
            .filter(|(_, registration)| is_cut(registration))
            .map(|(number, _)| number)
            .collect()
    }

    #[test]
    fn stalled_readers_are_aborted_before_slow_ones() {
        let limits = HttpLimits {
            unread_response_bytes: 4 * EQUAL_STEP,
            shares: Shares {
                address: 1,
                ..Shares::default()
            },
            ..HttpLimits::default()
        };
        let one = "192.0.2.1";
        let slow = (one, EQUAL_STEP, true);
        let stalled = (one, EQUAL_STEP - 1, false);
        let pipelines = (one, 2 * EQUAL_STEP, true);
        assert_eq!(
            aborted_with_progress(&limits, &[slow, stalled, slow, stalled]),
            [0; 0]
        );
        assert_eq!(
            aborted_with_progress(&limits, &[slow, stalled, slow, slow, stalled]),
            [1]
        );
        assert_eq!(
            aborted_with_progress(&limits, &[slow, pipelines, slow, stalled]),
            [1],
            "more than one response on a connection goes first"
        );
        assert_eq!(aborted_with_progress(&limits, &[slow; 5]), [0]);
    }

    #[test]
    fn largest_connections_are_aborted_until_shares_are_met() {
        let limits = HttpLimits {
            unread_response_bytes: 100,
            shares: Shares {
                address: 4,
                ..Shares::default()
            },
            ..HttpLimits::default()
        };
        let one = "192.0.2.1";
        assert_eq!(aborted(&limits, &[(one, 25), ("192.0.2.2", 25)]), [0; 0]);
        assert_eq!(
            aborted(
                &limits,
                &[(one, 5), (one, 20), (one, 10), ("192.0.2.2", 25)]
            ),
            [1]
        );
        // Each is within its share, and together they exceed the limit.
        let many: Vec<String> = (1..=6).map(|host| format!("192.0.2.{host}")).collect();
        let many: Vec<(&str, u64)> = many.iter().map(|address| (&**address, 20)).collect();
        assert_eq!(aborted(&limits, &many), [0]);
        // An operator may allow one address everything.
        let limits = HttpLimits {
            shares: Shares {
                address: 1,
                ..Shares::default()
            },
            ..limits
        };
        assert_eq!(aborted(&limits, &[(one, 60), (one, 40)]), [0; 0]);
    }
}
