//! Converts Markdown to Slack's mrkdwn. mrkdwn has no headings, tables or nested emphasis of one kind: headings become
//! bold lines, tables become code blocks.

use super::escape;
use super::escape_mentions::starts_with_ignore_case;
use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};
use std::borrow::Cow;
use std::ops::Range;

/// Maximum length of the prefix that a line within a block repeats. Markdown does not require the markers of nested
/// quotes and lists on the continuation lines of a paragraph, so short lines would become long ones.
const MAX_CONTINUATION_PREFIX: usize = 64;

/// A noncharacter, which no text contains, to separate emphasis markers from punctuation while parsing.
const SEPARATOR: char = '\u{fdd0}';

/// Converts Markdown to mrkdwn.
pub(in crate::reply) fn mrkdwn(text: &str) -> String {
    let source = allow_emphasis_at_cjk_punctuation(text);
    let options = Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TABLES;
    let mut writer = MrkdwnWriter::new(&source);
    for (event, range) in Parser::new_ext(&source, options).into_offset_iter() {
        writer.write_event(event, range);
    }
    writer.out.replace(SEPARATOR, "")
}

/// Inserts separators between emphasis markers and fullwidth punctuation. CommonMark does not recognize the emphasis in
/// `**「重要」**です` otherwise, because it expects spaces between words.
fn allow_emphasis_at_cjk_punctuation(text: &str) -> Cow<'_, str> {
    let is_marker = |c: char| matches!(c, '*' | '~');
    let is_punctuation = |c: char| matches!(c, '\u{3001}'..='\u{303f}' | '\u{ff01}'..='\u{ff65}');
    let pairs = || text.chars().zip(text.chars().skip(1));
    let needs_separator =
        |a: char, b: char| is_marker(a) && is_punctuation(b) || is_punctuation(a) && is_marker(b);
    if !pairs().any(|(a, b)| needs_separator(a, b)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 64);
    out.extend(text.chars().next());
    for (a, b) in pairs() {
        if needs_separator(a, b) {
            out.push(SEPARATOR);
        }
        out.push(b);
    }
    Cow::Owned(out)
}

/// State of the line that is being written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineState {
    /// Only the markers of quotes and lists; the next block continues this line.
    Markers,
    /// Inline content, which may continue.
    Inline,
    /// End of a block.
    Ended,
}

/// A link or image that is being read. Its label is plain text.
struct OpenLink {
    address: String,
    label: String,
    /// Number of open links and images, as an image can be inside a link.
    depth: usize,
}

/// mrkdwn writer.
struct MrkdwnWriter<'a> {
    source: &'a str,
    out: String,
    line: LineState,
    /// Markers of the open quotes, and indentation of the open list items.
    prefix: String,
    /// Length of the prefix before each open quote and item.
    outer_prefixes: Vec<usize>,
    /// Number of the next item of each open list; none for bullets.
    lists: Vec<Option<u64>>,
    /// Content of the open code or HTML block.
    block_text: Option<String>,
    link: Option<OpenLink>,
    in_heading: bool,
    in_table: bool,
    /// Number of open bold and struck elements: nested ones would end the outer one.
    bold: usize,
    italic: usize,
    struck: usize,
}

impl<'a> MrkdwnWriter<'a> {
    fn new(source: &'a str) -> Self {
        Self {
            source,
            out: String::with_capacity(source.len()),
            line: LineState::Markers,
            prefix: String::new(),
            outer_prefixes: Vec::new(),
            lists: Vec::new(),
            block_text: None,
            link: None,
            in_heading: false,
            in_table: false,
            bold: 0,
            italic: 0,
            struck: 0,
        }
    }

    fn write_event(&mut self, event: Event<'_>, range: Range<usize>) {
        if self.in_table {
            self.in_table = event != Event::End(TagEnd::Table);
            return;
        }
        match event {
            Event::Start(tag) => self.start(tag, range),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::InlineHtml(text) | Event::Html(text) => {
                self.write_text(&text);
            }
            Event::Code(text) => {
                self.write_marker("`");
                self.write_text(&text);
                self.write_marker("`");
            }
            Event::SoftBreak | Event::HardBreak => self.write_text("\n"),
            Event::Rule => {
                self.begin_block(range.start);
                self.out.push_str("──────────");
                self.line = LineState::Ended;
            }
            _ => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>, range: Range<usize>) {
        match tag {
            Tag::Paragraph => self.begin_block(range.start),
            Tag::Heading { .. } => {
                self.begin_block(range.start);
                self.in_heading = true;
                self.open_emphasis("*", |writer| &mut writer.bold);
            }
            Tag::BlockQuote(_) => self.open_container(range.start, "> ", "> "),
            Tag::List(first) => self.lists.push(first),
            Tag::Item => {
                let marker = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number += 1;
                        format!("{}. ", *number - 1)
                    }
                    _ => "• ".to_owned(),
                };
                let indent = " ".repeat(marker.chars().count());
                self.open_container(range.start, &marker, &indent);
            }
            Tag::CodeBlock(_) | Tag::HtmlBlock => {
                self.begin_block(range.start);
                self.block_text = Some(String::new());
            }
            Tag::Table(_) => {
                self.begin_block(range.start);
                let rows = self.source.get(range).unwrap_or_default().lines();
                // The markers of quotes are not part of the rows.
                let rows: Vec<&str> = rows.map(|row| row.trim_start_matches(['>', ' '])).collect();
                self.write_code_block(&rows.join("\n"));
                self.in_table = true;
            }
            Tag::Strong => self.open_emphasis("*", |writer| &mut writer.bold),
            Tag::Emphasis => self.open_emphasis("_", |writer| &mut writer.italic),
            Tag::Strikethrough => self.open_emphasis("~", |writer| &mut writer.struck),
            Tag::Link {
                link_type,
                dest_url,
                ..
            } => self.open_link(link_type, &dest_url),
            Tag::Image {
                link_type,
                dest_url,
                ..
            } => self.open_link(link_type, &dest_url),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.line = LineState::Ended,
            TagEnd::Heading(_) => {
                self.close_emphasis("*", |writer| &mut writer.bold);
                self.in_heading = false;
                self.line = LineState::Ended;
            }
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.prefix
                    .truncate(self.outer_prefixes.pop().unwrap_or_default());
                self.line = LineState::Ended;
            }
            TagEnd::List(_) => {
                self.lists.pop();
            }
            TagEnd::CodeBlock => {
                let code = self.block_text.take().unwrap_or_default();
                self.write_code_block(&code);
            }
            TagEnd::HtmlBlock => {
                let html = self.block_text.take().unwrap_or_default();
                self.write_text(html.trim_end_matches('\n'));
                self.line = LineState::Ended;
            }
            TagEnd::Strong => self.close_emphasis("*", |writer| &mut writer.bold),
            TagEnd::Emphasis => self.close_emphasis("_", |writer| &mut writer.italic),
            TagEnd::Strikethrough => self.close_emphasis("~", |writer| &mut writer.struck),
            TagEnd::Link | TagEnd::Image => self.close_link(),
            _ => {}
        }
    }

    /// Moves to the line of a block that starts at this offset. A blank line before it is kept.
    fn begin_block(&mut self, offset: usize) {
        if self.line != LineState::Markers {
            let before = self.source.get(..offset).unwrap_or_default();
            let content = before.trim_end_matches([' ', '\t', '\r', '\n', '>']);
            let gap = before.get(content.len()..).unwrap_or_default();
            if gap.matches('\n').count() > 1 {
                self.out.push('\n');
                self.out.push_str(self.prefix.trim_end());
            }
            self.out.push('\n');
            self.out.push_str(&self.prefix);
        }
        self.line = LineState::Inline;
    }

    /// Opens a quote or list item.
    fn open_container(&mut self, offset: usize, marker: &str, prefix: &str) {
        self.begin_block(offset);
        self.out.push_str(marker);
        self.outer_prefixes.push(self.prefix.len());
        self.prefix.push_str(prefix);
        self.line = LineState::Markers;
    }

    /// Starts a line within a block.
    fn break_line(&mut self) {
        let end = self.prefix.len().min(MAX_CONTINUATION_PREFIX);
        self.out.push('\n');
        self.out
            .push_str(self.prefix.get(..end).unwrap_or_default());
    }

    fn write_code_block(&mut self, code: &str) {
        self.out.push_str("```");
        for line in code.lines() {
            self.break_line();
            self.out.push_str(&escape(line));
        }
        self.break_line();
        self.out.push_str("```");
        self.line = LineState::Ended;
    }

    /// Writes text of the source.
    fn write_text(&mut self, text: &str) {
        if let Some(block) = &mut self.block_text {
            block.push_str(text);
        } else if let Some(link) = &mut self.link {
            link.label.push_str(text);
        } else {
            self.begin_inline();
            for (index, line) in text.split('\n').enumerate() {
                if index > 0 {
                    self.break_line();
                }
                // An asterisk would end the bold text of a heading.
                let line = match self.in_heading {
                    true => Cow::Owned(line.replace('*', "")),
                    false => Cow::Borrowed(line),
                };
                self.out.push_str(&escape(&line));
            }
        }
    }

    /// Writes a marker of mrkdwn. Labels of links have none.
    fn write_marker(&mut self, marker: &str) {
        if self.link.is_none() {
            self.begin_inline();
            self.out.push_str(marker);
        }
    }

    /// Moves to a new line if the last block has ended: text of a list item need not be in a paragraph.
    fn begin_inline(&mut self) {
        if self.line == LineState::Ended {
            self.break_line();
        }
        self.line = LineState::Inline;
    }

    fn open_emphasis(&mut self, marker: &str, depth: fn(&mut Self) -> &mut usize) {
        *depth(self) += 1;
        if *depth(self) == 1 {
            self.write_marker(marker);
        }
    }

    fn close_emphasis(&mut self, marker: &str, depth: fn(&mut Self) -> &mut usize) {
        *depth(self) = depth(self).saturating_sub(1);
        if *depth(self) == 0 {
            // A heading can be empty.
            match self.in_heading && self.out.ends_with(marker) {
                true => self.out.truncate(self.out.len() - marker.len()),
                false => self.write_marker(marker),
            }
        }
    }

    fn open_link(&mut self, link_type: LinkType, address: &str) {
        match &mut self.link {
            Some(outer) => outer.depth += 1,
            None => {
                let scheme = match link_type {
                    LinkType::Email => "mailto:",
                    _ => "",
                };
                self.link = Some(OpenLink {
                    address: format!("{scheme}{address}"),
                    label: String::new(),
                    depth: 1,
                });
            }
        }
    }

    fn close_link(&mut self) {
        let Some(mut link) = self.link.take() else {
            return;
        };
        link.depth -= 1;
        if link.depth > 0 {
            self.link = Some(link);
            return;
        }
        let OpenLink { address, label, .. } = link;
        let label = label.replace('|', "").replace('\n', " ");
        if !is_link_target(&address) {
            self.write_text(&label);
            if !address.is_empty() {
                self.write_text(&format!(" ({address})"));
            }
            return;
        }
        self.begin_inline();
        self.out.push('<');
        self.out.push_str(&escape(&address).replace('|', "%7C"));
        if !label.trim().is_empty() && label != address {
            self.out.push('|');
            self.out.push_str(&escape(&label));
        }
        self.out.push('>');
    }
}

/// Returns true for http(s) and mailto links; other `<…>` sequences have a meaning in Slack.
fn is_link_target(address: &str) -> bool {
    let schemes = ["https://", "http://", "mailto:"];
    schemes
        .iter()
        .any(|scheme| starts_with_ignore_case(address, scheme))
        && !address.contains(|c: char| c.is_whitespace() || c.is_control())
}
