//! The line on which something stands, with a mark under it.
//!
//! The work does not depend on how long the line is: a file of one line may have a hundred
//! thousand mistakes.

use crate::printable;
use interzone_jsonrpc::Position;
use std::io::{self, Write};

/// How wide an excerpt is, which fits a terminal of usual width beside the number of the line.
const WIDTH: usize = 80;
/// How much of that may stand before the mark.
const BEFORE: usize = 56;
/// How many bytes are looked at on either side; a character has up to four.
const REACH: usize = 4 * WIDTH;

/// A part of a line, safe to show.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Excerpt {
    line: usize,
    text: String,
    /// The columns before the mark.
    indent: usize,
}

impl Excerpt {
    /// The line around a place, or nothing where that line is empty.
    pub(crate) fn around(bytes: &[u8], position: Position) -> Option<Self> {
        let (before, after) = bytes.split_at_checked(position.offset)?;
        let (before, mut cut_left) = line_end(before);
        let (after, mut cut_right) = line_start(after);

        let before = cells(before);
        let mut indent: usize = before.iter().map(|cell| cell.width()).sum();
        let overhang = before.iter().take_while(|cell| {
            let over = indent > BEFORE;
            indent -= if over { cell.width() } else { 0 };
            over
        });
        let overhang = overhang.count();
        cut_left |= overhang > 0;

        let mut after = cells(after);
        if let Some(tab @ Cell::Tab) = after.first_mut() {
            // A tab may be just what is wrong, so it is shown where it is pointed at.
            *tab = Cell::Char('\t');
        }
        let mut width = indent;
        let fitting = after.iter().take_while(|cell| {
            width += cell.width();
            width <= WIDTH
        });
        let fitting = fitting.count();
        cut_right |= fitting < after.len();

        let mut text = String::with_capacity(REACH);
        if cut_left {
            text.push(CUT);
            indent += 1;
        }
        for cell in before
            .iter()
            .skip(overhang)
            .chain(after.iter().take(fitting))
        {
            cell.push(&mut text);
        }
        if cut_right {
            text.push(CUT);
        }
        (!text.trim().is_empty()).then_some(Self {
            line: position.line,
            text,
            indent,
        })
    }

    /// Writes the line and the mark below it, each after `margin`.
    pub(crate) fn write(&self, out: &mut dyn Write, margin: &str) -> io::Result<()> {
        let number = self.line.to_string();
        let blank = " ".repeat(number.len());
        let indent = " ".repeat(self.indent);
        writeln!(out, "{margin}  {number} | {}", self.text)?;
        writeln!(out, "{margin}  {blank} | {indent}^")
    }
}

/// What stands where something was left out.
const CUT: char = '…';

/// One character, or one byte that belongs to none.
#[derive(Clone, Copy)]
enum Cell {
    Char(char),
    /// Shown as one space: as wide as it likes, the mark would stand elsewhere.
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

/// The last line of `bytes` as far as [`REACH`] goes, and whether more of it was left out.
fn line_end(bytes: &[u8]) -> (&[u8], bool) {
    let start = bytes.len().saturating_sub(REACH);
    let near = bytes.get(start..).unwrap_or_default();
    match near.iter().rposition(|&byte| byte == b'\n') {
        Some(at) => (near.get(at + 1..).unwrap_or_default(), false),
        None if start == 0 => (near, false),
        // What is left of a character that was cut in two is no stray byte.
        None => {
            let torn = near.iter().take(3).take_while(|&&byte| is_inner(byte));
            (near.get(torn.count()..).unwrap_or_default(), true)
        }
    }
}

/// The first line of `bytes` as far as [`REACH`] goes, and whether more of it was left out.
fn line_start(bytes: &[u8]) -> (&[u8], bool) {
    let near = bytes.get(..REACH).unwrap_or(bytes);
    if let Some(at) = near.iter().position(|&byte| byte == b'\n') {
        let line = near.get(..at).unwrap_or_default();
        return (line.strip_suffix(b"\r").unwrap_or(line), false);
    }
    if near.len() == bytes.len() {
        return (near, false);
    }
    let mut end = near.len();
    while end > REACH - 4 && bytes.get(end).is_some_and(|&byte| is_inner(byte)) {
        end -= 1;
    }
    (near.get(..end).unwrap_or_default(), true)
}

/// Whether a byte is one of a character's later ones.
fn is_inner(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

#[cfg(test)]
mod tests;
