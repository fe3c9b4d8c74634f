//! Hand-written JSON output: strings and integers appended to a byte buffer.
//!
//! Only the envelope is written here; values of the caller's types are written by serde.

use crate::scan::{find_escape, is_escape_free};
use std::fmt::{self, Write as _};

/// Appends `text` as a JSON string, byte for byte as serde_json does, scanning eight bytes at a time.
pub(crate) fn write_string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut remaining = text;
    // Most strings need no escape.
    if is_escape_free(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
        return out.push(b'"');
    }
    while let Some((unescaped, byte, after)) = split_at_escape(remaining) {
        out.extend_from_slice(unescaped.as_bytes());
        write_escape(byte, |piece| out.extend_from_slice(piece.as_bytes()));
        remaining = after;
    }
    out.extend_from_slice(remaining.as_bytes());
    out.push(b'"');
}

/// Writes `text` as a JSON string.
pub(crate) fn display_string(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    let mut remaining = text;
    let mut outcome = Ok(());
    while let Some((unescaped, byte, after)) = split_at_escape(remaining) {
        f.write_str(unescaped)?;
        write_escape(byte, |piece| {
            if outcome.is_ok() {
                outcome = f.write_str(piece);
            }
        });
        remaining = after;
    }
    outcome?;
    f.write_str(remaining)?;
    f.write_char('"')
}

/// Appends an integer.
pub(crate) fn write_integer(number: i64, out: &mut Vec<u8>) {
    // An i64 has at most nineteen digits and a sign.
    let mut digits = [0_u8; 20];
    let mut first = digits.len();
    let mut remaining = number.unsigned_abs();
    for (index, slot) in digits.iter_mut().enumerate().rev() {
        let digit = (remaining % 10) as u8;
        *slot = b'0' + digit;
        first = index;
        remaining /= 10;
        if remaining == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(digits.get(first..).unwrap_or_default());
}

/// Splits `text` at the first byte that needs an escape: the part before, that byte, and the part after.
fn split_at_escape(text: &str) -> Option<(&str, u8, &str)> {
    let at = find_escape(text.as_bytes(), 0);
    let byte = *text.as_bytes().get(at)?;
    Some((text.get(..at)?, byte, text.get(at + 1..)?))
}

fn write_escape(byte: u8, mut emit: impl FnMut(&str)) {
    match byte {
        b'"' => emit("\\\""),
        b'\\' => emit("\\\\"),
        b'\n' => emit("\\n"),
        b'\r' => emit("\\r"),
        b'\t' => emit("\\t"),
        0x08 => emit("\\b"),
        0x0c => emit("\\f"),
        _ => {
            emit("\\u00");
            for nibble in [byte >> 4, byte & 0xf] {
                let digit = char::from_digit(nibble.into(), 16).unwrap_or('0');
                emit(digit.encode_utf8(&mut [0; 4]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn write_string_matches_serde_json() {
        let mut all = String::new();
        for code in 0..=0x2ff_u32 {
            all.extend(char::from_u32(code));
        }
        for text in [
            "",
            "plain",
            "a\"b",
            "\\",
            "\u{7f}",
            "日本語\n",
            "🦀\0\u{1f}end",
            &all,
        ] {
            let mut out = Vec::new();
            write_string(text, &mut out);
            assert_eq!(
                String::from_utf8(out).unwrap(),
                serde_json::to_string(text).unwrap()
            );
        }
    }

    #[test]
    fn write_integer_handles_all_magnitudes() {
        for number in [0, 1, -1, 9, 10, -10, 42, 1_000_000, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            write_integer(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }
}
