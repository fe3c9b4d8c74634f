//! Writing JSON text by hand: strings and integers appended to a byte buffer.
//!
//! Values of a caller's own types are written by serde; only the envelope is written here, and strings for
//! those who write as much as we do.

use crate::scan::{is_clean, special};
use std::fmt::{self, Write as _};

/// Appends `text` as a JSON string, letter for letter as serde_json does. It looks at many bytes at once.
///
/// ```
/// let mut out = Vec::new();
/// interzone_jsonrpc::write_string("a \"b\"", &mut out);
/// assert_eq!(out, br#""a \"b\"""#);
/// ```
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text;
    // Hardly any needs an escape.
    if is_clean(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
        return out.push(b'"');
    }
    while let Some((clean, byte, after)) = split_at_special(rest) {
        out.extend_from_slice(clean.as_bytes());
        escape(byte, |piece| out.extend_from_slice(piece.as_bytes()));
        rest = after;
    }
    out.extend_from_slice(rest.as_bytes());
    out.push(b'"');
}

/// Shows `text` as a JSON string.
pub(crate) fn display_string(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    let mut rest = text;
    let mut outcome = Ok(());
    while let Some((clean, byte, after)) = split_at_special(rest) {
        f.write_str(clean)?;
        escape(byte, |piece| {
            if outcome.is_ok() {
                outcome = f.write_str(piece);
            }
        });
        rest = after;
    }
    outcome?;
    f.write_str(rest)?;
    f.write_char('"')
}

/// Appends an integer.
pub(crate) fn integer(number: i64, out: &mut Vec<u8>) {
    // Twenty places hold every i64: nineteen digits and a sign.
    let mut places = [0_u8; 20];
    let mut first = places.len();
    let mut rest = number.unsigned_abs();
    for (index, place) in places.iter_mut().enumerate().rev() {
        let digit = (rest % 10) as u8;
        *place = b'0' + digit;
        first = index;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(places.get(first..).unwrap_or_default());
}

/// The part of `text` before the first byte that needs an escape, that byte, and the rest.
fn split_at_special(text: &str) -> Option<(&str, u8, &str)> {
    let at = special(text.as_bytes(), 0);
    let byte = *text.as_bytes().get(at)?;
    Some((text.get(..at)?, byte, text.get(at + 1..)?))
}

fn escape(byte: u8, mut put: impl FnMut(&str)) {
    match byte {
        b'"' => put("\\\""),
        b'\\' => put("\\\\"),
        b'\n' => put("\\n"),
        b'\r' => put("\\r"),
        b'\t' => put("\\t"),
        0x08 => put("\\b"),
        0x0c => put("\\f"),
        _ => {
            put("\\u00");
            for nibble in [byte >> 4, byte & 0xf] {
                let digit = char::from_digit(nibble.into(), 16).unwrap_or('0');
                put(digit.encode_utf8(&mut [0; 4]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_as_serde_json_does() {
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
    fn integers_are_written_whole() {
        for number in [0, 1, -1, 9, 10, -10, 42, 1_000_000, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            integer(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }
}
