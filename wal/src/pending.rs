//! Write buffer: one contiguous range of a WAL file that is not written yet.

/// Maximum buffered bytes: the largest page size, since larger single writes are not guaranteed to be supported. On
/// Unix SQLite's own write function handles less than twice that.
const MOST: usize = 64 << 10;

/// Contiguous unwritten range of a file.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// File offset of the range.
    at: i64,
    bytes: Vec<u8>,
}

impl Pending {
    /// Appends bytes at a file offset, if they continue the range and fit. Returns whether they did: if not, the
    /// buffer must be written first.
    #[must_use]
    pub(crate) fn takes(&mut self, at: i64, bytes: &[u8]) -> bool {
        if self.bytes.is_empty() {
            self.at = at;
        }
        let goes_on = i64::try_from(self.bytes.len())
            .ok()
            .and_then(|length| self.at.checked_add(length))
            == Some(at);
        let fits = self.bytes.len().saturating_add(bytes.len()) <= MOST;
        // If memory cannot be allocated, it is written directly.
        let taken = goes_on && fits && self.bytes.try_reserve(bytes.len()).is_ok();
        if taken {
            self.bytes.extend_from_slice(bytes);
        }
        taken
    }

    /// The offset and bytes to write; `None` if the buffer is empty.
    pub(crate) fn stretch(&self) -> Option<(i64, &[u8])> {
        (!self.bytes.is_empty()).then_some((self.at, &*self.bytes))
    }

    /// Discards the buffer.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_itself_is_one_stretch() {
        let mut pending = Pending::default();
        assert!(pending.takes(32, b"head"));
        assert!(pending.takes(36, b"page"));
        assert_eq!(pending.stretch(), Some((32, &b"headpage"[..])));
    }

    #[test]
    fn what_is_elsewhere_waits_until_the_rest_is_out() {
        let mut pending = Pending::default();
        assert!(pending.takes(32, b"head"));
        assert!(!pending.takes(37, b"a gap"));
        assert!(!pending.takes(32, b"the same place"));
        assert!(!pending.takes(0, b"before it"));
        assert_eq!(pending.stretch(), Some((32, &b"head"[..])));
        pending.clear();
        assert_eq!(pending.stretch(), None);
        assert!(pending.takes(0, b"before it"));
        assert_eq!(pending.stretch(), Some((0, &b"before it"[..])));
    }

    #[test]
    fn it_does_not_grow_without_end() {
        let mut pending = Pending::default();
        assert!(pending.takes(0, &vec![1; MOST]));
        assert!(!pending.takes(i64::try_from(MOST).unwrap(), &[1]));
        pending.clear();
        assert!(!pending.takes(0, &vec![1; MOST + 1]));
    }

    #[test]
    fn no_place_is_beyond_what_can_be_counted() {
        let mut pending = Pending::default();
        assert!(pending.takes(i64::MAX, &[1]));
        assert!(!pending.takes(i64::MIN, &[1]));
        assert!(!pending.takes(i64::MAX, &[1]));
    }
}
