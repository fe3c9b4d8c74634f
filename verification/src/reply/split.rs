//! Cutting a long answer into messages: at the end of a paragraph if there is one in reach, else of a
//! line, a sentence, a word. What a cut would tear, a code block or a table, is closed before it and
//! opened again after it. What Slack makes of Markdown is not known here.

mod lines;

use super::looked::looked;
use lines::{Lines, Open};
pub(super) use lines::{closes, fence, is_rule};
use unicode_segmentation::UnicodeSegmentation;

/// The fewest characters that a message may be limited to, so that there is room for what is opened
/// again.
const LEAST: usize = 64;

/// How long a text is. Slack counts as JavaScript does, so that most emoji are two.
pub(super) fn length(text: &str) -> usize {
    looked(text.len());
    text.chars().map(char::len_utf16).sum()
}

/// As much of a text as has at most so many characters.
pub(super) fn head(text: &str, most: usize) -> &str {
    let mut size = 0;
    let over = text.char_indices().find(|(_, sign)| {
        size += sign.len_utf16();
        size > most
    });
    let end = over.map_or(text.len(), |(at, _)| at);
    looked(end);
    text.get(..end).unwrap_or_default()
}

/// Cuts a text into messages of at most `limit` characters. A text of nothing but blanks is no message.
pub(super) fn split(text: &str, limit: usize) -> Vec<String> {
    let limit = limit.max(LEAST);
    let mut pieces = Vec::new();
    let mut rest = text.trim_end().trim_start_matches(['\n', '\r']);
    let mut open = Open::default();
    while !rest.is_empty() {
        let again = open.again();
        if head(rest, limit.saturating_sub(length(&again))) == rest {
            pieces.push(format!("{again}{rest}"));
            break;
        }
        // A line that is longer than a message is not looked at up to its end for each piece of it. What it
        // would have shown there, as that it closes a block, matters to no line that fits.
        let near = head(rest, 2 * limit + 2);
        let cut = Piece::new(&again, near, open, limit).cut();
        let (before, after) = rest.split_at(cut.at);
        pieces.push(format!(
            "{again}{}{}",
            before.trim_end(),
            cut.open.closing()
        ));
        rest = if cut.open.is_fence() {
            after.strip_prefix('\n').unwrap_or(after)
        } else {
            without_blank_lines(after)
        };
        open = cut.open;
    }
    pieces
}

/// What closes a code block that is still open at the end of a text.
pub(super) fn closing(text: &str) -> String {
    let mut open: Option<&str> = None;
    for line in text.lines() {
        open = match open {
            Some(marker) if closes(line, marker) => None,
            None => fence(line),
            still => still,
        };
    }
    open.map_or_else(String::new, |marker| format!("\n{marker}"))
}

/// Without the blank lines at its start; what the first line is indented by stays.
fn without_blank_lines(text: &str) -> &str {
    let blank = text.len() - text.trim_start().len();
    let lines = text.get(..blank).and_then(|blank| blank.rfind('\n'));
    match lines {
        Some(end) => text.get(end + 1..).unwrap_or_default(),
        // It goes on in the middle of a line.
        None => text.trim_start(),
    }
}

/// Where to cut, and what is open there.
struct Cut<'a> {
    at: usize,
    open: Open<'a>,
}

/// How good a place between two lines is, worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Within a code block or a table.
    Inside,
    Line,
    Paragraph,
}

/// A place between two lines.
struct Between<'a> {
    cut: Cut<'a>,
    rank: Rank,
    /// How long the message would be.
    size: usize,
}

/// The text of which a message is to be cut.
struct Piece<'a> {
    rest: &'a str,
    limit: usize,
    /// The length of what is opened again.
    again: usize,
    start: Open<'a>,
}

impl<'a> Piece<'a> {
    fn new(again: &str, rest: &'a str, start: Open<'a>, limit: usize) -> Self {
        Self {
            rest,
            limit,
            again: length(again),
            start,
        }
    }

    fn cut(self) -> Cut<'a> {
        let mut places: Vec<Between<'a>> = Vec::new();
        let mut size = self.again;
        let mut lines = Lines::new(self.rest, self.start, self.limit);
        while let Some(line) = lines.next() {
            let open = line.before;
            // What ends the line before it goes.
            let closed = size.saturating_sub(1) + open.cost();
            if line.start > 0 && line.may_cut && closed <= self.limit {
                places.push(Between {
                    cut: Cut {
                        at: line.start,
                        open,
                    },
                    rank: match () {
                        () if open.is_open() => Rank::Inside,
                        () if line.after_blank => Rank::Paragraph,
                        () => Rank::Line,
                    },
                    size,
                });
            }
            let longer = size + length(line.text) + 1;
            if longer > self.limit + 1 || longer + line.after_cost > self.limit + 1 {
                return self.choose(places, &line, size);
            }
            size = longer;
        }
        // It all fits after all, which whoever asks has ruled out.
        Cut {
            at: self.rest.len(),
            open: Open::default(),
        }
    }

    /// The best place between lines in the second half, or one within the line that does not fit.
    fn choose(&self, mut places: Vec<Between<'a>>, line: &lines::Line<'a>, size: usize) -> Cut<'a> {
        let half = self.limit / 2;
        let best = places
            .iter()
            .enumerate()
            .filter(|(_, place)| place.size >= half)
            .max_by_key(|(index, place)| (place.rank, *index));
        if let Some((index, _)) = best {
            return places.swap_remove(index).cut;
        }
        if let Some(place) = places.pop_if(|_| line.whole) {
            return place.cut;
        }
        let open = if line.before.is_table() {
            // A row that is longer than a message goes on as text.
            Open::default()
        } else {
            line.before
        };
        let room = self.limit.saturating_sub(size + open.cost());
        match within(line.text, room, half.saturating_sub(size)) {
            Some(at) => Cut {
                at: line.start + at,
                open,
            },
            None => match places.pop() {
                Some(place) => place.cut,
                // One sign of many parts that alone is longer than a message.
                None => Cut {
                    at: line.start + torn(line.text, room),
                    open,
                },
            },
        }
    }
}

/// Where to cut a line so that at most `room` characters come before: at the end of a sentence or a
/// word if at least `wanted` come before it, else between any two signs.
fn within(line: &str, room: usize, wanted: usize) -> Option<usize> {
    let (mut sentence, mut word, mut sign) = (None, None, None);
    let mut size = 0;
    let mut ended = Ended::No;
    for (at, grapheme) in line.grapheme_indices(true) {
        if at > 0 {
            let blank = grapheme.trim().is_empty();
            let ends = match ended {
                Ended::No => false,
                // A point within a number or a name ends nothing.
                Ended::IfBlank => blank,
                Ended::Yes => !is_closing(grapheme) && !is_end(grapheme),
            };
            if size >= wanted && ends {
                sentence = Some(at);
            }
            if size >= wanted && blank {
                word = Some(at);
            }
            sign = Some(at);
        }
        ended = ended.then(grapheme);
        size += length(grapheme);
        if size > room {
            break;
        }
    }
    sentence.or(word).or(sign)
}

/// Whether a sentence has ended.
#[derive(Clone, Copy)]
enum Ended {
    No,
    IfBlank,
    Yes,
}

impl Ended {
    fn then(self, grapheme: &str) -> Self {
        match (self, grapheme) {
            (_, "。" | "！" | "？" | "．" | "｡") => Self::Yes,
            (_, "." | "!" | "?" | "…") => Self::IfBlank,
            (ended, closing) if is_closing(closing) => ended,
            _ => Self::No,
        }
    }
}

fn is_end(grapheme: &str) -> bool {
    matches!(grapheme, "。" | "！" | "？" | "．" | "｡")
}

/// What belongs to the sentence that ended before it.
fn is_closing(grapheme: &str) -> bool {
    matches!(
        grapheme,
        "」" | "』" | "）" | "】" | "〉" | "》" | "”" | "’" | "\"" | "'" | ")" | "]" | "*" | "_"
    )
}

/// How many bytes of whole characters fit, one character at least.
fn torn(line: &str, room: usize) -> usize {
    let first = line.chars().next().map_or(0, char::len_utf8);
    head(line, room).len().max(first)
}

#[cfg(test)]
mod tests;
