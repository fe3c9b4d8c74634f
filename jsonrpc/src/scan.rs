//! The scanner: one pass over JSON text that checks every byte and copies none.
//!
//! It knows JSON and nothing of JSON-RPC. It is ours because the raw values of `serde_json` check
//! neither how deep a value nests nor whether a `\u` escape is half a character, and because a
//! second pass to check both would cost as much as the first (docs/adr/0001). Everything here is
//! iterative, so no input can exhaust the call stack.

use crate::problem::Problem;

mod strings;

pub(crate) use strings::special;

/// The deepest nesting that can be asked for; one bit of a `u128` remembers each open container.
pub(crate) const DEEPEST: u32 = 128;

/// What kind of JSON value something is.
///
/// ```
/// use interzone_jsonrpc::RawJson;
///
/// let raw = RawJson::parse("[1, 2]").map_err(|e| e.to_string())?;
/// assert_eq!(raw.kind().to_string(), "array");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// Any number.
    Number,
    /// Any string.
    String,
    /// `[…]`
    Array,
    /// `{…}`
    Object,
}

impl Kind {
    /// The name that JSON gives to the kind, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    /// The kind of a value known to be valid, told by its first byte.
    pub(crate) fn of(text: &str) -> Self {
        match text.as_bytes().first() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::String,
            Some(b't' | b'f') => Self::Boolean,
            Some(b'n') => Self::Null,
            _ => Self::Number,
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Why the text is not JSON, and the byte at which that showed.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) problem: Problem,
    pub(crate) at: usize,
}

/// A checked value: its text, and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
    pub(crate) kind: Kind,
    /// Whether a string has escapes, so that its text is not its value.
    pub(crate) escaped: bool,
}

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

    /// The next byte; zero at the end, which no JSON token begins with.
    #[inline]
    pub(crate) fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    /// The next byte that is not white space.
    #[inline]
    pub(crate) fn peek_token(&mut self) -> u8 {
        loop {
            let byte = self.peek();
            if byte > b' ' || !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return byte;
            }
            self.at += 1;
        }
    }

    pub(crate) fn fault<T>(&self, problem: Problem) -> Result<T, Fault> {
        Err(Fault {
            problem,
            at: self.at,
        })
    }

    /// What stands here is wrong: either nothing does, or something else was due.
    #[cold]
    pub(crate) fn unexpected<T>(&self) -> Result<T, Fault> {
        if self.at >= self.bytes.len() {
            self.fault(Problem::UnexpectedEnd)
        } else {
            self.fault(Problem::UnexpectedCharacter)
        }
    }

    /// Steps over `byte`, which must come next but for white space.
    #[inline]
    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        if self.peek_token() == byte {
            self.at += 1;
            Ok(())
        } else {
            self.unexpected()
        }
    }

    /// Whether only white space is left.
    pub(crate) fn at_end(&mut self) -> bool {
        self.peek_token() == 0 && self.at >= self.bytes.len()
    }

    /// Steps over the brace or bracket that stands here, inside `depth` open containers.
    #[inline]
    pub(crate) fn enter(&mut self, depth: u32) -> Result<(), Fault> {
        if depth >= self.max_depth {
            return self.fault(Problem::TooDeep);
        }
        self.at += 1;
        Ok(())
    }

    /// Steps over one value that stands inside `depth` open containers.
    #[inline]
    pub(crate) fn value(&mut self, depth: u32) -> Result<Value<'a>, Fault> {
        let first = self.peek_token();
        let at = self.at;
        let mut escaped = false;
        let kind = match first {
            b'"' => {
                escaped = self.string()?.escaped;
                Kind::String
            }
            b'{' => self.container(depth, Kind::Object)?,
            b'[' => self.container(depth, Kind::Array)?,
            _ => self.scalar(first)?,
        };
        Ok(Value {
            text: self.slice(at, self.at),
            at,
            kind,
            escaped,
        })
    }

    /// The text between two byte offsets that this scanner has passed.
    #[inline]
    pub(crate) fn slice(&self, from: usize, to: usize) -> &'a str {
        // Both offsets stand at ASCII bytes, so this is always a slice.
        self.text.get(from..to).unwrap_or_default()
    }

    /// Steps over a literal or a number that begins with `first`.
    #[inline]
    fn scalar(&mut self, first: u8) -> Result<Kind, Fault> {
        match first {
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.literal(b"true", Kind::Boolean),
            b'f' => self.literal(b"false", Kind::Boolean),
            b'n' => self.literal(b"null", Kind::Null),
            _ => self.unexpected(),
        }
    }

    fn literal(&mut self, word: &[u8], kind: Kind) -> Result<Kind, Fault> {
        for &byte in word {
            if self.peek() != byte {
                return self.unexpected();
            }
            self.at += 1;
        }
        Ok(kind)
    }

    fn number(&mut self) -> Result<Kind, Fault> {
        if self.peek() == b'-' {
            self.at += 1;
        }
        match self.peek() {
            b'0' => {
                self.at += 1;
                if self.peek().is_ascii_digit() {
                    return self.fault(Problem::BadNumber);
                }
            }
            b'1'..=b'9' => self.digits(),
            _ => return self.fault(Problem::BadNumber),
        }
        if self.peek() == b'.' {
            self.at += 1;
            self.some_digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.at += 1;
            }
            self.some_digits()?;
        }
        Ok(Kind::Number)
    }

    fn digits(&mut self) {
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Result<(), Fault> {
        if !self.peek().is_ascii_digit() {
            return self.fault(Problem::BadNumber);
        }
        self.digits();
        Ok(())
    }

    /// Steps over an object or array, whatever it holds.
    ///
    /// The open containers inside it are the low bits of `kinds`, the innermost lowest: one for an
    /// object, zero for an array.
    fn container(&mut self, depth: u32, outermost: Kind) -> Result<Kind, Fault> {
        let mut open: u32 = 0;
        let mut kinds: u128 = 0;
        loop {
            // A value is due.
            match self.peek_token() {
                b'"' => {
                    self.string()?;
                }
                bracket @ (b'{' | b'[') => {
                    self.enter(depth + open)?;
                    open += 1;
                    let object = bracket == b'{';
                    kinds = (kinds << 1) | u128::from(object);
                    // '}' and ']' both stand two places after their opening bracket.
                    if self.peek_token() == bracket + 2 {
                        self.at += 1;
                        open -= 1;
                        kinds >>= 1;
                    } else if object {
                        self.key()?;
                        continue;
                    } else {
                        continue;
                    }
                }
                first => {
                    self.scalar(first)?;
                }
            }
            // A value has ended: close what it completes.
            loop {
                if open == 0 {
                    return Ok(outermost);
                }
                let object = kinds & 1 == 1;
                match self.peek_token() {
                    b',' => {
                        self.at += 1;
                        if object {
                            self.key()?;
                        }
                        break;
                    }
                    b'}' if object => {}
                    b']' if !object => {}
                    _ => return self.unexpected(),
                }
                self.at += 1;
                open -= 1;
                kinds >>= 1;
            }
        }
    }

    /// Steps over a member's name and its colon.
    #[inline]
    fn key(&mut self) -> Result<(), Fault> {
        if self.peek_token() != b'"' {
            return self.unexpected();
        }
        self.string()?;
        self.expect(b':')
    }

    /// Steps over a member's name and its colon, and tells the name.
    #[inline]
    pub(crate) fn member_name(&mut self) -> Result<Value<'a>, Fault> {
        if self.peek_token() != b'"' {
            return self.unexpected();
        }
        let at = self.at;
        let escaped = self.string()?.escaped;
        let text = self.slice(at, self.at);
        self.expect(b':')?;
        Ok(Value {
            text,
            at,
            kind: Kind::String,
            escaped,
        })
    }
}

#[cfg(test)]
mod tests;
