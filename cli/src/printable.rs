//! Makes untrusted text safe to show on a terminal.
//!
//! Text may contain sequences that move the cursor, change colors or reverse the writing direction, so that it
//! looks different from what it is. Such characters are shown as escapes.

use std::fmt::Write;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use unicode_width::UnicodeWidthChar;

/// Maximum length of a quoted string, in columns and in characters, as some characters take no column. Names
/// that people choose are shorter.
const MAX_QUOTED_WIDTH: usize = 60;

/// Returns true if a character is printable and has no other effect.
///
/// Results are cached per character, as there may be tens of millions of calls.
pub(crate) fn is_printable(c: char) -> bool {
    const UNKNOWN: u8 = 0;
    const PRINTABLE: u8 = 1;
    const NOT_PRINTABLE: u8 = 2;
    /// Cached results by character. Only pages that are used take memory.
    static CACHE: [AtomicU8; char::MAX as usize + 1] =
        [const { AtomicU8::new(UNKNOWN) }; char::MAX as usize + 1];

    if matches!(c, ' '..='~') {
        return true;
    }
    let Some(entry) = CACHE.get(c as usize) else {
        return compute_printable(c);
    };
    match entry.load(Relaxed) {
        UNKNOWN => {
            let printable = compute_printable(c);
            entry.store(if printable { PRINTABLE } else { NOT_PRINTABLE }, Relaxed);
            printable
        }
        cached => cached == PRINTABLE,
    }
}

/// Computes [`is_printable`] without the cache. The standard library searches long tables for it.
fn compute_printable(c: char) -> bool {
    // `escape_debug` escapes quotation marks and every space except U+0020; U+3000 is the space of
    // Japanese text.
    if matches!(c, ' '..='~' | '\u{3000}') {
        return true;
    }
    // It escapes controls, format and direction marks, private and unassigned characters. A combining
    // mark is escaped only where it has no character before it, hence the `a`.
    let mut pair = String::from("a");
    pair.push(c);
    pair.escape_debug().nth(2).is_none()
}

/// Returns the width in columns of a character, or of its escape.
pub(crate) fn width(c: char) -> usize {
    if is_printable(c) {
        c.width().unwrap_or(0)
    } else {
        c.escape_default().len()
    }
}

/// Appends a character, or its escape.
pub(crate) fn push(out: &mut String, c: char) {
    if is_printable(c) {
        out.push(c);
    } else {
        out.extend(c.escape_default());
    }
}

/// Width in columns of an escaped byte that is not part of a character.
pub(crate) const BYTE_WIDTH: usize = r"\xff".len();

/// Appends an escaped byte that is not part of a character.
pub(crate) fn push_byte(out: &mut String, byte: u8) {
    // Writing to a string does not fail.
    let _ = write!(out, "\\x{byte:02x}");
}

/// Escapes a text.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        push(&mut out, c);
    }
    out
}

/// Escapes a text, keeping its line breaks.
pub(crate) fn lines(lines: &str) -> String {
    lines
        .split_inclusive('\n')
        .flat_map(|line| match line.strip_suffix('\n') {
            Some(line) => [text(line), "\n".to_owned()],
            None => [text(line), String::new()],
        })
        .collect()
}

/// Returns a string in quotation marks, truncated if it is very long.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    let mut columns = 0;
    for (count, c) in text.chars().enumerate() {
        let escaped = matches!(c, '"' | '\\');
        columns += width(c) + usize::from(escaped);
        if count == MAX_QUOTED_WIDTH || columns > MAX_QUOTED_WIDTH {
            out.push('…');
            break;
        }
        if escaped {
            out.push('\\');
        }
        push(&mut out, c);
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::{MAX_QUOTED_WIDTH, compute_printable, is_printable, quoted, text};
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn printable_characters_are_unchanged() {
        for c in "aZ~ é日本語\u{3000}😀—\u{301}ก็".chars() {
            assert!(is_printable(c), "{c:?}");
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        let unsafe_chars = "\0\u{7}\u{8}\t\n\r\u{1b}\u{7f}\u{85}\u{9b}\u{9d}\u{ad}\u{200b}\u{200e}\u{2028}\
                    \u{202a}\u{202e}\u{2066}\u{2069}\u{feff}\u{e000}\u{e0041}";
        for c in unsafe_chars.chars() {
            assert!(!is_printable(c), "{c:?}");
        }
        assert_eq!(text("a\u{1b}[2J\n\u{202e}b"), "a\\u{1b}[2J\\n\\u{202e}b");
    }

    #[test]
    fn quoted_strings_are_closed_and_truncated() {
        assert_eq!(quoted(r#"say "\""#), r#""say \"\\\"""#);
        assert_eq!(quoted(&"x".repeat(60)), format!("\"{}\"", "x".repeat(60)));
        assert_eq!(quoted(&"x".repeat(61)), format!("\"{}…\"", "x".repeat(60)));
        // For wide characters and escapes, and for characters that take no column.
        for c in [
            "\u{202e}",
            "\u{e0041}",
            "日",
            "\"",
            "\\",
            "e\u{301}",
            "\u{301}",
        ] {
            let quoted = quoted(&c.repeat(1000));
            assert!(
                quoted.width() <= MAX_QUOTED_WIDTH + r#""…""#.width(),
                "{quoted}"
            );
            assert!(quoted.chars().count() <= MAX_QUOTED_WIDTH + 3, "{quoted}");
        }
        assert_eq!(
            quoted(&"\u{202e}".repeat(8)),
            format!("\"{}…\"", "\\u{202e}".repeat(7))
        );
    }

    #[test]
    fn cached_result_matches_computed_result() {
        for c in ('\0'..=char::MAX).step_by(13) {
            let expected = compute_printable(c);
            assert_eq!(
                [is_printable(c), is_printable(c)],
                [expected, expected],
                "{c:?}"
            );
        }
    }
}
