//! Strings that PostgreSQL would refuse or could not index.
//!
//! Its text has no NUL, and what is ours to keep may: such a character is written as two others. And
//! an index entry has an end, which strings of ours have not: their hash stands for them.

use interzone_hub::BlobId;
use std::borrow::Cow;

/// Stands before what is not itself.
const ESCAPE: char = '\u{1}';

/// The string as a column can hold it: nearly always as it is.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
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

/// The string as it was.
pub(super) fn unescaped(text: &str) -> String {
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

/// What stands for a string in an index.
pub(super) fn hash(text: &str) -> Vec<u8> {
    BlobId::of(text.as_bytes()).as_bytes().to_vec()
}

/// What stands for a pair of strings in an index.
pub(super) fn hash_of_pair(first: &str, second: &str) -> Vec<u8> {
    hash(&format!("{}:{first}{second}", first.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_string_comes_back() {
        for text in [
            "",
            "plain",
            "日本",
            "\0",
            "a\0b\u{1}c",
            "\u{1}0",
            "\u{1}\u{1}1\0",
        ] {
            let safe = escaped(text);
            assert!(!safe.contains('\0'), "{text:?}");
            assert_eq!(unescaped(&safe), text);
        }
        assert!(matches!(escaped("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn pairs_do_not_run_together() {
        assert_ne!(hash_of_pair("ab", "c"), hash_of_pair("a", "bc"));
        assert_ne!(hash_of_pair("", "1:a"), hash_of_pair("1:a", ""));
    }
}
