//! Source excerpt: the line around a position, with a marker below it.
//!
//! The cost does not depend on the length of the line: a file of one line may have a hundred thousand errors.

use crate::printable;
use interzone_jsonrpc::Position;
use std::io::{self, Write};

/// Maximum width of an excerpt, which fits a terminal of usual width next to the line number.
const MAX_WIDTH: usize = 80;
/// Maximum width before the marker.
const MAX_WIDTH_BEFORE: usize = 56;
/// Bytes examined on either side; a character has up to four.
const MAX_BYTES: usize = 4 * MAX_WIDTH;

/// A part of a line, escaped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Excerpt {
    line: usize,
    text: String,
    /// Columns before the marker.
    indent: usize,
}

impl Excerpt {
    /// Returns the line around a position; None if nothing of it is visible.
    pub(crate) fn at_position(bytes: &[u8], position: Position) -> Option<Self> {
        let (before, after) = bytes.split_at_checked(position.offset)?;
        let (before, mut cut_left) = line_end(before);
        let (after, mut cut_right) = line_start(after);

        let before = cells(before);
        let mut indent: usize = before.iter().map(|cell| cell.width()).sum();
        let overhang = before.iter().take_while(|cell| {
            let over = indent > MAX_WIDTH_BEFORE;
            indent -= if over { cell.width() } else { 0 };
            over
        });
        let overhang = overhang.count();
        cut_left |= overhang > 0;

        let mut after = cells(after);
        if let Some(tab @ Cell::Tab) = after.first_mut() {
            // A tab may be the error itself, so it is shown where the marker points.
            *tab = Cell::Char('\t');
        }
        let mut width = indent;
        let fitting = after.iter().take_while(|cell| {
            width += cell.width();
            width <= MAX_WIDTH
        });
        let fitting = fitting.count();
        cut_right |= fitting < after.len();

        let mut text = String::with_capacity(MAX_BYTES);
        for cell in before
            .iter()
            .skip(overhang)
            .chain(after.iter().take(fitting))
        {
            cell.push(&mut text);
        }
        if text.trim().is_empty() {
            return None;
        }
        if cut_left {
            text.insert(0, ELLIPSIS);
            indent += 1;
        }
        if cut_right {
            text.push(ELLIPSIS);
        }
        Some(Self {
            line: position.line,
            text,
            indent,
        })
    }

    /// Writes the line and the marker below it, each after `margin`.
    pub(crate) fn write(&self, out: &mut dyn Write, margin: &str) -> io::Result<()> {
        let number = self.line.to_string();
        let blank = " ".repeat(number.len());
        let indent = " ".repeat(self.indent);
        writeln!(out, "{margin}  {number} | {}", self.text)?;
        writeln!(out, "{margin}  {blank} | {indent}^")
    }
}

/// Replacement for omitted text.
const ELLIPSIS: char = '…';

/// One character, or one byte of invalid UTF-8.
#[derive(Clone, Copy)]
enum Cell {
    Char(char),
    /// Shown as one space, so that the marker is at the right column.
    Tab,
    Byte(u8),
}

impl Cell {
    fn width(self) -> usize {
        match self {
            Self::Char(c) => printable::width(c),
            Self::Tab => 1,
            Self::Byte(_) => printable::BYTE_WIDTH,
        }
    }

    fn push(self, out: &mut String) {
        match self {
            Self::Char(c) => printable::push(out, c),
            Self::Tab => out.push(' '),
            Self::Byte(byte) => printable::push_byte(out, byte),
        }
    }
}

fn cells(bytes: &[u8]) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        cells.extend(chunk.valid().chars().map(|c| match c {
            '\t' => Cell::Tab,
            c => Cell::Char(c),
        }));
        cells.extend(chunk.invalid().iter().copied().map(Cell::Byte));
    }
    cells
}

/// Returns the last line of `bytes` up to [`MAX_BYTES`], and true if it was truncated.
fn line_end(bytes: &[u8]) -> (&[u8], bool) {
    let start = bytes.len().saturating_sub(MAX_BYTES);
    let near = bytes.get(start..).unwrap_or_default();
    match near.iter().rposition(|&byte| byte == b'\n') {
        Some(at) => (near.get(at + 1..).unwrap_or_default(), false),
        None if start == 0 => (near, false),
        // Remaining bytes of a character that was cut are skipped.
        None => {
            let torn = near
                .iter()
                .take(3)
                .take_while(|&&byte| is_continuation_byte(byte));
            (near.get(torn.count()..).unwrap_or_default(), true)
        }
    }
}

/// Returns the first line of `bytes` up to [`MAX_BYTES`], and true if it was truncated.
fn line_start(bytes: &[u8]) -> (&[u8], bool) {
    let near = bytes.get(..MAX_BYTES).unwrap_or(bytes);
    if let Some(at) = near.iter().position(|&byte| byte == b'\n') {
        let line = near.get(..at).unwrap_or_default();
        return (line.strip_suffix(b"\r").unwrap_or(line), false);
    }
    if near.len() == bytes.len() {
        return (near, false);
    }
    let mut end = near.len();
    while end > MAX_BYTES - 4
        && bytes
            .get(end)
            .is_some_and(|&byte| is_continuation_byte(byte))
    {
        end -= 1;
    }
    (near.get(..end).unwrap_or_default(), true)
}

/// Returns true for a UTF-8 continuation byte.
fn is_continuation_byte(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

#[cfg(test)]
mod tests;
