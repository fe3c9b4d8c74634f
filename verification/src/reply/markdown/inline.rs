//! What stands within a line of Markdown, in Slack's own form: emphasis, code, links.

mod ahead;

use super::escape;
use ahead::{Ahead, MARKERS};

/// How deep emphasis is followed into emphasis; beyond that its signs are shown.
const DEEPEST: usize = 8;

/// The [`MARKERS`] of emphasis in Slack's form.
const EMPHASIS: [(&str, &str); MARKERS.len()] = [
    ("*_", "_*"),
    ("*", "*"),
    ("*", "*"),
    ("~", "~"),
    ("_", "_"),
    ("_", "_"),
];

/// Puts a line into Slack's form.
pub(super) fn convert(line: &str) -> String {
    let mut out = String::new();
    write(line, 0, &mut out);
    out
}

fn write(line: &str, depth: usize, out: &mut String) {
    let mut ahead = Ahead::new(line);
    let mut at = 0;
    while let Some(rest) = line.get(at..)
        && let Some(sign) = rest.chars().next()
    {
        let end = match sign {
            '\\' => escaped(rest, out).map(|taken| at + taken),
            '`' => code(line, at, &mut ahead, out),
            '[' => link(line, at, &mut ahead, out),
            '!' if rest.starts_with("![") => link(line, at + 1, &mut ahead, out),
            '<' => autolink(line, at, &mut ahead, out),
            '*' | '_' | '~' if depth < DEEPEST => emphasis(line, at, depth, &mut ahead, out),
            _ => None,
        };
        at = end.unwrap_or_else(|| {
            let length = sign.len_utf8();
            out.push_str(&escape(rest.get(..length).unwrap_or_default()));
            at + length
        });
    }
}

/// A sign that is meant as it is.
fn escaped(rest: &str, out: &mut String) -> Option<usize> {
    let sign = rest.chars().nth(1).filter(char::is_ascii_punctuation)?;
    out.push_str(&escape(sign.encode_utf8(&mut [0; 4])));
    Some(1 + sign.len_utf8())
}

/// Code, with nothing in it changed.
fn code(line: &str, at: usize, ahead: &mut Ahead<'_>, out: &mut String) -> Option<usize> {
    let (length, end) = ahead.code(at);
    let inside = line.get(at + length..end?)?;
    out.push('`');
    out.push_str(&escape(inside.trim()));
    out.push('`');
    Some(end? + length)
}

/// `[words](address)`.
fn link(line: &str, at: usize, ahead: &mut Ahead<'_>, out: &mut String) -> Option<usize> {
    let (close, end) = ahead.link(at)?;
    let words = line.get(at + 1..close)?;
    // What follows the address is a title, which nobody sees.
    let address = line.get(close + 2..end)?;
    let address = address.split_whitespace().next().unwrap_or("");
    let shown: String = words.chars().filter(|sign| *sign != '|').collect();
    if is_address(address) && !address.contains(char::is_control) {
        out.push('<');
        out.push_str(&address_text(address));
        if !shown.trim().is_empty() {
            out.push('|');
            out.push_str(&escape(&shown));
        }
        out.push('>');
    } else {
        out.push_str(&escape(&shown));
        if !address.is_empty() {
            out.push_str(&format!(" ({})", escape(address)));
        }
    }
    Some(end + 1)
}

/// `<address>`.
fn autolink(line: &str, at: usize, ahead: &mut Ahead<'_>, out: &mut String) -> Option<usize> {
    let end = ahead.angle(at)?;
    let address = line
        .get(at + 1..end)
        .filter(|address| is_address(address))?;
    if ahead.gap(at).is_some_and(|gap| gap < end) {
        return None;
    }
    out.push_str(&format!("<{}>", address_text(address)));
    Some(end + 1)
}

/// Only what a browser or a mail program opens; whatever else Slack knows between `<` and `>` is no
/// address.
fn is_address(address: &str) -> bool {
    let known = ["https://", "http://", "mailto:"];
    let starts = |scheme: &str| {
        address
            .get(..scheme.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    known.iter().any(|scheme| starts(scheme))
}

fn address_text(address: &str) -> String {
    escape(address).replace('|', "%7C")
}

fn emphasis(
    line: &str,
    at: usize,
    depth: usize,
    ahead: &mut Ahead<'_>,
    out: &mut String,
) -> Option<usize> {
    let before = line.get(..at)?.chars().next_back();
    let in_word = before.is_some_and(char::is_alphanumeric);
    for (kind, (marker, (open, close))) in MARKERS.iter().zip(EMPHASIS).enumerate() {
        let Some(after) = line.get(at..)?.strip_prefix(marker) else {
            continue;
        };
        if after.starts_with(char::is_whitespace) || (marker.starts_with('_') && in_word) {
            continue;
        }
        let from = at + marker.len();
        if let Some(end) = ahead.emphasis(kind, from) {
            out.push_str(open);
            write(line.get(from..end)?, depth + 1, out);
            out.push_str(close);
            return Some(end + marker.len());
        }
    }
    None
}

#[cfg(test)]
mod tests;
