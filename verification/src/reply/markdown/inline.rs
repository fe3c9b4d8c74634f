//! What stands within a line of Markdown, in Slack's own form: emphasis, code, links.

use super::escape;

/// How deep emphasis is followed into emphasis; beyond that its signs are shown.
const DEEPEST: usize = 8;

/// Puts a line into Slack's form.
pub(super) fn convert(line: &str) -> String {
    let mut out = String::new();
    write(line, 0, &mut out);
    out
}

/// Emphasis in Markdown and in Slack's form, the longest signs first.
const EMPHASIS: &[(&str, &str, &str)] = &[
    ("***", "*_", "_*"),
    ("**", "*", "*"),
    ("__", "*", "*"),
    ("~~", "~", "~"),
    ("*", "_", "_"),
    ("_", "_", "_"),
];

fn write(line: &str, depth: usize, out: &mut String) {
    let mut rest = line;
    let mut before = None;
    while let Some(sign) = rest.chars().next() {
        let taken = match sign {
            '\\' => escaped(rest, out),
            '`' => code(rest, out),
            '[' => link(rest, out),
            '!' if rest.starts_with("![") => {
                let tail = rest.get(1..).unwrap_or_default();
                link(tail, out).map(|taken| taken + 1)
            }
            '<' => autolink(rest, out),
            '*' | '_' | '~' if depth < DEEPEST => emphasis(rest, before, depth, out),
            _ => None,
        };
        let taken = taken.unwrap_or_else(|| {
            let length = sign.len_utf8();
            out.push_str(&escape(rest.get(..length).unwrap_or_default()));
            length
        });
        let (done, left) = rest.split_at(taken);
        before = done.chars().next_back();
        rest = left;
    }
}

/// A sign that is meant as it is.
fn escaped(rest: &str, out: &mut String) -> Option<usize> {
    let sign = rest.chars().nth(1).filter(char::is_ascii_punctuation)?;
    out.push_str(&escape(sign.encode_utf8(&mut [0; 4])));
    Some(1 + sign.len_utf8())
}

/// Code, with nothing in it changed.
fn code(rest: &str, out: &mut String) -> Option<usize> {
    let length = rest.len() - rest.trim_start_matches('`').len();
    let (marker, after) = rest.split_at(length);
    let mut from = 0;
    let end = loop {
        let found = from + after.get(from..)?.find(marker)?;
        let run = after.get(found..)?;
        let run = run.len() - run.trim_start_matches('`').len();
        if run == length {
            break found;
        }
        from = found + run;
    };
    let inside = after.get(..end)?;
    out.push('`');
    out.push_str(&escape(inside.trim()));
    out.push('`');
    Some(length + end + length)
}

/// `[words](address)`.
fn link(rest: &str, out: &mut String) -> Option<usize> {
    let close = rest.find("](")?;
    let words = rest.get(1..close)?;
    let tail = rest.get(close + 2..)?;
    let mut depth = 1_usize;
    let end = tail.char_indices().find_map(|(at, sign)| {
        match sign {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })?;
    // What follows the address is a title, which nobody sees.
    let address = tail.get(..end)?.split_whitespace().next().unwrap_or("");
    let shown: String = words.chars().filter(|sign| *sign != '|').collect();
    if is_address(address) {
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
    Some(close + 2 + end + 1)
}

/// `<address>`.
fn autolink(rest: &str, out: &mut String) -> Option<usize> {
    let end = rest.find('>')?;
    let address = rest.get(1..end).filter(|address| is_address(address))?;
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
        && !address.contains(|sign: char| sign.is_whitespace() || sign.is_control())
}

fn address_text(address: &str) -> String {
    escape(address).replace('|', "%7C")
}

fn emphasis(rest: &str, before: Option<char>, depth: usize, out: &mut String) -> Option<usize> {
    for (marker, open, close) in EMPHASIS {
        let Some(after) = rest.strip_prefix(marker) else {
            continue;
        };
        let word = |sign: Option<char>| sign.is_some_and(char::is_alphanumeric);
        let underscore = marker.starts_with('_');
        if after.starts_with(char::is_whitespace) || (underscore && word(before)) {
            continue;
        }
        let ends = |at: &usize| {
            let inside = after.get(..*at).unwrap_or_default();
            let behind = after.get(at + marker.len()..).unwrap_or_default();
            let next = behind.chars().next();
            let same = marker.chars().next();
            let blank = inside.is_empty() || inside.ends_with(char::is_whitespace);
            let escaped = inside.ends_with('\\');
            let goes_on = underscore && word(next);
            // One sign among two or three of them is none of its own.
            let alone = marker.len() > 1 || (next != same && inside.chars().next_back() != same);
            alone && !blank && !escaped && !goes_on
        };
        let end = after.match_indices(marker).map(|(at, _)| at).find(ends);
        if let Some(inside) = end.and_then(|end| after.get(..end)) {
            out.push_str(open);
            write(inside, depth + 1, out);
            out.push_str(close);
            return Some(marker.len() + inside.len() + marker.len());
        }
    }
    None
}
