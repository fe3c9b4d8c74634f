//! Write buffer: one contiguous range of a WAL file that is not written yet.

/// Maximum number of buffered bytes: the largest page size. Larger single writes are not guaranteed to be supported: on
/// Unix, SQLite's own write function handles less than twice that.
const MAX_BYTES: usize = 64 << 10;

/// Contiguous unwritten range of a file.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    /// File offset of the range.
    offset: i64,
    bytes: Vec<u8>,
}

impl WriteBuffer {
    /// Appends bytes at a file offset, if they continue the range and fit. Returns false if not: the buffer must be
    /// written first.
    #[must_use]
    pub(crate) fn try_append(&mut self, offset: i64, bytes: &[u8]) -> bool {
        if self.bytes.is_empty() {
            self.offset = offset;
        }
        let is_contiguous = i64::try_from(self.bytes.len())
            .ok()
            .and_then(|length| self.offset.checked_add(length))
            == Some(offset);
        let fits = self.bytes.len().saturating_add(bytes.len()) <= MAX_BYTES;
        // Without memory for the copy, the caller writes the bytes directly.
        let is_appended = is_contiguous && fits && self.bytes.try_reserve(bytes.len()).is_ok();
        if is_appended {
            self.bytes.extend_from_slice(bytes);
        }
        is_appended
    }

    /// Returns the offset and bytes to write; `None` if the buffer is empty.
    pub(crate) fn contents(&self) -> Option<(i64, &[u8])> {
        (!self.bytes.is_empty()).then_some((self.offset, &*self.bytes))
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
    fn consecutive_writes_are_joined() {
        let mut buffer = WriteBuffer::default();
        assert!(buffer.try_append(32, b"head"));
        assert!(buffer.try_append(36, b"page"));
        assert_eq!(buffer.contents(), Some((32, &b"headpage"[..])));
    }

    #[test]
    fn non_contiguous_write_is_not_appended() {
        let mut buffer = WriteBuffer::default();
        assert!(buffer.try_append(32, b"head"));
        assert!(!buffer.try_append(37, b"a gap"));
        assert!(!buffer.try_append(32, b"the same offset"));
        assert!(!buffer.try_append(0, b"before it"));
        assert_eq!(buffer.contents(), Some((32, &b"head"[..])));
        buffer.clear();
        assert_eq!(buffer.contents(), None);
        assert!(buffer.try_append(0, b"before it"));
        assert_eq!(buffer.contents(), Some((0, &b"before it"[..])));
    }

    #[test]
    fn write_over_the_size_limit_is_not_appended() {
        let mut buffer = WriteBuffer::default();
        assert!(buffer.try_append(0, &vec![1; MAX_BYTES]));
        assert!(!buffer.try_append(i64::try_from(MAX_BYTES).unwrap(), &[1]));
        buffer.clear();
        assert!(!buffer.try_append(0, &vec![1; MAX_BYTES + 1]));
    }

    #[test]
    fn write_after_the_last_offset_is_not_appended() {
        let mut buffer = WriteBuffer::default();
        assert!(buffer.try_append(i64::MAX, &[1]));
        assert!(!buffer.try_append(i64::MIN, &[1]));
        assert!(!buffer.try_append(i64::MAX, &[1]));
    }
}
