//! Splits a long answer into messages: at the end of a paragraph if one is in reach, else of a line, a sentence or a
//! word. A code block or table that is cut is closed before the cut and reopened after it.

mod lines;

#[cfg(test)]
use super::complexity_probe::count_scan;
use lines::{MarkdownLines, OpenBlock, closes_fence, opening_fence};
use unicode_segmentation::UnicodeSegmentation;

/// Minimum message limit, so that there is space for reopened blocks.
const MIN_LIMIT: usize = 64;

/// Length of a text in UTF-16 code units, as Slack counts it (most emoji are two).
pub(super) fn utf16_len(text: &str) -> usize {
    #[cfg(test)]
    count_scan(text.len());
    text.chars().map(char::len_utf16).sum()
}

/// Returns the longest prefix with at most `max` characters.
pub(super) fn prefix_within(text: &str, max: usize) -> &str {
    let mut size = 0;
    let first_excess = text.char_indices().find(|(_, c)| {
        size += c.len_utf16();
        size > max
    });
    let end = first_excess.map_or(text.len(), |(at, _)| at);
    #[cfg(test)]
    count_scan(end);
    text.get(..end).unwrap_or_default()
}

/// Splits a text into messages of at most `limit` characters. Whitespace alone yields no message.
pub(super) fn split(text: &str, limit: usize) -> Vec<String> {
    let limit = limit.max(MIN_LIMIT);
    let mut pieces = Vec::new();
    let mut remaining = text.trim_end().trim_start_matches(['\n', '\r']);
    let mut open = OpenBlock::default();
    while !remaining.is_empty() {
        let reopening = open.reopening_text();
        if prefix_within(remaining, limit.saturating_sub(utf16_len(&reopening))) == remaining {
            pieces.push(format!("{reopening}{remaining}"));
            break;
        }
        // Only the near part of a line longer than a message is scanned for each piece, to stay linear. Markers
        // further right, such as a closing fence, do not affect lines that fit.
        let window = prefix_within(remaining, 2 * limit + 2);
        let cut = PieceCutter::new(&reopening, window, open, limit).find_cut();
        let (before, after) = remaining.split_at(cut.pos);
        pieces.push(format!(
            "{reopening}{}{}",
            before.trim_end(),
            cut.open.closing_text()
        ));
        remaining = if cut.open.is_fence() {
            after.strip_prefix('\n').unwrap_or(after)
        } else {
            strip_blank_lines(after)
        };
        open = cut.open;
    }
    pieces
}

/// Returns the text that closes a code block which is open at the end of a text.
pub(super) fn closing_fence(text: &str) -> String {
    let mut open: Option<&str> = None;
    for line in text.lines() {
        open = match open {
            Some(marker) if closes_fence(line, marker) => None,
            None => opening_fence(line),
            unchanged => unchanged,
        };
    }
    open.map_or_else(String::new, |marker| format!("\n{marker}"))
}

/// Strips leading blank lines; the indentation of the first line stays.
fn strip_blank_lines(text: &str) -> &str {
    let blank_len = text.len() - text.trim_start().len();
    let lines = text.get(..blank_len).and_then(|blank| blank.rfind('\n'));
    match lines {
        Some(end) => text.get(end + 1..).unwrap_or_default(),
        // The cut is in the middle of a line.
        None => text.trim_start(),
    }
}

/// A cut position, and the block that is open there.
struct Cut<'a> {
    pos: usize,
    open: OpenBlock<'a>,
}

/// Quality of a cut between two lines, worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CutQuality {
    /// Inside a code block or table.
    Inside,
    Line,
    Paragraph,
}

/// A possible cut between two lines.
struct CutPoint<'a> {
    cut: Cut<'a>,
    quality: CutQuality,
    /// Length of the resulting message.
    size: usize,
}

/// The text from which the next message is cut.
struct PieceCutter<'a> {
    remaining: &'a str,
    limit: usize,
    /// Length of the reopening text.
    reopening_len: usize,
    start: OpenBlock<'a>,
}

impl<'a> PieceCutter<'a> {
    fn new(reopening: &str, remaining: &'a str, start: OpenBlock<'a>, limit: usize) -> Self {
        Self {
            remaining,
            limit,
            reopening_len: utf16_len(reopening),
            start,
        }
    }

    fn find_cut(self) -> Cut<'a> {
        let mut points: Vec<CutPoint<'a>> = Vec::new();
        let mut size = self.reopening_len;
        let mut lines = MarkdownLines::new(self.remaining, self.start, self.limit);
        while let Some(line) = lines.next() {
            let open = line.open_before;
            // The line break before it is dropped.
            let closed_size = size.saturating_sub(1) + open.closing_len();
            if line.start > 0 && line.may_cut && closed_size <= self.limit {
                points.push(CutPoint {
                    cut: Cut {
                        pos: line.start,
                        open,
                    },
                    quality: match () {
                        () if open.is_open() => CutQuality::Inside,
                        () if line.after_blank => CutQuality::Paragraph,
                        () => CutQuality::Line,
                    },
                    size,
                });
            }
            let next_size = size + utf16_len(line.text) + 1;
            if next_size > self.limit + 1 || next_size + line.closing_len_after > self.limit + 1 {
                return self.choose_cut(points, &line, size);
            }
            size = next_size;
        }
        // Everything fits, which the caller has excluded.
        Cut {
            pos: self.remaining.len(),
            open: OpenBlock::default(),
        }
    }

    /// Chooses the best cut between lines in the second half, or one within the line that does not fit.
    fn choose_cut(
        &self,
        mut points: Vec<CutPoint<'a>>,
        line: &lines::MarkdownLine<'a>,
        size: usize,
    ) -> Cut<'a> {
        let half = self.limit / 2;
        let best = points
            .iter()
            .enumerate()
            .filter(|(_, place)| place.size >= half)
            .max_by_key(|(index, place)| (place.quality, *index));
        if let Some((index, _)) = best {
            return points.swap_remove(index).cut;
        }
        if let Some(place) = points.pop_if(|_| line.is_atomic) {
            return place.cut;
        }
        let open = if line.open_before.is_table() {
            // A row longer than a message continues as text.
            OpenBlock::default()
        } else {
            line.open_before
        };
        let available = self.limit.saturating_sub(size + open.closing_len());
        match cut_within_line(line.text, available, half.saturating_sub(size)) {
            Some(at) => Cut {
                pos: line.start + at,
                open,
            },
            None => match points.pop() {
                Some(place) => place.cut,
                // A single grapheme cluster longer than a message.
                None => Cut {
                    pos: line.start + char_cut(line.text, available),
                    open,
                },
            },
        }
    }
}

/// Returns where to cut a line so that at most `available` characters come before: at the end of a sentence or word
/// if at least `min_chars` come before it, else between two grapheme clusters.
fn cut_within_line(line: &str, available: usize, min_chars: usize) -> Option<usize> {
    let (mut sentence_end_pos, mut word_end, mut cluster) = (None, None, None);
    let mut size = 0;
    let mut sentence_end = SentenceEnd::No;
    for (pos, grapheme) in line.grapheme_indices(true) {
        if pos > 0 {
            let is_blank = grapheme.trim().is_empty();
            let ends_sentence = match sentence_end {
                SentenceEnd::No => false,
                // A period within a number or a name ends no sentence.
                SentenceEnd::IfFollowedByBlank => is_blank,
                SentenceEnd::Yes => !is_closing_punctuation(grapheme) && !is_sentence_end(grapheme),
            };
            if size >= min_chars && ends_sentence {
                sentence_end_pos = Some(pos);
            }
            if size >= min_chars && is_blank {
                word_end = Some(pos);
            }
            cluster = Some(pos);
        }
        sentence_end = sentence_end.advance(grapheme);
        size += utf16_len(grapheme);
        if size > available {
            break;
        }
    }
    sentence_end_pos.or(word_end).or(cluster)
}

/// State of sentence-end detection.
#[derive(Clone, Copy)]
enum SentenceEnd {
    No,
    IfFollowedByBlank,
    Yes,
}

impl SentenceEnd {
    fn advance(self, grapheme: &str) -> Self {
        match (self, grapheme) {
            (_, "。" | "！" | "？" | "．" | "｡") => Self::Yes,
            (_, "." | "!" | "?" | "…") => Self::IfFollowedByBlank,
            (ended, closing) if is_closing_punctuation(closing) => ended,
            _ => Self::No,
        }
    }
}

fn is_sentence_end(grapheme: &str) -> bool {
    matches!(grapheme, "。" | "！" | "？" | "．" | "｡")
}

/// Returns true for closing punctuation, which belongs to the preceding sentence.
fn is_closing_punctuation(grapheme: &str) -> bool {
    matches!(
        grapheme,
        "」" | "』" | "）" | "】" | "〉" | "》" | "”" | "’" | "\"" | "'" | ")" | "]" | "*" | "_"
    )
}

/// Returns how many bytes of complete characters fit, at least one character.
fn char_cut(line: &str, available: usize) -> usize {
    let first = line.chars().next().map_or(0, char::len_utf8);
    prefix_within(line, available).len().max(first)
}

#[cfg(test)]
mod tests;
