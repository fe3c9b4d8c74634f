//! Growing text: which of it was seen. A piece may come live and again from the log, and again
//! after a reconnect; each byte is told once.

/// How much of a run's text was told.
#[derive(Debug, Default)]
pub(super) struct Text {
    run: u64,
    told: u64,
}

impl Text {
    /// What of a piece is new: where that begins, and the words.
    pub(super) fn take<'d>(
        &mut self,
        run: u64,
        offset: u64,
        delta: &'d str,
    ) -> Option<(u64, &'d str)> {
        if run < self.run {
            return None;
        }
        if run > self.run {
            // A later run begins anew.
            self.run = run;
            self.told = offset;
        }
        let end = offset.saturating_add(u64::try_from(delta.len()).ok()?);
        if end <= self.told {
            return None;
        }
        let mut known = usize::try_from(self.told.saturating_sub(offset)).ok()?;
        // A server that cuts characters in two is not ours; at least nothing is told twice.
        while !delta.is_char_boundary(known) {
            known += 1;
        }
        self.told = end;
        let new = delta.get(known..)?;
        let begin = offset.saturating_add(u64::try_from(known).ok()?);
        (!new.is_empty()).then_some((begin, new))
    }
}

#[cfg(test)]
mod tests {
    use super::Text;

    #[test]
    fn each_byte_is_told_once() {
        let mut text = Text::default();
        assert_eq!(text.take(7, 0, "Hello"), Some((0, "Hello")));
        assert_eq!(
            text.take(7, 0, "Hello"),
            None,
            "the log repeats what was live"
        );
        assert_eq!(text.take(7, 3, "lo, wörld"), Some((5, ", wörld")));
        assert_eq!(
            text.take(7, 10, "rld!"),
            Some((13, "!")),
            "offsets count bytes"
        );
        assert_eq!(
            text.take(7, 20, "later"),
            Some((20, "later")),
            "a gap is passed on as one"
        );
        assert_eq!(text.take(6, 30, "older"), None, "a run that was given up");
        assert_eq!(text.take(8, 4, "resumed"), Some((4, "resumed")));
        assert_eq!(text.take(8, 4, "resumed"), None);
        assert_eq!(text.take(9, 0, ""), None);
    }
}
