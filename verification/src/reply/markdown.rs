//! Markdown on its way to Slack: defused for the blocks that take Markdown as it is, and put into
//! Slack's own form for the text beside them. Where a text is cut is not decided here.

mod calls;
mod inline;

pub(super) use calls::{defuse, settled};

use super::split::{closes, fence, is_rule};
use std::borrow::Cow;

/// Markdown in Slack's own form.
pub(super) fn mrkdwn(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut out: Vec<String> = Vec::new();
    let mut open: Option<&str> = None;
    let mut rest = lines.iter().copied().enumerate();
    while let Some((number, line)) = rest.next() {
        if let Some(marker) = open {
            if closes(line, marker) {
                open = None;
                out.push("```".to_owned());
            } else {
                out.push(escape(line).into_owned());
            }
        } else if let Some(marker) = fence(line) {
            open = Some(marker);
            out.push("```".to_owned());
        } else if line.contains('|') && lines.get(number + 1).is_some_and(|under| is_rule(under)) {
            // Slack's own form has no tables.
            let rows = lines
                .iter()
                .skip(number + 1)
                .take_while(|row| row.contains('|'));
            let rows = rows.count();
            out.push("```".to_owned());
            out.push(escape(line).into_owned());
            for (_, row) in rest.by_ref().take(rows) {
                out.push(escape(row).into_owned());
            }
            out.push("```".to_owned());
        } else {
            out.push(plain(line));
        }
    }
    if open.is_some() {
        out.push("```".to_owned());
    }
    out.join("\n")
}

/// A line outside of code.
fn plain(line: &str) -> String {
    let mut line = line;
    let mut quotes = 0;
    // An answer says how deep quotes are in quotes, so they are peeled off one after another.
    while let Some(quoted) = line.trim_start().strip_prefix('>') {
        quotes += 1;
        line = quoted.strip_prefix(' ').unwrap_or(quoted);
    }
    format!("{}{}", "> ".repeat(quotes), unquoted(line))
}

/// A line outside of code and of quotes.
fn unquoted(line: &str) -> String {
    let body = line.trim_start();
    let indent = line.get(..line.len() - body.len()).unwrap_or_default();
    if let Some(title) = heading(body) {
        let title = inline::convert(title);
        let title = title.replace('*', "");
        return if title.trim().is_empty() {
            String::new()
        } else {
            format!("*{}*", title.trim())
        };
    }
    if is_break(body) {
        return "──────────".to_owned();
    }
    for bullet in ["- ", "* ", "+ "] {
        if let Some(item) = body.strip_prefix(bullet) {
            return format!("{indent}• {}", inline::convert(item));
        }
    }
    format!("{indent}{}", inline::convert(body))
}

fn heading(line: &str) -> Option<&str> {
    let title = line.trim_start_matches('#');
    let depth = line.len() - title.len();
    let ends = title.is_empty() || title.starts_with(' ');
    ((1..=6).contains(&depth) && ends).then(|| title.trim().trim_end_matches('#'))
}

/// Whether the line is one that is drawn across the page.
fn is_break(line: &str) -> bool {
    let signs: String = line.split_whitespace().collect();
    let all = |sign: char| signs.chars().all(|other| other == sign);
    signs.len() >= 3 && (all('-') || all('*') || all('_'))
}

/// With the three signs that Slack reads spelled out.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>']) {
        return Cow::Borrowed(text);
    }
    let spelled = text.replace('&', "&amp;").replace('<', "&lt;");
    Cow::Owned(spelled.replace('>', "&gt;"))
}

#[cfg(test)]
mod tests;
