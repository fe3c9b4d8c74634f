//! Small answers that are not read. Large ones take their part of the memory for answers; small ones are many, and a
//! caller that opens no window can have hundreds of them on each connection.

use super::pulse::Pulse;
use crate::budget::AddressPrefix;
use crate::limits::HttpLimits;
use std::collections::HashMap;
use std::sync::Arc;

/// What the connections of a listener leave unread, gathered in one sweep.
#[derive(Default)]
pub(super) struct UnreadAnswers {
    connections: Vec<(u64, AddressPrefix, Arc<Pulse>)>,
    by_address: HashMap<AddressPrefix, u64>,
    total: u64,
}

impl UnreadAnswers {
    /// Counts what one connection leaves unread.
    pub(super) fn add(&mut self, pulse: &Arc<Pulse>, prefix: Option<&AddressPrefix>, bytes: u64) {
        let (Some(prefix), 1..) = (prefix, bytes) else {
            return;
        };
        self.connections.push((bytes, *prefix, Arc::clone(pulse)));
        *self.by_address.entry(*prefix).or_default() += bytes;
        self.total += bytes;
    }

    /// The connections to cut, so that no address leaves more unread than its share and all together no more than
    /// is allowed. Those with the most go first.
    pub(super) fn exceed(mut self, limits: &HttpLimits) -> Vec<Arc<Pulse>> {
        let parts = u64::try_from(limits.shares.address.max(1)).unwrap_or(u64::MAX);
        let share = limits.unread.div_ceil(parts);
        if self.total <= share {
            return Vec::new();
        }
        self.connections
            .sort_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
        let mut cut = Vec::new();
        for (bytes, prefix, pulse) in self.connections {
            let of_address = self.by_address.entry(prefix).or_default();
            if *of_address > share || self.total > limits.unread {
                *of_address = of_address.saturating_sub(bytes);
                self.total = self.total.saturating_sub(bytes);
                cut.push(pulse);
            }
        }
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Shares;
    use crate::listener::pulse::{Entry, Pulses};

    fn cut(limits: &HttpLimits, connections: &[(&str, u64)]) -> Vec<usize> {
        let pulses = Pulses::new();
        let entries: Vec<Entry> = connections.iter().map(|_| pulses.enter()).collect();
        let mut unread = UnreadAnswers::default();
        for ((address, bytes), entry) in connections.iter().zip(&entries) {
            let prefix = AddressPrefix::from_address(address.parse().unwrap());
            unread.add(entry.pulse(), Some(&prefix), *bytes);
        }
        let cut = unread.exceed(limits);
        let is_cut = |entry: &Entry| cut.iter().any(|pulse| Arc::ptr_eq(pulse, entry.pulse()));
        (0..)
            .zip(&entries)
            .filter(|(_, entry)| is_cut(entry))
            .map(|(number, _)| number)
            .collect()
    }

    #[test]
    fn connections_with_the_most_are_cut_until_every_share_is_kept() {
        let limits = HttpLimits {
            unread: 100,
            shares: Shares {
                address: 4,
                ..Shares::default()
            },
            ..HttpLimits::default()
        };
        let one = "192.0.2.1";
        assert_eq!(cut(&limits, &[(one, 25), ("192.0.2.2", 25)]), [0; 0]);
        assert_eq!(
            cut(
                &limits,
                &[(one, 5), (one, 20), (one, 10), ("192.0.2.2", 25)]
            ),
            [1]
        );
        // Each keeps its share, and together they are too many.
        let many: Vec<String> = (1..=6).map(|host| format!("192.0.2.{host}")).collect();
        let many: Vec<(&str, u64)> = many.iter().map(|address| (&**address, 20)).collect();
        assert_eq!(cut(&limits, &many), [0]);
        // An operator may let one address have all.
        let limits = HttpLimits {
            shares: Shares {
                address: 1,
                ..Shares::default()
            },
            ..limits
        };
        assert_eq!(cut(&limits, &[(one, 60), (one, 40)]), [0; 0]);
    }
}
