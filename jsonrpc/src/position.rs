//! Where in a text something stands, as people count: lines and columns.

use std::fmt;

/// A place in a text.
///
/// ```
/// use interzone_jsonrpc::{parse, Parsed, Policy};
///
/// let Parsed::One(Err(rejection)) = parse(b"{\n  oops\n}", &Policy::SERVER) else { unreachable!() };
/// let position = rejection.position();
/// assert_eq!((position.offset, position.line, position.column), (4, 2, 3));
/// assert_eq!(position.to_string(), "line 2, column 3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The byte, counted from zero.
    pub offset: usize,
    /// The line, counted from one.
    pub line: usize,
    /// The character in that line, counted from one.
    pub column: usize,
}

impl Position {
    pub(crate) const START: Self = Self {
        offset: 0,
        line: 1,
        column: 1,
    };
}

/// Finds lines and columns by walking forward.
///
/// The rejections of a batch are found in order, so each byte is walked over once however many
/// there are: a large batch of rubbish must not cost the square of its size.
pub(crate) struct Ruler<'a> {
    bytes: &'a [u8],
    here: Position,
}

impl<'a> Ruler<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            here: Position::START,
        }
    }

    /// A ruler for the same text that has not walked anywhere yet.
    pub(crate) fn restarted(&self) -> Self {
        Self::new(self.bytes)
    }

    /// The place of a byte that is not before the last one asked for.
    pub(crate) fn locate(&mut self, offset: usize) -> Position {
        let passed = self.bytes.get(self.here.offset..offset).unwrap_or_default();
        let last_line = match passed.iter().rposition(|&byte| byte == b'\n') {
            None => passed,
            Some(at) => {
                self.here.line += passed.iter().filter(|&&byte| byte == b'\n').count();
                self.here.column = 1;
                passed.get(at + 1..).unwrap_or_default()
            }
        };
        // A character is counted at its first byte; the others look like 10xxxxxx.
        self.here.column += last_line
            .iter()
            .filter(|&&byte| byte & 0xC0 != 0x80)
            .count();
        self.here.offset = self.here.offset.max(offset);
        self.here
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}
