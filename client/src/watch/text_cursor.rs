//! Deduplication of streamed text. A delta may arrive live, again from the log, and again after a reconnect;
//! each byte is delivered once.

/// Position up to which a run's text was delivered.
#[derive(Debug, Default)]
pub(super) struct TextCursor {
    run: u64,
    delivered: u64,
}

impl TextCursor {
    /// Returns the new part of a delta with its offset; `None` if all of it was delivered before.
    pub(super) fn advance<'d>(
        &mut self,
        run: u64,
        offset: u64,
        delta: &'d str,
    ) -> Option<(u64, &'d str)> {
        if run < self.run {
            return None;
        }
        if run > self.run {
            // The text of a later run starts from the beginning.
            self.run = run;
            self.delivered = offset;
        }
        let end = offset.saturating_add(u64::try_from(delta.len()).ok()?);
        if end <= self.delivered {
            return None;
        }
        let mut skip = usize::try_from(self.delivered.saturating_sub(offset)).ok()?;
        // Our servers never split characters; if another one does, at least nothing is delivered twice.
        while !delta.is_char_boundary(skip) {
            skip += 1;
        }
        self.delivered = end;
        let new = delta.get(skip..)?;
        let start = offset.saturating_add(u64::try_from(skip).ok()?);
        (!new.is_empty()).then_some((start, new))
    }
}

#[cfg(test)]
mod tests {
    use super::TextCursor;

    #[test]
    fn each_byte_is_delivered_once() {
        let mut cursor = TextCursor::default();
        assert_eq!(cursor.advance(7, 0, "Hello"), Some((0, "Hello")));
        assert_eq!(
            cursor.advance(7, 0, "Hello"),
            None,
            "the log repeats live text"
        );
        assert_eq!(cursor.advance(7, 3, "lo, wörld"), Some((5, ", wörld")));
        assert_eq!(
            cursor.advance(7, 10, "rld!"),
            Some((13, "!")),
            "offsets count bytes"
        );
        assert_eq!(
            cursor.advance(7, 20, "later"),
            Some((20, "later")),
            "a gap is passed through"
        );
        assert_eq!(cursor.advance(6, 30, "older"), None, "an abandoned run");
        assert_eq!(cursor.advance(8, 4, "resumed"), Some((4, "resumed")));
        assert_eq!(cursor.advance(8, 4, "resumed"), None);
        assert_eq!(cursor.advance(9, 0, ""), None);
    }
}
