//! Strings: find their end fast, and refuse escapes that name no character.

use super::{Step, byte, fault};
use crate::problem::Problem;

/// What was learnt while stepping over a string.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passed {
    pub(super) end: usize,
    pub(super) escaped: bool,
}

/// Steps over the string whose opening quote stands at `at`.
#[inline]
pub(super) fn string(bytes: &[u8], at: usize) -> Step<Passed> {
    let end = special(bytes, at + 1);
    if byte(bytes, end) == b'"' {
        Ok(Passed {
            end: end + 1,
            escaped: false,
        })
    } else {
        rest_of_string(bytes, end)
    }
}

/// Steps over the rest of a string, from its first byte on that cannot stand as it is.
fn rest_of_string(bytes: &[u8], mut at: usize) -> Step<Passed> {
    loop {
        at = match byte(bytes, at) {
            b'"' => {
                return Ok(Passed {
                    end: at + 1,
                    escaped: true,
                });
            }
            b'\\' => escape(bytes, at)?,
            _ if at >= bytes.len() => return fault(Problem::UnexpectedEnd, at),
            _ => return fault(Problem::ControlCharacter, at),
        };
        at = special(bytes, at);
    }
}

/// Steps over the escape that begins at `at`, both halves of it if it is a surrogate pair.
fn escape(bytes: &[u8], at: usize) -> Step<usize> {
    match byte(bytes, at + 1) {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(at + 2),
        b'u' => match four_hex_digits(bytes, at + 2)? {
            0xD800..=0xDBFF => {
                // The second half must follow at once.
                for (due, place) in [(b'\\', at + 6), (b'u', at + 7)] {
                    if place >= bytes.len() {
                        return fault(Problem::UnexpectedEnd, place);
                    }
                    if byte(bytes, place) != due {
                        return fault(Problem::LoneSurrogate, at);
                    }
                }
                match four_hex_digits(bytes, at + 8)? {
                    0xDC00..=0xDFFF => Ok(at + 12),
                    _ => fault(Problem::LoneSurrogate, at),
                }
            }
            0xDC00..=0xDFFF => fault(Problem::LoneSurrogate, at),
            _ => Ok(at + 6),
        },
        _ if at + 1 >= bytes.len() => fault(Problem::UnexpectedEnd, at + 1),
        _ => fault(Problem::BadEscape, at + 1),
    }
}

fn four_hex_digits(bytes: &[u8], from: usize) -> Step<u32> {
    let mut code = 0;
    for at in from..from + 4 {
        let Some(digit) = char::from(byte(bytes, at)).to_digit(16) else {
            return if at >= bytes.len() {
                fault(Problem::UnexpectedEnd, at)
            } else {
                fault(Problem::BadEscape, at)
            };
        };
        code = code << 4 | digit;
    }
    Ok(code)
}

/// Flipping the second bit puts the quote, 0x22, right after the control characters, and the two
/// characters between them out of the way: one comparison finds both.
const QUOTE_BIT: u8 = 0x02;
const PAST_QUOTE: u8 = 0x21;

const fn is_special(byte: u8) -> bool {
    // Without a shortcut between the two, so that it can be asked of many bytes at once.
    ((byte ^ QUOTE_BIT) < PAST_QUOTE) | (byte == b'\\')
}

/// Whether every byte can stand in a JSON string as it is. It has no way out on the way, so that many bytes are
/// looked at at once; the last word may have bytes in it that were looked at before.
pub(crate) fn is_clean(bytes: &[u8]) -> bool {
    let (words, tail) = bytes.as_chunks();
    let hits = |word: &[u8; 8]| specials_of(u64::from_le_bytes(*word));
    let found = words.iter().fold(0, |found, word| found | hits(word));
    match bytes.last_chunk() {
        Some(last) => found | hits(last) == 0,
        None => !tail.iter().any(|&byte| is_special(byte)),
    }
}

/// The offset, from `from` on, of the first byte that cannot stand in a JSON string as it is: a
/// quote, a backslash or a control character. The length of `bytes` if there is none.
#[inline]
pub(crate) fn special(bytes: &[u8], from: usize) -> usize {
    let mut rest = bytes.get(from..).unwrap_or_default();
    let mut at = from;
    // Most strings of a message are short: names, ids, words. For them two words are enough, and
    // not worth a call.
    for _ in 0..2 {
        let Some((word, after)) = rest.split_first_chunk() else {
            return at + special_in_tail(rest);
        };
        if let Some(index) = special_in_word(*word) {
            return at + index;
        }
        at += 8;
        rest = after;
    }
    at + special_in_words(rest)
}

/// The same for what goes on after that: long ids, sentences.
fn special_in_words(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    for _ in 0..3 {
        let Some((word, after)) = rest.split_first_chunk() else {
            break;
        };
        if let Some(index) = special_in_word(*word) {
            return bytes.len() - rest.len() + index;
        }
        rest = after;
    }
    bytes.len() - rest.len() + special_in_blocks(rest)
}

/// The same for what goes on even then: a text or a file. The inner loop has no branch, so the
/// compiler turns it into vector instructions.
fn special_in_blocks(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Some((block, after)) = rest.split_first_chunk::<64>() {
        let mut found = false;
        for &byte in block {
            found |= is_special(byte);
        }
        if found {
            break;
        }
        rest = after;
    }
    while let Some((word, after)) = rest.split_first_chunk() {
        if let Some(index) = special_in_word(*word) {
            return bytes.len() - rest.len() + index;
        }
        rest = after;
    }
    bytes.len() - rest.len() + special_in_tail(rest)
}

/// The same for less than a word.
fn special_in_tail(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .position(|&byte| is_special(byte))
        .unwrap_or(bytes.len())
}

/// The place of the first special byte among eight.
#[inline]
fn special_in_word(word: [u8; 8]) -> Option<usize> {
    let hits = specials_of(u64::from_le_bytes(word));
    (hits != 0).then(|| (hits.trailing_zeros() / 8) as usize)
}

/// Sets the high bit of the lowest special byte of a word. Higher bits may be wrong: a borrow runs
/// upwards only, so the lowest is exact and that is the one that is asked for.
#[inline]
const fn specials_of(word: u64) -> u64 {
    // A byte below 0x80 that has its high bit set after a subtraction has passed zero.
    let quotes_and_controls = (word ^ each(QUOTE_BIT)).wrapping_sub(each(PAST_QUOTE));
    let slashes = (word ^ each(b'\\')).wrapping_sub(each(1));
    (quotes_and_controls | slashes) & !word & each(0x80)
}

/// Eight times the same byte.
const fn each(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_agrees_with_a_plain_search() {
        for special_byte in 0..=255_u8 {
            for length in [0, 1, 7, 8, 9, 31, 32, 33, 40, 95, 96, 97, 104, 200] {
                for at in [0, 1, 6, 7, 8, 30, 31, 32, 33, 63, 95, 96, 97, 103, 150, 199] {
                    let mut bytes = vec![b'x'; length];
                    if let Some(place) = bytes.get_mut(at) {
                        *place = special_byte;
                    }
                    let expected = bytes
                        .iter()
                        .position(|&b| matches!(b, b'"' | b'\\' | 0..0x20))
                        .unwrap_or(length);
                    assert_eq!(
                        special(&bytes, 0),
                        expected,
                        "{special_byte} at {at} of {length}"
                    );
                    assert_eq!(is_clean(&bytes), expected == length);
                }
            }
        }
    }

    #[test]
    fn a_borrow_never_hides_or_invents_the_first_special_byte() {
        for first in 0..=255_u8 {
            for second in 0..=255_u8 {
                let bytes = [first, second, b'x', b'x', b'x', b'x', b'x', b'x'];
                let expected = bytes
                    .iter()
                    .position(|&b| matches!(b, b'"' | b'\\' | 0..0x20))
                    .unwrap_or(8);
                assert_eq!(special(&bytes, 0), expected, "{first} {second}");
                assert_eq!(is_clean(&bytes), expected == 8, "{first} {second}");
            }
        }
    }
}
