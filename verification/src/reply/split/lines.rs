//! Iterates over the lines of a Markdown text and tracks the open code block or table.

#[cfg(test)]
use crate::reply::complexity_probe::count_scan;

/// The open block at a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum OpenBlock<'a> {
    #[default]
    NoBlock,
    Fence {
        /// The line that opens it.
        opener: &'a str,
        /// The line that closes it.
        closer: &'a str,
    },
    Table {
        /// Its first two lines.
        header: &'a str,
    },
}

impl OpenBlock<'_> {
    pub(super) fn is_open(&self) -> bool {
        *self != Self::NoBlock
    }

    pub(super) fn is_fence(&self) -> bool {
        matches!(self, Self::Fence { .. })
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self, Self::Table { .. })
    }

    /// Quote depth of the block.
    fn quote_depth(&self) -> usize {
        match self {
            Self::NoBlock => 0,
            Self::Fence { opener: line, .. } | Self::Table { header: line } => strip_quote(line).0,
        }
    }

    /// Text that closes the block before a cut.
    pub(super) fn closing_text(&self) -> String {
        match self {
            Self::Fence { closer, .. } => format!("\n{closer}"),
            Self::NoBlock | Self::Table { .. } => String::new(),
        }
    }

    /// Number of characters needed to close the block.
    pub(super) fn closing_len(&self) -> usize {
        match self {
            // Fence characters are ASCII.
            Self::Fence { closer, .. } => 1 + closer.len(),
            Self::NoBlock | Self::Table { .. } => 0,
        }
    }

    /// Text that reopens the block after a cut.
    pub(super) fn reopening_text(&self) -> String {
        match self {
            Self::Fence { opener, .. } => format!("{opener}\n"),
            Self::Table { header } => format!("{header}\n"),
            Self::NoBlock => String::new(),
        }
    }
}

/// A line with the blocks around it.
pub(super) struct MarkdownLine<'a> {
    /// Byte offset of its start.
    pub(super) start: usize,
    /// Without the line break.
    pub(super) text: &'a str,
    /// Block that is open before it.
    pub(super) open_before: OpenBlock<'a>,
    /// True if the text may be cut before it.
    pub(super) may_cut: bool,
    /// True if it must not be split: it opens or closes a block, or is part of a table.
    pub(super) is_atomic: bool,
    /// True if the previous line is blank.
    pub(super) after_blank: bool,
    /// Characters needed to close the block that is open after it.
    pub(super) closing_len_after: usize,
}

/// Line iterator.
pub(super) struct MarkdownLines<'a> {
    text: &'a str,
    pos: usize,
    open: OpenBlock<'a>,
    limit: usize,
    /// Number of lines of the open block so far, including its opening lines.
    block_lines: usize,
    /// Quote depth of the open block.
    quote_depth: usize,
    previous_is_blank: bool,
}

impl<'a> MarkdownLines<'a> {
    /// `limit` is the message limit: opening and closing lines must leave space within it.
    pub(super) fn new(text: &'a str, open: OpenBlock<'a>, limit: usize) -> Self {
        Self {
            text,
            pos: 0,
            open,
            limit,
            // A reopened block has its opening lines already.
            block_lines: 2,
            quote_depth: open.quote_depth(),
            previous_is_blank: false,
        }
    }

    fn line_at(&self, pos: usize) -> Option<&'a str> {
        let remaining = self.text.get(pos..).filter(|rest| !rest.is_empty())?;
        let line = remaining.split('\n').next()?;
        #[cfg(test)]
        count_scan(line.len());
        Some(line)
    }

    pub(super) fn next(&mut self) -> Option<MarkdownLine<'a>> {
        let start = self.pos;
        let text = self.line_at(start)?;
        self.pos = start + text.len() + 1;
        let (open_before, depth) = (self.open, strip_quote(text).0);
        let mut may_cut = true;
        // A block inside a quote ends with the quote.
        let quote_ended = self.open.is_open() && depth < self.quote_depth;
        match &self.open {
            _ if quote_ended => self.open_block(text),
            OpenBlock::Fence { closer, .. }
                if depth == self.quote_depth
                    && closes_fence(strip_quote(text).1, strip_quote(closer).1) =>
            {
                // Cutting here would reopen an empty block.
                may_cut = false;
                self.open = OpenBlock::NoBlock;
            }
            OpenBlock::Fence { .. } => {
                may_cut = self.block_lines > 1;
                self.block_lines += 1;
            }
            OpenBlock::Table { .. } if text.contains('|') => {
                may_cut = self.block_lines > 2;
                self.block_lines += 1;
            }
            OpenBlock::NoBlock | OpenBlock::Table { .. } => self.open_block(text),
        }
        // A block that ended is not open before this line.
        let open_before = match (&open_before, &self.open) {
            _ if quote_ended => OpenBlock::NoBlock,
            (OpenBlock::Table { .. }, OpenBlock::Table { .. }) => open_before,
            (OpenBlock::Table { .. }, _) => OpenBlock::NoBlock,
            _ => open_before,
        };
        let after_blank = std::mem::replace(&mut self.previous_is_blank, text.trim().is_empty());
        Some(MarkdownLine {
            start,
            text,
            is_atomic: self.open != open_before || open_before.is_table(),
            open_before,
            may_cut,
            after_blank,
            closing_len_after: self.open.closing_len(),
        })
    }

    /// Sets the block that this line opens, if any. Opening lines that would leave no space in a message are treated
    /// as text.
    fn open_block(&mut self, text: &'a str) {
        self.open = OpenBlock::NoBlock;
        self.block_lines = 1;
        let max_len = self.limit / 4;
        let (depth, content) = strip_quote(text);
        self.quote_depth = depth;
        let is_table_rule = |next_line: &&str| {
            strip_quote(next_line).0 == depth && is_table_delimiter(strip_quote(next_line).1)
        };
        if let Some(marker) = opening_fence(content).filter(|_| super::utf16_len(text) <= max_len) {
            // The closing line needs the same quote prefix.
            let closer = match depth {
                0 => Some(marker),
                _ => text.get(..text.len() - content.trim_start().len() + marker.len()),
            };
            self.open = OpenBlock::Fence {
                opener: text,
                closer: closer.unwrap_or(marker),
            };
        } else if let Some(next_line) = self.line_at(self.pos).filter(is_table_rule)
            && text.contains('|')
            && super::utf16_len(text) + super::utf16_len(next_line) < max_len
        {
            let start = self.pos.saturating_sub(text.len() + 1);
            let header = self.text.get(start..self.pos + next_line.len());
            self.open = header.map_or(OpenBlock::NoBlock, |header| OpenBlock::Table { header });
        }
    }
}

/// Returns the quote depth of a line and its content.
fn strip_quote(line: &str) -> (usize, &str) {
    let (mut depth, mut content) = (0, line);
    while let Some(quoted) = content.trim_start().strip_prefix('>') {
        (depth, content) = (depth + 1, quoted);
    }
    (depth, content)
}

/// Returns the fence that opens a code block, if the line does.
pub(super) fn opening_fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let c = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = line.len() - line.trim_start_matches(c).len();
    let (marker, info) = line.split_at(length);
    (length >= 3 && !(c == '`' && info.contains('`'))).then_some(marker)
}

/// Returns true if the line closes the code block that was opened by `opening`.
pub(super) fn closes_fence(line: &str, opening: &str) -> bool {
    let line = line.trim();
    line.starts_with(opening)
        && opening
            .chars()
            .next()
            .is_some_and(|sign| line.chars().all(|other| other == sign))
}

/// Returns true for the delimiter row of a table.
fn is_table_delimiter(line: &str) -> bool {
    line.contains('-')
        && line.contains('|')
        && line
            .chars()
            .all(|sign| matches!(sign, '|' | '-' | ':' | ' ' | '\t' | '\r'))
}
