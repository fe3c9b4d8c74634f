//! Zero-copy JSON scanner: validates every byte in one pass.
//!
//! It is independent of JSON-RPC. It exists because the raw values of `serde_json` check neither nesting depth nor
//! lone surrogate escapes, and a second pass for both would cost as much as the first (docs/adr/0001). Everything
//! here is iterative, so no input can exhaust the call stack.

use crate::invalid_message_kind::InvalidMessageKind;
pub(crate) use crate::json_kind::JsonKind;

mod strings;

use strings::{ScannedString, scan_string};
pub(crate) use strings::{find_escape, is_escape_free};

/// Maximum nesting depth of a value. With [`ENVELOPE_DEPTH`] levels around it this makes 128 in all; `serde_json`
/// reads 127 levels. So a value fits wherever it is put.
pub(crate) const MAX_DEPTH: u32 = 125;
/// Levels around a value: a batch, a message, an error object.
pub(crate) const ENVELOPE_DEPTH: u32 = 3;

/// A JSON syntax error and its byte offset.
#[derive(Debug)]
pub(crate) struct ScanError {
    pub(crate) kind: InvalidMessageKind,
    pub(crate) offset: usize,
}

/// Result of a scan step. The error is boxed so that a successful step, as nearly all are, is returned in registers.
pub(crate) type ScanResult<T> = Result<T, Box<ScanError>>;

/// A validated value: its text, offset and kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScannedValue<'a> {
    pub(crate) text: &'a str,
    pub(crate) offset: usize,
    pub(crate) kind: JsonKind,
    /// True if a string contains escapes, so that its text is not its value.
    pub(crate) has_escapes: bool,
}

/// Scanner over a text. The functions below map one offset to the next, so that the offset stays in a register.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pub(crate) offset: usize,
    max_depth: u32,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str, max_depth: u32) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            offset: 0,
            max_depth: max_depth.min(MAX_DEPTH),
        }
    }

    /// Skips white space and returns the next byte; zero at the end.
    #[inline]
    pub(crate) fn peek_token(&mut self) -> u8 {
        self.offset = skip_whitespace(self.bytes, self.offset);
        byte_at(self.bytes, self.offset)
    }

    #[cold]
    pub(crate) fn error<T>(&self, kind: InvalidMessageKind) -> ScanResult<T> {
        scan_error(kind, self.offset)
    }

    /// Returns the error for this offset: unexpected end, or unexpected character.
    #[cold]
    pub(crate) fn unexpected<T>(&self) -> ScanResult<T> {
        unexpected_byte(self.bytes, self.offset)
    }

    /// Returns true if only white space is left.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.peek_token() == 0 && self.offset >= self.bytes.len()
    }

    /// Scans a value that is not part of a larger scan; unboxes the error.
    pub(crate) fn scan_root(&mut self) -> Result<ScannedValue<'a>, ScanError> {
        self.scan_value().map_err(|fault| *fault)
    }

    /// Scans one value.
    #[inline(always)] // worth about 7 % on a small message
    pub(crate) fn scan_value(&mut self) -> ScanResult<ScannedValue<'a>> {
        let first = self.peek_token();
        let start = self.offset;
        let mut has_escapes = false;
        let kind = match first {
            b'"' => {
                let scanned = scan_string(self.bytes, start)?;
                has_escapes = scanned.has_escapes;
                self.offset = scanned.end;
                JsonKind::String
            }
            b'{' | b'[' => {
                self.offset = scan_container(self.bytes, start, self.max_depth)?;
                if first == b'{' {
                    JsonKind::Object
                } else {
                    JsonKind::Array
                }
            }
            _ => {
                self.offset = scan_scalar(self.bytes, start)?;
                match first {
                    b'n' => JsonKind::Null,
                    b't' | b'f' => JsonKind::Boolean,
                    _ => JsonKind::Number,
                }
            }
        };
        Ok(ScannedValue {
            text: self.slice(start, self.offset),
            offset: start,
            kind,
            has_escapes,
        })
    }

    /// Skips a value. Its containers may nest `extra_depth` levels deeper than a value may.
    pub(crate) fn skip_value(&mut self, extra_depth: u32) -> ScanResult<()> {
        match self.peek_token() {
            b'{' | b'[' => {
                self.offset = scan_container(self.bytes, self.offset, self.max_depth + extra_depth)?
            }
            _ => drop(self.scan_value()?),
        }
        Ok(())
    }

    /// The text between two byte offsets that this scanner has scanned.
    #[inline]
    pub(crate) fn slice(&self, from: usize, to: usize) -> &'a str {
        // Both offsets are at ASCII bytes, so this is always a valid slice.
        self.text.get(from..to).unwrap_or_default()
    }

    /// Scans a member name and its colon, and returns the name.
    #[inline(always)] // see `scan_value`
    pub(crate) fn scan_member_name(&mut self) -> ScanResult<ScannedValue<'a>> {
        if self.peek_token() != b'"' {
            return self.unexpected();
        }
        let start = self.offset;
        let ScannedString {
            end,
            has_escapes: escaped,
        } = scan_string(self.bytes, start)?;
        self.offset = scan_colon(self.bytes, end)?;
        Ok(ScannedValue {
            text: self.slice(start, end),
            offset: start,
            kind: JsonKind::String,
            has_escapes: escaped,
        })
    }
}

/// The byte at `at`; zero at the end, which no JSON token begins with.
#[inline]
fn byte_at(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// Skips white space, from `at` on, and returns the offset.
#[inline]
fn skip_whitespace(bytes: &[u8], mut at: usize) -> usize {
    // Most messages have none: one comparison decides.
    while let byte = byte_at(bytes, at)
        && byte <= b' '
        && matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
    {
        at += 1;
    }
    at
}

#[cold]
fn scan_error<T>(kind: InvalidMessageKind, at: usize) -> ScanResult<T> {
    Err(Box::new(ScanError { kind, offset: at }))
}

/// Returns the error for offset `at`: unexpected end, or unexpected character.
#[cold]
fn unexpected_byte<T>(bytes: &[u8], at: usize) -> ScanResult<T> {
    if at >= bytes.len() {
        scan_error(InvalidMessageKind::UnexpectedEnd, at)
    } else {
        scan_error(InvalidMessageKind::UnexpectedCharacter, at)
    }
}

/// Scans a literal or a number.
#[inline]
fn scan_scalar(bytes: &[u8], at: usize) -> ScanResult<usize> {
    match byte_at(bytes, at) {
        b'-' | b'0'..=b'9' => scan_number(bytes, at),
        b't' => scan_literal(bytes, at, b"true"),
        b'f' => scan_literal(bytes, at, b"false"),
        b'n' => scan_literal(bytes, at, b"null"),
        _ => unexpected_byte(bytes, at),
    }
}

fn scan_literal(bytes: &[u8], mut at: usize, expected: &[u8]) -> ScanResult<usize> {
    for &expected_byte in expected {
        if byte_at(bytes, at) != expected_byte {
            return unexpected_byte(bytes, at);
        }
        at += 1;
    }
    Ok(at)
}

fn scan_number(bytes: &[u8], mut at: usize) -> ScanResult<usize> {
    if byte_at(bytes, at) == b'-' {
        at += 1;
    }
    match byte_at(bytes, at) {
        b'0' => {
            at += 1;
            if byte_at(bytes, at).is_ascii_digit() {
                return scan_error(InvalidMessageKind::BadNumber, at);
            }
        }
        b'1'..=b'9' => at = skip_digits(bytes, at),
        _ => return missing_digit(bytes, at),
    }
    if byte_at(bytes, at) == b'.' {
        at = scan_digits(bytes, at + 1)?;
    }
    if matches!(byte_at(bytes, at), b'e' | b'E') {
        at += 1;
        if matches!(byte_at(bytes, at), b'+' | b'-') {
            at += 1;
        }
        at = scan_digits(bytes, at)?;
    }
    Ok(at)
}

#[inline]
fn skip_digits(bytes: &[u8], mut at: usize) -> usize {
    while byte_at(bytes, at).is_ascii_digit() {
        at += 1;
    }
    at
}

fn scan_digits(bytes: &[u8], at: usize) -> ScanResult<usize> {
    if !byte_at(bytes, at).is_ascii_digit() {
        return missing_digit(bytes, at);
    }
    Ok(skip_digits(bytes, at))
}

/// Returns the error for a missing digit at `at`: unexpected end, or bad number.
#[cold]
fn missing_digit<T>(bytes: &[u8], at: usize) -> ScanResult<T> {
    if at >= bytes.len() {
        scan_error(InvalidMessageKind::UnexpectedEnd, at)
    } else {
        scan_error(InvalidMessageKind::BadNumber, at)
    }
}

/// Scans the object or array that begins at `at`, if it has at most `max_open` open containers at a time,
/// including itself.
///
/// The open containers are the low bits of `kinds`, the innermost lowest: one for an object, zero for an array.
fn scan_container(bytes: &[u8], mut at: usize, max_open: u32) -> ScanResult<usize> {
    let mut open: u32 = 0;
    let mut kinds: u128 = 0;
    loop {
        // A value is expected; in an object, after its name.
        at = skip_whitespace(bytes, at);
        if kinds & 1 == 1 {
            at = skip_whitespace(bytes, scan_key(bytes, at)?);
        }
        match byte_at(bytes, at) {
            b'"' => at = scan_string(bytes, at)?.end,
            bracket @ (b'{' | b'[') => {
                if open >= max_open {
                    return scan_error(InvalidMessageKind::TooDeep, at);
                }
                at = skip_whitespace(bytes, at + 1);
                // '}' and ']' both have the code of their opening bracket plus two.
                if byte_at(bytes, at) == bracket + 2 {
                    at += 1;
                } else {
                    open += 1;
                    kinds = (kinds << 1) | u128::from(bracket == b'{');
                    continue;
                }
            }
            _ => at = scan_scalar(bytes, at)?,
        }
        // A value has ended: close the containers that it completes.
        loop {
            if open == 0 {
                return Ok(at);
            }
            at = skip_whitespace(bytes, at);
            match byte_at(bytes, at) {
                b',' => {
                    at += 1;
                    break;
                }
                b'}' if kinds & 1 == 1 => {}
                b']' if kinds & 1 == 0 => {}
                _ => return unexpected_byte(bytes, at),
            }
            at += 1;
            open -= 1;
            kinds >>= 1;
        }
    }
}

/// Scans the member name that is expected at `at`, and its colon.
#[inline]
fn scan_key(bytes: &[u8], at: usize) -> ScanResult<usize> {
    if byte_at(bytes, at) != b'"' {
        return unexpected_byte(bytes, at);
    }
    scan_colon(bytes, scan_string(bytes, at)?.end)
}

/// Skips white space and the colon that is expected after it.
#[inline]
fn scan_colon(bytes: &[u8], at: usize) -> ScanResult<usize> {
    let at = skip_whitespace(bytes, at);
    if byte_at(bytes, at) != b':' {
        return unexpected_byte(bytes, at);
    }
    Ok(at + 1)
}

#[cfg(test)]
mod tests;
