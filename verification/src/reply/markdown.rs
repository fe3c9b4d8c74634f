//! Markdown on its way to Slack: defused for the blocks that take Markdown as it is, and put into
//! Slack's own form for the text beside them. Where a text is cut is not decided here.

mod inline;

use super::split::{closes, fence, is_rule};
use std::borrow::Cow;

/// What stands between the signs of a mention so that it is none. It cannot be seen and breaks no line.
const JOINER: char = '\u{2060}';

/// What calls people, after the sign that opens it.
const CALLS: &[&str] = &[
    "!channel",
    "!here",
    "!everyone",
    "!group",
    "!subteam",
    "@u",
    "@w",
    "@b",
];

/// The sign that opens a call, as it is and as it is escaped.
const OPENERS: &[&str] = &["<", "&lt;"];

/// A text that calls nobody. An agent's words must not wake a whole channel, and Slack reads mentions
/// within Markdown too.
pub(super) fn defuse(text: &str) -> Cow<'_, str> {
    let mut safe = String::new();
    let mut copied = 0;
    for (at, _) in text.match_indices(['<', '&']) {
        let rest = text.get(at..).unwrap_or_default();
        let Some(opener) = OPENERS.iter().find(|opener| rest.starts_with(**opener)) else {
            continue;
        };
        let after = rest.get(opener.len()..).unwrap_or_default();
        if CALLS.iter().any(|call| starts_with(after, call)) {
            let until = at + opener.len();
            safe.push_str(text.get(copied..until).unwrap_or_default());
            safe.push(JOINER);
            copied = until;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    safe.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(safe)
}

/// As much of a growing text as can be defused already: what may become a call waits.
pub(super) fn settled(text: &str) -> &str {
    let Some(at) = text.rfind(['<', '&']) else {
        return text;
    };
    let tail = text.get(at..).unwrap_or_default();
    let may_become = OPENERS.iter().any(|opener| {
        CALLS.iter().any(|call| {
            let whole = format!("{opener}{call}");
            whole.len() > tail.len() && starts_with(&whole, tail)
        })
    });
    if may_become {
        text.get(..at).unwrap_or_default()
    } else {
        text
    }
}

fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(start))
}

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
    if let Some(quoted) = body.strip_prefix('>') {
        return format!("> {}", plain(quoted.strip_prefix(' ').unwrap_or(quoted)));
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
