//! Follows the TLS records that arrive on a connection (RFC 8446, 5.1): the TLS library keeps an incomplete one until
//! the rest of it arrives. What is in the records is not looked at.

/// Type, version and length.
const HEAD: usize = 5;

#[derive(Debug, Default)]
pub(super) struct Records {
    head: [u8; HEAD],
    /// How much of the record at hand has arrived, its head included.
    arrived: usize,
    /// Bytes of its payload that are missing.
    missing: usize,
}

impl Records {
    pub(super) fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let in_head = self.arrived < HEAD;
            let wanted = match in_head {
                true => HEAD - self.arrived,
                false => self.missing,
            };
            let (some, rest) = bytes.split_at(wanted.min(bytes.len()));
            bytes = rest;
            if in_head {
                for (to, from) in self.head.iter_mut().skip(self.arrived).zip(some) {
                    *to = *from;
                }
            } else {
                self.missing -= some.len();
            }
            self.arrived += some.len();
            if in_head && self.arrived == HEAD {
                let [.., high, low] = self.head;
                self.missing = usize::from(u16::from_be_bytes([high, low]));
            }
            if self.arrived >= HEAD && self.missing == 0 {
                self.arrived = 0;
            }
        }
    }

    /// Bytes of a record that is incomplete.
    pub(super) fn incomplete(&self) -> usize {
        self.arrived
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(length: u16) -> Vec<u8> {
        let [high, low] = length.to_be_bytes();
        let mut record = vec![0x17, 3, 3, high, low];
        record.resize(HEAD + usize::from(length), b'x');
        record
    }

    #[test]
    fn incomplete_record_is_found_however_the_bytes_are_cut() {
        let bytes = [record(300), record(0), record(16_384), record(500)].concat();
        let (last, cut) = (HEAD + 500, 100);
        for size in [1, 2, 4, 5, 6, 1_000, bytes.len()] {
            let mut records = Records::default();
            for piece in bytes[..bytes.len() - cut].chunks(size) {
                records.follow(piece);
            }
            assert_eq!(records.incomplete(), last - cut, "pieces of {size} bytes");
            records.follow(&bytes[bytes.len() - cut..]);
            assert_eq!(records.incomplete(), 0);
        }
    }

    #[test]
    fn part_of_a_record_head_is_incomplete_too() {
        let mut records = Records::default();
        records.follow(&record(7)[..3]);
        assert_eq!(records.incomplete(), 3);
    }
}
