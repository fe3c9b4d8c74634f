//! Scanning of JSON strings: finds their end and validates escapes.

use super::{ScanResult, byte_at, scan_error};
use crate::invalid_message_kind::InvalidMessageKind;

/// End offset of a scanned string, and whether it has escapes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScannedString {
    pub(super) end: usize,
    pub(super) has_escapes: bool,
}

/// Scans the string whose opening quote is at `at`.
#[inline]
pub(super) fn scan_string(bytes: &[u8], at: usize) -> ScanResult<ScannedString> {
    let end = find_escape(bytes, at + 1);
    if byte_at(bytes, end) == b'"' {
        Ok(ScannedString {
            end: end + 1,
            has_escapes: false,
        })
    } else {
        scan_string_tail(bytes, end)
    }
}

/// Scans the remainder of a string, from its first byte that is a quote, an escape or a control character.
fn scan_string_tail(bytes: &[u8], mut at: usize) -> ScanResult<ScannedString> {
    loop {
        at = match byte_at(bytes, at) {
            b'"' => {
                return Ok(ScannedString {
                    end: at + 1,
                    has_escapes: true,
                });
            }
            b'\\' => scan_escape(bytes, at)?,
            _ if at >= bytes.len() => return scan_error(InvalidMessageKind::UnexpectedEnd, at),
            _ => return scan_error(InvalidMessageKind::ControlCharacter, at),
        };
        at = find_escape(bytes, at);
    }
}

/// Scans the escape that begins at `at`; both halves if it is a surrogate pair.
fn scan_escape(bytes: &[u8], at: usize) -> ScanResult<usize> {
    match byte_at(bytes, at + 1) {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(at + 2),
        b'u' => match scan_four_hex_digits(bytes, at + 2)? {
            0xD800..=0xDBFF => {
                // The second half must follow immediately.
                for (expected, offset) in [(b'\\', at + 6), (b'u', at + 7)] {
                    if offset >= bytes.len() {
                        return scan_error(InvalidMessageKind::UnexpectedEnd, offset);
                    }
                    if byte_at(bytes, offset) != expected {
                        return scan_error(InvalidMessageKind::LoneSurrogate, at);
                    }
                }
                match scan_four_hex_digits(bytes, at + 8)? {
                    0xDC00..=0xDFFF => Ok(at + 12),
                    _ => scan_error(InvalidMessageKind::LoneSurrogate, at),
                }
            }
            0xDC00..=0xDFFF => scan_error(InvalidMessageKind::LoneSurrogate, at),
            _ => Ok(at + 6),
        },
        _ if at + 1 >= bytes.len() => scan_error(InvalidMessageKind::UnexpectedEnd, at + 1),
        _ => scan_error(InvalidMessageKind::BadEscape, at + 1),
    }
}

fn scan_four_hex_digits(bytes: &[u8], from: usize) -> ScanResult<u32> {
    let mut code = 0;
    for at in from..from + 4 {
        let Some(digit) = char::from(byte_at(bytes, at)).to_digit(16) else {
            return if at >= bytes.len() {
                scan_error(InvalidMessageKind::UnexpectedEnd, at)
            } else {
                scan_error(InvalidMessageKind::BadEscape, at)
            };
        };
        code = code << 4 | digit;
    }
    Ok(code)
}

/// Flipping this bit maps the quote, 0x22, to 0x20, right after the control characters, and the space and `!` to values
/// above: one comparison finds quotes and control characters.
const QUOTE_BIT: u8 = 0x02;
const PAST_QUOTE: u8 = 0x21;

const fn needs_escape(byte: u8) -> bool {
    // Without short-circuiting, so that the compiler can vectorize it.
    ((byte ^ QUOTE_BIT) < PAST_QUOTE) | (byte == b'\\')
}

/// Returns true if no byte needs an escape in a JSON string. There is no early exit, so that the compiler vectorizes
/// the loop. The last word may overlap bytes that are already checked.
pub(crate) fn is_escape_free(bytes: &[u8]) -> bool {
    let (words, tail) = bytes.as_chunks();
    let hits = |word: &[u8; 8]| escape_mask(u64::from_le_bytes(*word));
    let found = words.iter().fold(0, |found, word| found | hits(word));
    match bytes.last_chunk() {
        Some(last) => found | hits(last) == 0,
        None => !tail.iter().any(|&byte| needs_escape(byte)),
    }
}

/// Returns the offset, from `from` on, of the first byte that is a quote, a backslash or a control character: it ends
/// a JSON string or needs an escape. Returns the length of `bytes` if there is none.
#[inline]
pub(crate) fn find_escape(bytes: &[u8], from: usize) -> usize {
    let mut remaining = bytes.get(from..).unwrap_or_default();
    let mut at = from;
    // Most strings of a message are names and ids of at most 16 bytes, for which two words are enough without a call.
    for _ in 0..2 {
        let Some((word, after)) = remaining.split_first_chunk() else {
            return at + find_escape_in_tail(remaining);
        };
        if let Some(index) = find_escape_in_word(*word) {
            return at + index;
        }
        at += 8;
        remaining = after;
    }
    at + find_escape_in_words(remaining)
}

/// [`find_escape`] for longer strings: long ids, sentences.
fn find_escape_in_words(bytes: &[u8]) -> usize {
    let mut remaining = bytes;
    for _ in 0..3 {
        let Some((word, after)) = remaining.split_first_chunk() else {
            break;
        };
        if let Some(index) = find_escape_in_word(*word) {
            return bytes.len() - remaining.len() + index;
        }
        remaining = after;
    }
    bytes.len() - remaining.len() + find_escape_in_blocks(remaining)
}

/// [`find_escape`] for long texts and files. The inner loop has no branch, so that the compiler vectorizes it.
fn find_escape_in_blocks(bytes: &[u8]) -> usize {
    let mut remaining = bytes;
    while let Some((block, after)) = remaining.split_first_chunk::<64>() {
        let mut found = false;
        for &byte in block {
            found |= needs_escape(byte);
        }
        if found {
            break;
        }
        remaining = after;
    }
    while let Some((word, after)) = remaining.split_first_chunk() {
        if let Some(index) = find_escape_in_word(*word) {
            return bytes.len() - remaining.len() + index;
        }
        remaining = after;
    }
    bytes.len() - remaining.len() + find_escape_in_tail(remaining)
}

/// [`find_escape`] for less than eight bytes.
fn find_escape_in_tail(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .position(|&byte| needs_escape(byte))
        .unwrap_or(bytes.len())
}

/// Returns the index of the first byte of a word that needs an escape.
#[inline]
fn find_escape_in_word(word: [u8; 8]) -> Option<usize> {
    let hits = escape_mask(u64::from_le_bytes(word));
    (hits != 0).then(|| (hits.trailing_zeros() / 8) as usize)
}

/// Sets the high bit of the lowest byte of a word that needs an escape. Higher bits may be wrong: a borrow only
/// propagates upwards, so the lowest is exact, and only that one is used.
#[inline]
const fn escape_mask(word: u64) -> u64 {
    // A byte below 0x80 whose high bit is set after a subtraction has wrapped below zero.
    let quotes_and_controls = (word ^ splat(QUOTE_BIT)).wrapping_sub(splat(PAST_QUOTE));
    let slashes = (word ^ splat(b'\\')).wrapping_sub(splat(1));
    (quotes_and_controls | slashes) & !word & splat(0x80)
}

/// Repeats a byte eight times.
const fn splat(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_escape_agrees_with_a_linear_search() {
        for candidate in 0..=255_u8 {
            for length in [0, 1, 7, 8, 9, 31, 32, 33, 40, 95, 96, 97, 104, 200] {
                for at in [0, 1, 6, 7, 8, 30, 31, 32, 33, 63, 95, 96, 97, 103, 150, 199] {
                    let mut bytes = vec![b'x'; length];
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = candidate;
                    }
                    let expected = bytes
                        .iter()
                        .position(|&b| matches!(b, b'"' | b'\\' | 0..0x20))
                        .unwrap_or(length);
                    assert_eq!(
                        find_escape(&bytes, 0),
                        expected,
                        "{candidate} at {at} of {length}"
                    );
                    assert_eq!(is_escape_free(&bytes), expected == length);
                }
            }
        }
    }

    #[test]
    fn borrow_does_not_affect_the_first_match() {
        for first in 0..=255_u8 {
            for second in 0..=255_u8 {
                let bytes = [first, second, b'x', b'x', b'x', b'x', b'x', b'x'];
                let expected = bytes
                    .iter()
                    .position(|&b| matches!(b, b'"' | b'\\' | 0..0x20))
                    .unwrap_or(8);
                assert_eq!(find_escape(&bytes, 0), expected, "{first} {second}");
                assert_eq!(is_escape_free(&bytes), expected == 8, "{first} {second}");
            }
        }
    }
}
