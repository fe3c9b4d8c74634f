//! Markdown conversion for Slack: escapes mentions for blocks that accept Markdown, and converts to Slack's mrkdwn
//! for the fallback text.

mod escape_mentions;
mod inline;

pub(super) use escape_mentions::{escape_mentions, safe_prefix};

use super::split::{closes_fence, is_table_delimiter, opening_fence};
use std::borrow::Cow;

/// Converts Markdown to Slack's mrkdwn.
pub(super) fn mrkdwn(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut out: Vec<String> = Vec::new();
    let mut open: Option<&str> = None;
    let mut remaining = lines.iter().copied().enumerate();
    while let Some((index, line)) = remaining.next() {
        if let Some(marker) = open {
            if closes_fence(line, marker) {
                open = None;
                out.push("```".to_owned());
            } else {
                out.push(escape(line).into_owned());
            }
        } else if let Some(opening) = opening_fence(line) {
            open = Some(opening);
            out.push("```".to_owned());
        } else if line.contains('|')
            && lines
                .get(index + 1)
                .is_some_and(|next_line| is_table_delimiter(next_line))
        {
            // mrkdwn has no tables, so they become code blocks.
            let rows = lines
                .iter()
                .skip(index + 1)
                .take_while(|row| row.contains('|'));
            let rows = rows.count();
            out.push("```".to_owned());
            out.push(escape(line).into_owned());
            for (_, row) in remaining.by_ref().take(rows) {
                out.push(escape(row).into_owned());
            }
            out.push("```".to_owned());
        } else {
            out.push(convert_line(line));
        }
    }
    if open.is_some() {
        out.push("```".to_owned());
    }
    out.join("\n")
}

/// Converts a line outside code blocks.
fn convert_line(line: &str) -> String {
    let mut line = line;
    let mut quotes = 0;
    // Quotes can be nested to any depth, so this is a loop and not a recursion.
    while let Some(quoted) = line.trim_start().strip_prefix('>') {
        quotes += 1;
        line = quoted.strip_prefix(' ').unwrap_or(quoted);
    }
    format!("{}{}", "> ".repeat(quotes), convert_unquoted_line(line))
}

/// Converts a line outside code blocks and quotes.
fn convert_unquoted_line(line: &str) -> String {
    let body = line.trim_start();
    let indent = line.get(..line.len() - body.len()).unwrap_or_default();
    if let Some(title) = heading_title(body) {
        let title = inline::convert(title);
        let title = title.replace('*', "");
        return if title.trim().is_empty() {
            String::new()
        } else {
            format!("*{}*", title.trim())
        };
    }
    if is_thematic_break(body) {
        return "──────────".to_owned();
    }
    for bullet in ["- ", "* ", "+ "] {
        if let Some(item) = body.strip_prefix(bullet) {
            return format!("{indent}• {}", inline::convert(item));
        }
    }
    format!("{indent}{}", inline::convert(body))
}

fn heading_title(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#');
    let depth = line.len() - title.len();
    let has_separator = title.is_empty() || title.starts_with(' ');
    ((1..=6).contains(&depth) && has_separator).then(|| title.trim().trim_end_matches('#'))
}

/// Returns true for a thematic break (`---`, `***`, `___`).
fn is_thematic_break(line: &str) -> bool {
    let chars: String = line.split_whitespace().collect();
    let is_all = |c: char| chars.chars().all(|other| other == c);
    chars.len() >= 3 && (is_all('-') || is_all('*') || is_all('_'))
}

/// Escapes `&`, `<` and `>` for mrkdwn.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>']) {
        return Cow::Borrowed(text);
    }
    let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
    Cow::Owned(escaped.replace('>', "&gt;"))
}

#[cfg(test)]
mod tests;
