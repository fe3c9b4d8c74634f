//! Line and column of an offset in a text.

use std::fmt;

/// A position in a text.
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

/// Converts byte offsets to lines and columns, moving forward only.
///
/// The errors of a batch are found in order, so each byte is visited once however many errors there are: a large
/// batch of garbage must not take quadratic time.
pub(crate) struct PositionTracker<'a> {
    bytes: &'a [u8],
    current: Position,
}

impl<'a> PositionTracker<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            current: Position::START,
        }
    }

    /// Returns a tracker of the same text, at its start.
    pub(crate) fn at_start(&self) -> Self {
        Self::new(self.bytes)
    }

    /// Returns the position of an offset that is not before the last one requested.
    pub(crate) fn locate(&mut self, offset: usize) -> Position {
        let skipped = self
            .bytes
            .get(self.current.offset..offset)
            .unwrap_or_default();
        let last_line = match skipped.iter().rposition(|&byte| byte == b'\n') {
            None => skipped,
            Some(at) => {
                self.current.line += skipped.iter().filter(|&&byte| byte == b'\n').count();
                self.current.column = 1;
                skipped.get(at + 1..).unwrap_or_default()
            }
        };
        // Characters are counted by their first byte; continuation bytes are 10xxxxxx.
        self.current.column += last_line
            .iter()
            .filter(|&&byte| byte & 0xC0 != 0x80)
            .count();
        self.current.offset = self.current.offset.max(offset);
        self.current
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}
