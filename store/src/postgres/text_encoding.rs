//! Encoding of strings that PostgreSQL would reject or could not index.
//!
//! PostgreSQL text cannot contain NUL, so NUL is escaped as two characters. Index entries have a
//! maximum length, which our strings have not, so they are indexed by their hash.

use interzone_hub::BlobId;
use std::borrow::Cow;

/// Escape character.
const ESCAPE: char = '\u{1}';

/// Escapes a string for a column; nearly always borrowed unchanged.
pub(super) fn escape_nul(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\0' => safe.extend([ESCAPE, '0']),
            ESCAPE => safe.extend([ESCAPE, '1']),
            other => safe.push(other),
        }
    }
    Cow::Owned(safe)
}

/// Reverses [`escape_nul`].
pub(super) fn unescape_nul(text: &str) -> String {
    if !text.contains(ESCAPE) {
        return text.to_owned();
    }
    let mut original = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        original.push(match character {
            ESCAPE => match characters.next() {
                Some('0') => '\0',
                _ => ESCAPE,
            },
            other => other,
        });
    }
    original
}

/// Returns the hash by which a string is indexed.
pub(super) fn index_hash(text: &str) -> Vec<u8> {
    BlobId::for_content(text.as_bytes()).as_bytes().to_vec()
}

/// Returns the hash by which a pair of strings is indexed.
pub(super) fn index_hash_pair(first: &str, second: &str) -> Vec<u8> {
    index_hash(&format!("{}:{first}{second}", first.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_escaping_round_trips() {
        for text in [
            "",
            "plain",
            "日本",
            "\0",
            "a\0b\u{1}c",
            "\u{1}0",
            "\u{1}\u{1}1\0",
        ] {
            let safe = escape_nul(text);
            assert!(!safe.contains('\0'), "{text:?}");
            assert_eq!(unescape_nul(&safe), text);
        }
        assert!(matches!(escape_nul("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn pair_hash_depends_on_boundary() {
        assert_ne!(index_hash_pair("ab", "c"), index_hash_pair("a", "bc"));
        assert_ne!(index_hash_pair("", "1:a"), index_hash_pair("1:a", ""));
    }
}
