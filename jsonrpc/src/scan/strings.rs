//! Strings: find their end fast, and refuse escapes that name no character.

use super::{Fault, Scanner};
use crate::problem::Problem;

/// What was learnt while stepping over a string.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    pub(crate) escaped: bool,
}

impl Scanner<'_> {
    /// Steps over the string whose opening quote stands here.
    #[inline]
    pub(super) fn string(&mut self) -> Result<Passed, Fault> {
        self.at += 1;
        let mut escaped = false;
        loop {
            self.at = special(self.bytes, self.at);
            match self.peek() {
                b'"' => {
                    self.at += 1;
                    return Ok(Passed { escaped });
                }
                b'\\' => {
                    escaped = true;
                    self.escape()?;
                }
                _ if self.at >= self.bytes.len() => return self.fault(Problem::UnexpectedEnd),
                _ => return self.fault(Problem::ControlCharacter),
            }
        }
    }

    /// Steps over an escape, both halves of it if it is a surrogate pair.
    fn escape(&mut self) -> Result<(), Fault> {
        let start = self.at;
        self.at += 1;
        match self.peek() {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {
                self.at += 1;
                Ok(())
            }
            b'u' => {
                self.at += 1;
                match self.four_hex_digits()? {
                    0xD800..=0xDBFF => self.low_surrogate(start),
                    0xDC00..=0xDFFF => Err(Fault {
                        problem: Problem::LoneSurrogate,
                        at: start,
                    }),
                    _ => Ok(()),
                }
            }
            _ if self.at >= self.bytes.len() => self.fault(Problem::UnexpectedEnd),
            _ => self.fault(Problem::BadEscape),
        }
    }

    /// The second half that a high surrogate at `start` needs.
    fn low_surrogate(&mut self, start: usize) -> Result<(), Fault> {
        let lone = Err(Fault {
            problem: Problem::LoneSurrogate,
            at: start,
        });
        for due in [b'\\', b'u'] {
            if self.at >= self.bytes.len() {
                return self.fault(Problem::UnexpectedEnd);
            }
            if self.peek() != due {
                return lone;
            }
            self.at += 1;
        }
        match self.four_hex_digits()? {
            0xDC00..=0xDFFF => Ok(()),
            _ => lone,
        }
    }

    fn four_hex_digits(&mut self) -> Result<u32, Fault> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(digit) = char::from(self.peek()).to_digit(16) else {
                return if self.at >= self.bytes.len() {
                    self.fault(Problem::UnexpectedEnd)
                } else {
                    self.fault(Problem::BadEscape)
                };
            };
            code = code << 4 | digit;
            self.at += 1;
        }
        Ok(code)
    }
}

const fn is_special(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < 0x20
}

/// The offset, from `from` on, of the first byte that cannot stand in a JSON string as it is: a
/// quote, a backslash or a control character. The length of `bytes` if there is none.
#[inline]
pub(crate) fn special(bytes: &[u8], from: usize) -> usize {
    let mut at = from;
    // Most strings of a message are short: names, ids, words. Eight bytes at a time.
    for _ in 0..4 {
        let Some(word) = word_at(bytes, at) else {
            return special_in_tail(bytes, at);
        };
        let hits = specials_of(word);
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    special_in_long(bytes, at)
}

/// The same for what goes on after 32 clean bytes: a text or a file. The inner loop has no branch,
/// so the compiler turns it into vector instructions.
fn special_in_long(bytes: &[u8], from: usize) -> usize {
    const BLOCK: usize = 64;
    let mut at = from;
    while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk::<BLOCK>) {
        let mut found = false;
        for &byte in block {
            found |= is_special(byte);
        }
        if found {
            break;
        }
        at += BLOCK;
    }
    while let Some(word) = word_at(bytes, at) {
        let hits = specials_of(word);
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    special_in_tail(bytes, at)
}

fn special_in_tail(bytes: &[u8], from: usize) -> usize {
    let tail = bytes.get(from..).unwrap_or_default();
    from + tail
        .iter()
        .position(|&byte| is_special(byte))
        .unwrap_or(tail.len())
}

#[inline]
fn word_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk::<8>)
        .map(|word| u64::from_le_bytes(*word))
}

/// Sets the high bit of the lowest special byte of a word. Higher bits may be wrong: a borrow runs
/// upwards only, so the lowest is exact and that is the one that is asked for.
#[inline]
const fn specials_of(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    let quotes = word ^ u64::from_le_bytes([b'"'; 8]);
    let slashes = word ^ u64::from_le_bytes([b'\\'; 8]);
    let quote_hits = quotes.wrapping_sub(ONES) & !quotes;
    let slash_hits = slashes.wrapping_sub(ONES) & !slashes;
    let control_hits = word.wrapping_sub(u64::from_le_bytes([0x20; 8])) & !word;
    (quote_hits | slash_hits | control_hits) & HIGHS
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
                    let expected = bytes.iter().position(|&b| is_special(b)).unwrap_or(length);
                    assert_eq!(
                        special(&bytes, 0),
                        expected,
                        "{special_byte} at {at} of {length}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_borrow_never_hides_or_invents_the_first_special_byte() {
        for first in 0..=255_u8 {
            for second in 0..=255_u8 {
                let bytes = [first, second, b'x', b'x', b'x', b'x', b'x', b'x'];
                let expected = bytes.iter().position(|&b| is_special(b)).unwrap_or(8);
                assert_eq!(special(&bytes, 0), expected, "{first} {second}");
            }
        }
    }
}
