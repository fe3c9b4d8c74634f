//! Small answers that are not read. Large ones take their part of the memory for answers; small ones are many: a
//! caller that opens no window can have hundreds of them on each connection of HTTP/2, and one of HTTP/1.1 that sends
//! requests and reads nothing fills the buffers of its connection in both directions.

use super::pulse::Pulse;
use super::transfer::OVERHEAD;
use crate::budget::AddressPrefix;
use crate::limits::HttpLimits;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// Connections whose memory differs by less than this count as equal. A reader of one large answer has the buffer of
/// the TLS library, and any more is from further requests.
const STEP: u64 = 64 * 1024 + OVERHEAD;

/// What the connections of a listener leave unread, gathered in one sweep.
#[derive(Default)]
pub(super) struct UnreadAnswers {
    connections: Vec<Unread>,
    by_address: HashMap<AddressPrefix, u64>,
    total: u64,
}

/// What one connection leaves unread.
struct Unread {
    bytes: u64,
    /// Something of it was read lately.
    moves: bool,
    prefix: AddressPrefix,
    pulse: Arc<Pulse>,
}

impl UnreadAnswers {
    /// Counts what one connection leaves unread.
    pub(super) fn add(
        &mut self,
        pulse: &Arc<Pulse>,
        prefix: Option<&AddressPrefix>,
        bytes: u64,
        moves: bool,
    ) {
        let (Some(prefix), 1..) = (prefix, bytes) else {
            return;
        };
        self.connections.push(Unread {
            bytes,
            moves,
            prefix: *prefix,
            pulse: Arc::clone(pulse),
        });
        *self.by_address.entry(*prefix).or_default() += bytes;
        self.total += bytes;
    }

    /// The connections to cut, so that no address leaves more unread than its share and all together no more than
    /// is allowed. Those with the most go first, and of about equal ones those that stand still.
    pub(super) fn exceed(mut self, limits: &HttpLimits) -> Vec<Arc<Pulse>> {
        let parts = u64::try_from(limits.shares.address.max(1)).unwrap_or(u64::MAX);
        let share = limits.unread.div_ceil(parts);
        if self.total <= share {
            return Vec::new();
        }
        self.connections.sort_by_key(|one| {
            let steps = one.bytes.div_ceil(STEP);
            (Reverse(steps), one.moves, Reverse(one.bytes))
        });
        let mut cut = Vec::new();
        for one in self.connections {
            let Unread {
                bytes,
                prefix,
                pulse,
                ..
            } = one;
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
        let connections: Vec<_> = connections
            .iter()
            .map(|(address, bytes)| (*address, *bytes, false))
            .collect();
        cut_some(limits, &connections)
    }

    fn cut_some(limits: &HttpLimits, connections: &[(&str, u64, bool)]) -> Vec<usize> {
        let pulses = Pulses::new();
        let entries: Vec<Entry> = connections.iter().map(|_| pulses.enter()).collect();
        let mut unread = UnreadAnswers::default();
        for ((address, bytes, moves), entry) in connections.iter().zip(&entries) {
            let prefix = AddressPrefix::from_address(address.parse().unwrap());
            unread.add(entry.pulse(), Some(&prefix), *bytes, *moves);
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
    fn reader_that_reads_is_cut_after_those_that_stand_still() {
        let limits = HttpLimits {
            unread: 4 * STEP,
            shares: Shares {
                address: 1,
                ..Shares::default()
            },
            ..HttpLimits::default()
        };
        let one = "192.0.2.1";
        let reads = (one, STEP, true);
        let stands = (one, STEP - 1, false);
        let pipelines = (one, 2 * STEP, true);
        assert_eq!(cut_some(&limits, &[reads, stands, reads, stands]), [0; 0]);
        assert_eq!(
            cut_some(&limits, &[reads, stands, reads, reads, stands]),
            [1]
        );
        assert_eq!(
            cut_some(&limits, &[reads, pipelines, reads, stands]),
            [1],
            "more than one answer on a connection goes first"
        );
        assert_eq!(cut_some(&limits, &[reads; 5]), [0]);
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
