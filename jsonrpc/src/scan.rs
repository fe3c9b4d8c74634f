//! The scanner: one pass over JSON text that checks every byte and copies none.
//!
//! It knows JSON and nothing of JSON-RPC. It is ours because the raw values of `serde_json` check
//! neither how deep a value nests nor whether a `\u` escape is half a character, and because a
//! second pass to check both would cost as much as the first (docs/adr/0001). Everything here is
//! iterative, so no input can exhaust the call stack.

pub(crate) use crate::kind::Kind;
use crate::problem::Problem;

mod strings;

use strings::{Passed, string};
pub(crate) use strings::{is_clean, special};

/// The deepest that a value may nest. What stands around it, an error object in a message in a batch,
/// makes 128 in all; and `serde_json` reads 127 levels. So a value fits wherever it is put.
pub(crate) const DEEPEST: u32 = 125;
/// What may stand around a value: a batch, a message, an error object.
pub(crate) const AROUND: u32 = 3;

/// Why the text is not JSON, and the byte at which that showed.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) problem: Problem,
    pub(crate) at: usize,
}

/// What a step gives. The fault is boxed so that a step which goes well, as nearly all do, hands
/// back a register or two and not a structure in memory.
pub(crate) type Step<T> = Result<T, Box<Fault>>;

/// A checked value: its text, and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
    pub(crate) kind: Kind,
    /// Whether a string has escapes, so that its text is not its value.
    pub(crate) escaped: bool,
}

/// A walk over a text. The steps below it are functions from one offset to the next, so that the
/// offset stays in a register.
pub(crate) struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    pub(crate) at: usize,
    max_depth: u32,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str, max_depth: u32) -> Self {
        Self {
            text,
            bytes: text.as_bytes(),
            at: 0,
            max_depth: max_depth.min(DEEPEST),
        }
    }

    /// The next byte that is not white space; zero at the end.
    #[inline]
    pub(crate) fn peek_token(&mut self) -> u8 {
        self.at = after_space(self.bytes, self.at);
        byte(self.bytes, self.at)
    }

    #[cold]
    pub(crate) fn fault<T>(&self, problem: Problem) -> Step<T> {
        fault(problem, self.at)
    }

    /// What stands here is wrong: either nothing does, or something else was due.
    #[cold]
    pub(crate) fn unexpected<T>(&self) -> Step<T> {
        unexpected(self.bytes, self.at)
    }

    /// Whether only white space is left.
    pub(crate) fn at_end(&mut self) -> bool {
        self.peek_token() == 0 && self.at >= self.bytes.len()
    }

    /// Steps over one value.
    pub(crate) fn value(&mut self) -> Result<Value<'a>, Fault> {
        self.step().map_err(|fault| *fault)
    }

    /// The same, for the middle of a walk.
    #[inline(always)] // worth about 7 % on a small message
    pub(crate) fn step(&mut self) -> Step<Value<'a>> {
        let first = self.peek_token();
        let at = self.at;
        let mut escaped = false;
        let kind = match first {
            b'"' => {
                let passed = string(self.bytes, at)?;
                escaped = passed.escaped;
                self.at = passed.end;
                Kind::String
            }
            b'{' | b'[' => {
                self.at = container(self.bytes, at, self.max_depth)?;
                if first == b'{' {
                    Kind::Object
                } else {
                    Kind::Array
                }
            }
            _ => {
                self.at = scalar(self.bytes, at)?;
                match first {
                    b'n' => Kind::Null,
                    b't' | b'f' => Kind::Boolean,
                    _ => Kind::Number,
                }
            }
        };
        Ok(Value {
            text: self.slice(at, self.at),
            at,
            kind,
            escaped,
        })
    }

    /// Steps over what nobody wants to see, with so many levels of it standing around values.
    pub(crate) fn pass(&mut self, around: u32) -> Step<()> {
        match self.peek_token() {
            b'{' | b'[' => self.at = container(self.bytes, self.at, self.max_depth + around)?,
            _ => drop(self.step()?),
        }
        Ok(())
    }

    /// The text between two byte offsets that this scanner has passed.
    #[inline]
    pub(crate) fn slice(&self, from: usize, to: usize) -> &'a str {
        // Both offsets stand at ASCII bytes, so this is always a slice.
        self.text.get(from..to).unwrap_or_default()
    }

    /// Steps over a member's name and its colon, and tells the name.
    #[inline(always)] // see `step`
    pub(crate) fn member_name(&mut self) -> Step<Value<'a>> {
        if self.peek_token() != b'"' {
            return self.unexpected();
        }
        let at = self.at;
        let Passed { end, escaped } = string(self.bytes, at)?;
        self.at = colon(self.bytes, end)?;
        Ok(Value {
            text: self.slice(at, end),
            at,
            kind: Kind::String,
            escaped,
        })
    }
}

/// The byte at `at`; zero at the end, which no JSON token begins with.
#[inline]
fn byte(bytes: &[u8], at: usize) -> u8 {
    bytes.get(at).copied().unwrap_or(0)
}

/// The offset, from `at` on, of the first byte that is not white space.
#[inline]
fn after_space(bytes: &[u8], mut at: usize) -> usize {
    // Most messages have none: one comparison tells.
    while let byte = byte(bytes, at)
        && byte <= b' '
        && matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
    {
        at += 1;
    }
    at
}

#[cold]
fn fault<T>(problem: Problem, at: usize) -> Step<T> {
    Err(Box::new(Fault { problem, at }))
}

/// What stands at `at` is wrong: either nothing does, or something else was due.
#[cold]
fn unexpected<T>(bytes: &[u8], at: usize) -> Step<T> {
    if at >= bytes.len() {
        fault(Problem::UnexpectedEnd, at)
    } else {
        fault(Problem::UnexpectedCharacter, at)
    }
}

/// Steps over a literal or a number.
#[inline]
fn scalar(bytes: &[u8], at: usize) -> Step<usize> {
    match byte(bytes, at) {
        b'-' | b'0'..=b'9' => number(bytes, at),
        b't' => literal(bytes, at, b"true"),
        b'f' => literal(bytes, at, b"false"),
        b'n' => literal(bytes, at, b"null"),
        _ => unexpected(bytes, at),
    }
}

fn literal(bytes: &[u8], mut at: usize, word: &[u8]) -> Step<usize> {
    for &letter in word {
        if byte(bytes, at) != letter {
            return unexpected(bytes, at);
        }
        at += 1;
    }
    Ok(at)
}

fn number(bytes: &[u8], mut at: usize) -> Step<usize> {
    if byte(bytes, at) == b'-' {
        at += 1;
    }
    match byte(bytes, at) {
        b'0' => {
            at += 1;
            if byte(bytes, at).is_ascii_digit() {
                return fault(Problem::BadNumber, at);
            }
        }
        b'1'..=b'9' => at = digits(bytes, at),
        _ => return digit_due(bytes, at),
    }
    if byte(bytes, at) == b'.' {
        at = some_digits(bytes, at + 1)?;
    }
    if matches!(byte(bytes, at), b'e' | b'E') {
        at += 1;
        if matches!(byte(bytes, at), b'+' | b'-') {
            at += 1;
        }
        at = some_digits(bytes, at)?;
    }
    Ok(at)
}

#[inline]
fn digits(bytes: &[u8], mut at: usize) -> usize {
    while byte(bytes, at).is_ascii_digit() {
        at += 1;
    }
    at
}

fn some_digits(bytes: &[u8], at: usize) -> Step<usize> {
    if !byte(bytes, at).is_ascii_digit() {
        return digit_due(bytes, at);
    }
    Ok(digits(bytes, at))
}

/// A digit is due at `at`: either nothing stands there, or something else does.
#[cold]
fn digit_due<T>(bytes: &[u8], at: usize) -> Step<T> {
    if at >= bytes.len() {
        fault(Problem::UnexpectedEnd, at)
    } else {
        fault(Problem::BadNumber, at)
    }
}

/// Steps over the object or array that begins at `at`, whatever it holds, if it takes no more than
/// `room` open containers at a time, itself counted.
///
/// The open containers are the low bits of `kinds`, the innermost lowest: one for an object, zero
/// for an array.
fn container(bytes: &[u8], mut at: usize, room: u32) -> Step<usize> {
    let mut open: u32 = 0;
    let mut kinds: u128 = 0;
    loop {
        // A value is due, in an object after its name.
        at = after_space(bytes, at);
        if kinds & 1 == 1 {
            at = after_space(bytes, key(bytes, at)?);
        }
        match byte(bytes, at) {
            b'"' => at = string(bytes, at)?.end,
            bracket @ (b'{' | b'[') => {
                if open >= room {
                    return fault(Problem::TooDeep, at);
                }
                at = after_space(bytes, at + 1);
                // '}' and ']' both stand two places after their opening bracket.
                if byte(bytes, at) == bracket + 2 {
                    at += 1;
                } else {
                    open += 1;
                    kinds = (kinds << 1) | u128::from(bracket == b'{');
                    continue;
                }
            }
            _ => at = scalar(bytes, at)?,
        }
        // A value has ended: close what it completes.
        loop {
            if open == 0 {
                return Ok(at);
            }
            at = after_space(bytes, at);
            match byte(bytes, at) {
                b',' => {
                    at += 1;
                    break;
                }
                b'}' if kinds & 1 == 1 => {}
                b']' if kinds & 1 == 0 => {}
                _ => return unexpected(bytes, at),
            }
            at += 1;
            open -= 1;
            kinds >>= 1;
        }
    }
}

/// Steps over the member's name that is due at `at`, and its colon.
#[inline]
fn key(bytes: &[u8], at: usize) -> Step<usize> {
    if byte(bytes, at) != b'"' {
        return unexpected(bytes, at);
    }
    colon(bytes, string(bytes, at)?.end)
}

/// Steps over the colon that is due but for white space.
#[inline]
fn colon(bytes: &[u8], at: usize) -> Step<usize> {
    let at = after_space(bytes, at);
    if byte(bytes, at) != b':' {
        return unexpected(bytes, at);
    }
    Ok(at + 1)
}

#[cfg(test)]
mod tests;
