//! What was written to a log and is not in its file yet: one stretch of bytes that grows at its end.
//!
//! When it must go out is decided here; how it does is not known.

/// The most bytes that are kept back: as much as the largest page, for nobody promises to write more at once. On unix
/// the engine's own function takes less than twice that, and gets lost in more.
const MOST: usize = 64 << 10;

/// One stretch of a file that is not written yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Where in the file it begins.
    at: i64,
    bytes: Vec<u8>,
}

impl Pending {
    /// Adds what belongs at a place, if it goes on where the rest ends and there is room. Answers whether it did:
    /// if not, what is pending must go out before.
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
        // Without memory for it, it is written as it comes.
        let taken = goes_on && fits && self.bytes.try_reserve(bytes.len()).is_ok();
        if taken {
            self.bytes.extend_from_slice(bytes);
        }
        taken
    }

    /// What is to be written, and where; nothing if there is none.
    pub(crate) fn stretch(&self) -> Option<(i64, &[u8])> {
        (!self.bytes.is_empty()).then_some((self.at, &*self.bytes))
    }

    /// Forgets it: it is written, or never will be.
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
