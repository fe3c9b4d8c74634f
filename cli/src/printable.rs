//! Text from outside, made safe to show.
//!
//! A file may hold sequences that move the cursor, recolour the screen or turn the direction of
//! writing, so that what is seen is not what is there. Such characters are shown as escapes. What
//! a text means is no business of this file.

use std::fmt::Write;
use unicode_width::UnicodeWidthChar;

/// How much of a string is quoted in a sentence; names that people choose are shorter.
const QUOTED: usize = 60;

/// Whether a character shows itself and does nothing else.
pub(crate) fn is_tame(c: char) -> bool {
    match c {
        ' '..='~' => true,
        // The standard library calls every space but the first unprintable; this one is how
        // Japanese text is spaced.
        '\u{3000}' => true,
        // It escapes controls, format and direction marks, private and unassigned characters. A
        // mark that combines with the letter before it is escaped only where it has none.
        _ => {
            let mut pair = String::from("a");
            pair.push(c);
            pair.escape_debug().nth(2).is_none()
        }
    }
}

/// The columns that a character takes, or its escape.
pub(crate) fn width(c: char) -> usize {
    if is_tame(c) {
        c.width().unwrap_or(0)
    } else {
        c.escape_default().len()
    }
}

/// Appends a character, or its escape.
pub(crate) fn push(out: &mut String, c: char) {
    if is_tame(c) {
        out.push(c);
    } else {
        out.extend(c.escape_default());
    }
}

/// The columns that a byte takes that is no character.
pub(crate) const BYTE_WIDTH: usize = r"\xff".len();

/// Appends a byte that is no character.
pub(crate) fn push_byte(out: &mut String, byte: u8) {
    // Writing to a string does not fail.
    let _ = write!(out, "\\x{byte:02x}");
}

/// All of a text.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        push(&mut out, c);
    }
    out
}

/// All of a text that has lines of its own.
pub(crate) fn lines(lines: &str) -> String {
    lines
        .split_inclusive('\n')
        .flat_map(|line| match line.strip_suffix('\n') {
            Some(line) => [text(line), "\n".to_owned()],
            None => [text(line), String::new()],
        })
        .collect()
}

/// A string in quotation marks, cut where it is very long.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for (count, c) in text.chars().enumerate() {
        if count == QUOTED {
            out.push('…');
            break;
        }
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        push(&mut out, c);
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::{is_tame, quoted, text};

    #[test]
    fn what_shows_itself_is_left_alone() {
        for tame in "aZ~ é日本語\u{3000}😀—\u{301}ก็".chars() {
            assert!(is_tame(tame), "{tame:?}");
        }
    }

    #[test]
    fn what_does_something_is_escaped() {
        let wild = "\0\u{7}\u{8}\t\n\r\u{1b}\u{7f}\u{85}\u{9b}\u{9d}\u{ad}\u{200b}\u{200e}\u{2028}\
                    \u{202a}\u{202e}\u{2066}\u{2069}\u{feff}\u{e000}\u{e0041}";
        for wild in wild.chars() {
            assert!(!is_tame(wild), "{wild:?}");
        }
        assert_eq!(text("a\u{1b}[2J\n\u{202e}b"), "a\\u{1b}[2J\\n\\u{202e}b");
    }

    #[test]
    fn quotes_are_closed_and_short() {
        assert_eq!(quoted(r#"say "\""#), r#""say \"\\\"""#);
        assert_eq!(quoted(&"x".repeat(60)), format!("\"{}\"", "x".repeat(60)));
        assert_eq!(quoted(&"x".repeat(61)), format!("\"{}…\"", "x".repeat(60)));
    }
}
