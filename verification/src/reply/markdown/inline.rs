//! Converts inline Markdown (emphasis, code, links) to mrkdwn.

mod lookahead;

use super::escape;
use lookahead::{DelimiterIndex, MARKERS};

/// Maximum nesting depth of emphasis; deeper markers are shown as they are.
const MAX_EMPHASIS_DEPTH: usize = 8;

/// Opening and closing mrkdwn markers for each of [`MARKERS`].
const EMPHASIS: [(&str, &str); MARKERS.len()] = [
    ("*_", "_*"),
    ("*", "*"),
    ("*", "*"),
    ("~", "~"),
    ("_", "_"),
    ("_", "_"),
];

/// Converts a line to mrkdwn.
pub(super) fn convert(line: &str) -> String {
    let mut out = String::new();
    write_line(line, 0, &mut out);
    out
}

fn write_line(line: &str, depth: usize, out: &mut String) {
    let mut index = DelimiterIndex::new(line);
    let mut pos = 0;
    while let Some(remaining) = line.get(pos..)
        && let Some(c) = remaining.chars().next()
    {
        let next_pos = match c {
            '\\' => write_escaped(remaining, out).map(|len| pos + len),
            '`' => write_code(line, pos, &mut index, out),
            '[' => write_link(line, pos, &mut index, out),
            '!' if remaining.starts_with("![") => write_link(line, pos + 1, &mut index, out),
            '<' => write_autolink(line, pos, &mut index, out),
            '*' | '_' | '~' if depth < MAX_EMPHASIS_DEPTH => {
                write_emphasis(line, pos, depth, &mut index, out)
            }
            _ => None,
        };
        pos = next_pos.unwrap_or_else(|| {
            let len = c.len_utf8();
            out.push_str(&escape(remaining.get(..len).unwrap_or_default()));
            pos + len
        });
    }
}

/// Writes a backslash-escaped character.
fn write_escaped(remaining: &str, out: &mut String) -> Option<usize> {
    let c = remaining
        .chars()
        .nth(1)
        .filter(char::is_ascii_punctuation)?;
    out.push_str(&escape(c.encode_utf8(&mut [0; 4])));
    Some(1 + c.len_utf8())
}

/// Writes a code span unchanged.
fn write_code(
    line: &str,
    pos: usize,
    index: &mut DelimiterIndex<'_>,
    out: &mut String,
) -> Option<usize> {
    let (tick_count, end) = index.code_span(pos);
    let content = line.get(pos + tick_count..end?)?;
    out.push('`');
    out.push_str(&escape(content.trim()));
    out.push('`');
    Some(end? + tick_count)
}

/// Writes a link `[text](address)`.
fn write_link(
    line: &str,
    pos: usize,
    index: &mut DelimiterIndex<'_>,
    out: &mut String,
) -> Option<usize> {
    let (close, end) = index.link_ends(pos)?;
    let text = line.get(pos + 1..close)?;
    // The optional title after the address is not shown.
    let address = line.get(close + 2..end)?;
    let address = address.split_whitespace().next().unwrap_or("");
    let label: String = text.chars().filter(|c| *c != '|').collect();
    if is_link_target(address) && !address.contains(char::is_control) {
        out.push('<');
        out.push_str(&escape_address(address));
        if !label.trim().is_empty() {
            out.push('|');
            out.push_str(&escape(&label));
        }
        out.push('>');
    } else {
        out.push_str(&escape(&label));
        if !address.is_empty() {
            out.push_str(&format!(" ({})", escape(address)));
        }
    }
    Some(end + 1)
}

/// Writes an autolink `<address>`.
fn write_autolink(
    line: &str,
    pos: usize,
    index: &mut DelimiterIndex<'_>,
    out: &mut String,
) -> Option<usize> {
    let end = index.next_angle(pos)?;
    let address = line
        .get(pos + 1..end)
        .filter(|address| is_link_target(address))?;
    if index.next_non_address(pos).is_some_and(|gap| gap < end) {
        return None;
    }
    out.push_str(&format!("<{}>", escape_address(address)));
    Some(end + 1)
}

/// Returns true for http(s) and mailto links; other `<…>` sequences have a meaning in Slack.
fn is_link_target(address: &str) -> bool {
    let schemes = ["https://", "http://", "mailto:"];
    let starts = |scheme: &str| {
        address
            .get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    schemes.iter().any(|scheme| starts(scheme))
}

fn escape_address(address: &str) -> String {
    escape(address).replace('|', "%7C")
}

fn write_emphasis(
    line: &str,
    pos: usize,
    depth: usize,
    index: &mut DelimiterIndex<'_>,
    out: &mut String,
) -> Option<usize> {
    let before = line.get(..pos)?.chars().next_back();
    let in_word = before.is_some_and(char::is_alphanumeric);
    for (marker_index, (marker, (open, close))) in MARKERS.iter().zip(EMPHASIS).enumerate() {
        let Some(after) = line.get(pos..)?.strip_prefix(marker) else {
            continue;
        };
        if after.starts_with(char::is_whitespace) || (marker.starts_with('_') && in_word) {
            continue;
        }
        let content_start = pos + marker.len();
        if let Some(end) = index.emphasis_end(marker_index, content_start) {
            out.push_str(open);
            write_line(line.get(content_start..end)?, depth + 1, out);
            out.push_str(close);
            return Some(end + marker.len());
        }
    }
    None
}

#[cfg(test)]
mod tests;
