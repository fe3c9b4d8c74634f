//! The lines of a Markdown text, and which of its code blocks or tables each stands in.

use crate::reply::looked::looked;

/// What is open at a place: nothing, a code block or a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Open<'a> {
    #[default]
    Nothing,
    Fence {
        /// The line that opens it.
        opener: &'a str,
        /// What closes it.
        closer: &'a str,
    },
    Table {
        /// Its first two lines.
        header: &'a str,
    },
}

impl Open<'_> {
    pub(super) fn is_open(&self) -> bool {
        *self != Self::Nothing
    }

    pub(super) fn is_fence(&self) -> bool {
        matches!(self, Self::Fence { .. })
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self, Self::Table { .. })
    }

    /// In how many quotes it stands.
    fn depth(&self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Fence { opener: line, .. } | Self::Table { header: line } => quote(line).0,
        }
    }

    /// What closes it before a cut.
    pub(super) fn closing(&self) -> String {
        match self {
            Self::Fence { closer, .. } => format!("\n{closer}"),
            Self::Nothing | Self::Table { .. } => String::new(),
        }
    }

    /// How many characters it takes to close it.
    pub(super) fn cost(&self) -> usize {
        match self {
            // Its signs are of one byte each.
            Self::Fence { closer, .. } => 1 + closer.len(),
            Self::Nothing | Self::Table { .. } => 0,
        }
    }

    /// What opens it again after a cut.
    pub(super) fn again(&self) -> String {
        match self {
            Self::Fence { opener, .. } => format!("{opener}\n"),
            Self::Table { header } => format!("{header}\n"),
            Self::Nothing => String::new(),
        }
    }
}

/// A line, and what is open around it.
pub(super) struct Line<'a> {
    /// Where it starts.
    pub(super) start: usize,
    /// Without what ends it.
    pub(super) text: &'a str,
    /// What is open before it.
    pub(super) before: Open<'a>,
    /// Whether the text may be cut before it.
    pub(super) may_cut: bool,
    /// Whether it must not be torn: it opens or closes a block, or is part of a table.
    pub(super) whole: bool,
    /// Whether the line before it is blank.
    pub(super) after_blank: bool,
    /// What it takes to close what is open after it.
    pub(super) after_cost: usize,
}

/// The lines of a text, one after another.
pub(super) struct Lines<'a> {
    text: &'a str,
    at: usize,
    open: Open<'a>,
    limit: usize,
    /// How many lines of what is open have been seen, those that open it included.
    seen: usize,
    /// In how many quotes it stands.
    depth: usize,
    blank: bool,
}

impl<'a> Lines<'a> {
    /// `limit` is that of a message: what opens or closes something must leave room in it.
    pub(super) fn new(text: &'a str, open: Open<'a>, limit: usize) -> Self {
        Self {
            text,
            at: 0,
            open,
            limit,
            // What was opened again has its first lines already.
            seen: 2,
            depth: open.depth(),
            blank: false,
        }
    }

    fn line_at(&self, at: usize) -> Option<&'a str> {
        let rest = self.text.get(at..).filter(|rest| !rest.is_empty())?;
        let line = rest.split('\n').next()?;
        looked(line.len());
        Some(line)
    }

    pub(super) fn next(&mut self) -> Option<Line<'a>> {
        let start = self.at;
        let text = self.line_at(start)?;
        self.at = start + text.len() + 1;
        let (before, depth) = (self.open, quote(text).0);
        let mut may_cut = true;
        // What a quote holds ends with it.
        let left = self.open.is_open() && depth < self.depth;
        match &self.open {
            _ if left => self.begin(text),
            Open::Fence { closer, .. }
                if depth == self.depth && closes(quote(text).1, quote(closer).1) =>
            {
                // An empty block would be opened again for it.
                may_cut = false;
                self.open = Open::Nothing;
            }
            Open::Fence { .. } => {
                may_cut = self.seen > 1;
                self.seen += 1;
            }
            Open::Table { .. } if text.contains('|') => {
                may_cut = self.seen > 2;
                self.seen += 1;
            }
            Open::Nothing | Open::Table { .. } => self.begin(text),
        }
        // What ends here is not open before the line that follows it.
        let before = match (&before, &self.open) {
            _ if left => Open::Nothing,
            (Open::Table { .. }, Open::Table { .. }) => before,
            (Open::Table { .. }, _) => Open::Nothing,
            _ => before,
        };
        let after_blank = std::mem::replace(&mut self.blank, text.trim().is_empty());
        Some(Line {
            start,
            text,
            whole: self.open != before || before.is_table(),
            before,
            may_cut,
            after_blank,
            after_cost: self.open.cost(),
        })
    }

    /// What this line opens, where nothing or no more is open. What would not leave room for anything
    /// else in a message is text like any other.
    fn begin(&mut self, text: &'a str) {
        self.open = Open::Nothing;
        self.seen = 1;
        let most = self.limit / 4;
        let (depth, inner) = quote(text);
        self.depth = depth;
        let ruled = |under: &&str| quote(under).0 == depth && is_rule(quote(under).1);
        if let Some(marker) = fence(inner).filter(|_| super::length(text) <= most) {
            // A quote goes on with the signs it began with.
            let closer = match depth {
                0 => Some(marker),
                _ => text.get(..text.len() - inner.trim_start().len() + marker.len()),
            };
            self.open = Open::Fence {
                opener: text,
                closer: closer.unwrap_or(marker),
            };
        } else if let Some(under) = self.line_at(self.at).filter(ruled)
            && text.contains('|')
            && super::length(text) + super::length(under) < most
        {
            let start = self.at.saturating_sub(text.len() + 1);
            let header = self.text.get(start..self.at + under.len());
            self.open = header.map_or(Open::Nothing, |header| Open::Table { header });
        }
    }
}

/// In how many quotes a line stands, and what it says there.
fn quote(line: &str) -> (usize, &str) {
    let (mut depth, mut inner) = (0, line);
    while let Some(quoted) = inner.trim_start().strip_prefix('>') {
        (depth, inner) = (depth + 1, quoted);
    }
    (depth, inner)
}

/// The signs that open a code block, if the line does.
pub(in crate::reply) fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let sign = line
        .chars()
        .next()
        .filter(|sign| matches!(sign, '`' | '~'))?;
    let length = line.len() - line.trim_start_matches(sign).len();
    let (marker, info) = line.split_at(length);
    (length >= 3 && !(sign == '`' && info.contains('`'))).then_some(marker)
}

/// Whether the line closes a code block that these signs opened.
pub(in crate::reply) fn closes(line: &str, opened: &str) -> bool {
    let line = line.trim();
    line.starts_with(opened)
        && opened
            .chars()
            .next()
            .is_some_and(|sign| line.chars().all(|other| other == sign))
}

/// Whether it is the line under the head of a table.
pub(in crate::reply) fn is_rule(line: &str) -> bool {
    line.contains('-')
        && line.contains('|')
        && line
            .chars()
            .all(|sign| matches!(sign, '|' | '-' | ':' | ' ' | '\t' | '\r'))
}
