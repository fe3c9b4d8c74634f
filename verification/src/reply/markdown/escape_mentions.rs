//! Escapes Slack's special sequences in untrusted text: mentions of users and channels, dates, and anything else of
//! the form `<!…>`, `<@…>` or `<#…>`. All spellings that Markdown allows are recognized, and text that is still
//! growing is cut where a sequence may begin.

use std::borrow::Cow;

/// WORD JOINER, inserted after the opening character to break a sequence. It is invisible and breaks no line.
pub(super) const WORD_JOINER: char = '\u{2060}';

/// Prefixes after `<!` that are HTML or DTD markup and not Slack sequences.
const MARKUP_PREFIXES: &[&str] = &[
    "--", "[", "doctype", "element", "entity", "attlist", "notation",
];

/// HTML entity names of the characters that matter.
const NAMED_ENTITIES: &[(&str, char)] =
    &[("lt", '<'), ("excl", '!'), ("commat", '@'), ("num", '#')];

/// Result of matching the beginning of a text that may be incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PrefixMatch<T> {
    /// The text matches.
    Yes(T),
    /// The text cannot match, even if it continues.
    No,
    /// The text is too short to decide.
    Incomplete,
}

/// Escapes Slack's special sequences. An agent's text must not notify a whole channel or imitate content that only
/// Slack can produce; Slack interprets these sequences in Markdown too.
pub(in crate::reply) fn escape_mentions(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut copied = 0;
    for (start, _) in text.match_indices(['<', '&']) {
        if let PrefixMatch::Yes(opener) = match_sequence(text.get(start..).unwrap_or_default()) {
            let opener_end = start + opener;
            out.push_str(text.get(copied..opener_end).unwrap_or_default());
            out.push(WORD_JOINER);
            copied = opener_end;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    out.push_str(text.get(copied..).unwrap_or_default());
    Cow::Owned(out)
}

/// Returns the prefix of a growing text that can be escaped already; text that may become a sequence is left out.
pub(in crate::reply) fn safe_prefix(text: &str) -> &str {
    let mut prefix = text;
    let mut decided = 0;
    for (start, _) in text.rmatch_indices(['<', '&']) {
        if match_sequence(prefix.get(start..).unwrap_or_default()) == PrefixMatch::Incomplete {
            prefix = text.get(..start).unwrap_or_default();
            decided = 0;
        } else {
            decided += 1;
        }
        // An incomplete sequence at the end contains at most two of these characters.
        if decided == 2 {
            break;
        }
    }
    prefix
}

/// Matches a special sequence; returns the byte length of its opening character.
fn match_sequence(text: &str) -> PrefixMatch<usize> {
    let (opener, after_opener) = match match_char(text) {
        PrefixMatch::Yes(('<', length)) => (length, text.get(length..).unwrap_or_default()),
        PrefixMatch::Yes(_) | PrefixMatch::No => return PrefixMatch::No,
        PrefixMatch::Incomplete => return PrefixMatch::Incomplete,
    };
    let (mark, body) = match match_char(strip_backslashes(after_opener)) {
        PrefixMatch::Yes((mark, length)) => (
            mark,
            strip_backslashes(after_opener)
                .get(length..)
                .unwrap_or_default(),
        ),
        PrefixMatch::No => return PrefixMatch::No,
        PrefixMatch::Incomplete => return PrefixMatch::Incomplete,
    };
    match match_body(mark, strip_backslashes(body)) {
        PrefixMatch::Yes(()) => PrefixMatch::Yes(opener),
        PrefixMatch::No => PrefixMatch::No,
        PrefixMatch::Incomplete => PrefixMatch::Incomplete,
    }
}

/// Strips backslashes, which Markdown drops.
fn strip_backslashes(text: &str) -> &str {
    text.trim_start_matches('\\')
}

/// Returns whether the text after `<` and its mark makes it a special sequence.
fn match_body(mark: char, body: &str) -> PrefixMatch<()> {
    if mark == '<' {
        return PrefixMatch::No;
    }
    let Some(first) = body.chars().next() else {
        return PrefixMatch::Incomplete;
    };
    let is_markup = |prefix: &&str| starts_with_ignore_case(body, prefix);
    let may_become_markup =
        |prefix: &&str| body.len() < prefix.len() && starts_with_ignore_case(prefix, body);
    if mark == '!' && MARKUP_PREFIXES.iter().any(may_become_markup) {
        return PrefixMatch::Incomplete;
    }
    let first_is_one_of = |chars: &[char]| chars.contains(&first.to_ascii_lowercase());
    let is_sequence = match mark {
        // An encoded letter is treated as an attempt to evade the check.
        _ if first == '&' => true,
        '!' => first.is_alphanumeric() && !MARKUP_PREFIXES.iter().any(is_markup),
        // Users, bots and user groups.
        '@' => first_is_one_of(&['u', 'w', 'b', 's']),
        // Channels.
        _ => first_is_one_of(&['c', 'g', 'd']),
    };
    if is_sequence {
        PrefixMatch::Yes(())
    } else {
        PrefixMatch::No
    }
}

/// Matches one of the characters that matter at the start, raw or as an entity; returns it and its byte length.
fn match_char(text: &str) -> PrefixMatch<(char, usize)> {
    let Some(first) = text.chars().next() else {
        return PrefixMatch::Incomplete;
    };
    match first {
        '<' | '!' | '@' | '#' => PrefixMatch::Yes((first, 1)),
        '&' => match_entity(text.get(1..).unwrap_or_default()),
        _ => PrefixMatch::No,
    }
}

/// Matches a named or numeric entity, after the `&`.
fn match_entity(text: &str) -> PrefixMatch<(char, usize)> {
    if let Some(rest) = text.strip_prefix('#') {
        return match rest.strip_prefix(['x', 'X']) {
            Some(digits) => match_numeric_entity(digits, 16, 3),
            None => match_numeric_entity(rest, 10, 2),
        };
    }
    let remaining = text.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let name = text.get(..text.len() - remaining.len()).unwrap_or_default();
    let matches_name = |(known, _): &&(&str, char)| name.eq_ignore_ascii_case(known);
    if let Some((_, c)) = NAMED_ENTITIES.iter().find(matches_name) {
        return PrefixMatch::Yes((*c, 1 + name.len() + usize::from(remaining.starts_with(';'))));
    }
    let may_become_name = remaining.is_empty()
        && NAMED_ENTITIES
            .iter()
            .any(|(known, _)| starts_with_ignore_case(known, name));
    if may_become_name {
        PrefixMatch::Incomplete
    } else {
        PrefixMatch::No
    }
}

/// Matches a numeric entity; `before` is the byte length of its prefix.
fn match_numeric_entity(text: &str, radix: u32, prefix_len: usize) -> PrefixMatch<(char, usize)> {
    let remaining = text.trim_start_matches(|c: char| c.is_digit(radix));
    let digits_len = text.len() - remaining.len();
    // Leading zeros are allowed.
    let digits = text.get(..digits_len).unwrap_or_default();
    let number = digits.trim_start_matches('0');
    let value = match number.len() {
        0 => 0,
        1 | 2 => u32::from_str_radix(number, radix).unwrap_or(u32::MAX),
        _ => u32::MAX,
    };
    match char::from_u32(value) {
        Some(c @ ('<' | '!' | '@' | '#')) => PrefixMatch::Yes((
            c,
            prefix_len + digits_len + usize::from(remaining.starts_with(';')),
        )),
        // The next digit may complete it.
        _ if remaining.is_empty() && number.len() < 2 => PrefixMatch::Incomplete,
        _ => PrefixMatch::No,
    }
}

pub(super) fn starts_with_ignore_case(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}
