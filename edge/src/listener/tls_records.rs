//! Tracks the TLS records received on a connection (RFC 8446, 5.1): the TLS library buffers an incomplete record.

/// Length of a record header: type, version and length.
const RECORD_HEADER_BYTES: usize = 5;

#[derive(Debug, Default)]
pub(super) struct TlsRecordTracker {
    header: [u8; RECORD_HEADER_BYTES],
    /// Received bytes of the current record, its header included.
    received: usize,
    /// Missing bytes of its payload.
    missing: usize,
}

impl TlsRecordTracker {
    pub(super) fn track(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let in_header = self.received < RECORD_HEADER_BYTES;
            let wanted = match in_header {
                true => RECORD_HEADER_BYTES - self.received,
                false => self.missing,
            };
            let (some, remaining) = bytes.split_at(wanted.min(bytes.len()));
            bytes = remaining;
            if in_header {
                for (to, from) in self.header.iter_mut().skip(self.received).zip(some) {
                    *to = *from;
                }
            } else {
                self.missing -= some.len();
            }
            self.received += some.len();
            if in_header && self.received == RECORD_HEADER_BYTES {
                let [.., high, low] = self.header;
                self.missing = usize::from(u16::from_be_bytes([high, low]));
            }
            if self.received >= RECORD_HEADER_BYTES && self.missing == 0 {
                self.received = 0;
            }
        }
    }

    /// Returns the received bytes of an incomplete record.
    pub(super) fn incomplete_bytes(&self) -> usize {
        self.received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(length: u16) -> Vec<u8> {
        let [high, low] = length.to_be_bytes();
        let mut record = vec![0x17, 3, 3, high, low];
        record.resize(RECORD_HEADER_BYTES + usize::from(length), b'x');
        record
    }

    #[test]
    fn incomplete_record_is_tracked_across_any_chunking() {
        let bytes = [record(300), record(0), record(16_384), record(500)].concat();
        let (last, cut) = (RECORD_HEADER_BYTES + 500, 100);
        for size in [1, 2, 4, 5, 6, 1_000, bytes.len()] {
            let mut records = TlsRecordTracker::default();
            for chunk in bytes[..bytes.len() - cut].chunks(size) {
                records.track(chunk);
            }
            assert_eq!(
                records.incomplete_bytes(),
                last - cut,
                "chunks of {size} bytes"
            );
            records.track(&bytes[bytes.len() - cut..]);
            assert_eq!(records.incomplete_bytes(), 0);
        }
    }

    #[test]
    fn partial_record_header_counts_as_incomplete() {
        let mut records = TlsRecordTracker::default();
        records.track(&record(7)[..3]);
        assert_eq!(records.incomplete_bytes(), 3);
    }
}
