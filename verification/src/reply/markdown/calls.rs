//! Slack's special forms in a text that is not ours: calls of people and channels, dates, and whatever else
//! stands between `<` and `>` and begins with a sign. They are found however they are spelled, so that none
//! stays whole, and a text that grows waits where one may begin.

use std::borrow::Cow;

/// What stands behind the sign that opens a form, so that it is none. It cannot be seen and breaks no line.
pub(super) const JOINER: char = '\u{2060}';

/// What begins with `<!` and is none of Slack's forms: pages and their grammars.
const HARMLESS: &[&str] = &[
    "--", "[", "doctype", "element", "entity", "attlist", "notation",
];

/// Signs by the names that Markdown takes for them.
const NAMED: &[(&str, char)] = &[("lt", '<'), ("excl", '!'), ("commat", '@'), ("num", '#')];

/// What a look at the beginning of a text finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found<T> {
    /// It is there.
    Yes(T),
    /// It is not, whatever comes.
    No,
    /// It depends on what comes.
    Perhaps,
}

/// A text without a form of Slack's. An agent's words must not wake a whole channel, nor look like
/// something that only Slack can say; and Slack reads its forms within Markdown too.
pub(in crate::reply) fn defuse(text: &str) -> Cow<'_, str> {
    let mut safe = String::new();
    let mut copied = 0;
    for (at, _) in text.match_indices(['<', '&']) {
        if let Found::Yes(opener) = form(text.get(at..).unwrap_or_default()) {
            let until = at + opener;
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

/// As much of a growing text as can be defused already: what may become a form waits, and what is left
/// then is looked at in the same way.
pub(in crate::reply) fn settled(text: &str) -> &str {
    let mut open = text;
    let mut decided = 0;
    for (at, _) in text.rmatch_indices(['<', '&']) {
        if form(open.get(at..).unwrap_or_default()) == Found::Perhaps {
            open = text.get(..at).unwrap_or_default();
            decided = 0;
        } else {
            decided += 1;
        }
        // A form that is open at the end begins with two of these signs at most.
        if decided == 2 {
            break;
        }
    }
    open
}

/// Whether a form begins here, and how many bytes its opening sign takes.
fn form(text: &str) -> Found<usize> {
    let (opener, behind) = match sign(text) {
        Found::Yes(('<', length)) => (length, text.get(length..).unwrap_or_default()),
        Found::Yes(_) | Found::No => return Found::No,
        Found::Perhaps => return Found::Perhaps,
    };
    let (mark, word) = match sign(unstroked(behind)) {
        Found::Yes((mark, length)) => (mark, unstroked(behind).get(length..).unwrap_or_default()),
        Found::No => return Found::No,
        Found::Perhaps => return Found::Perhaps,
    };
    match begins(mark, unstroked(word)) {
        Found::Yes(()) => Found::Yes(opener),
        Found::No => Found::No,
        Found::Perhaps => Found::Perhaps,
    }
}

/// Without the strokes that Markdown drops.
fn unstroked(text: &str) -> &str {
    text.trim_start_matches('\\')
}

/// Whether what follows a sign makes a form of it.
fn begins(mark: char, word: &str) -> Found<()> {
    if mark == '<' {
        return Found::No;
    }
    let Some(first) = word.chars().next() else {
        return Found::Perhaps;
    };
    let harmless = |known: &&str| starts_with(word, known);
    let unsure = |known: &&str| word.len() < known.len() && starts_with(known, word);
    if mark == '!' && HARMLESS.iter().any(unsure) {
        return Found::Perhaps;
    }
    let one_of = |letters: &[char]| letters.contains(&first.to_ascii_lowercase());
    let yes = match mark {
        // A letter that is spelled out has something to hide.
        _ if first == '&' => true,
        '!' => first.is_alphanumeric() && !HARMLESS.iter().any(harmless),
        // People, bots and groups of people.
        '@' => one_of(&['u', 'w', 'b', 's']),
        // Channels.
        _ => one_of(&['c', 'g', 'd']),
    };
    if yes { Found::Yes(()) } else { Found::No }
}

/// The sign at the beginning, and how many bytes it takes: as it is, or as Markdown lets it be spelled.
fn sign(text: &str) -> Found<(char, usize)> {
    let Some(first) = text.chars().next() else {
        return Found::Perhaps;
    };
    match first {
        '<' | '!' | '@' | '#' => Found::Yes((first, 1)),
        '&' => spelled(text.get(1..).unwrap_or_default()),
        _ => Found::No,
    }
}

/// A sign that is spelled by its name or its number, after the `&`.
fn spelled(text: &str) -> Found<(char, usize)> {
    if let Some(rest) = text.strip_prefix('#') {
        return match rest.strip_prefix(['x', 'X']) {
            Some(digits) => numbered(digits, 16, 3),
            None => numbered(rest, 10, 2),
        };
    }
    let rest = text.trim_start_matches(|sign: char| sign.is_ascii_alphabetic());
    let name = text.get(..text.len() - rest.len()).unwrap_or_default();
    let known = |(known, _): &&(&str, char)| name.eq_ignore_ascii_case(known);
    if let Some((_, sign)) = NAMED.iter().find(known) {
        return Found::Yes((*sign, 1 + name.len() + usize::from(rest.starts_with(';'))));
    }
    let unsure = rest.is_empty() && NAMED.iter().any(|(known, _)| starts_with(known, name));
    if unsure { Found::Perhaps } else { Found::No }
}

/// A sign by its number, with so many bytes before it.
fn numbered(text: &str, radix: u32, before: usize) -> Found<(char, usize)> {
    let rest = text.trim_start_matches(|sign: char| sign.is_digit(radix));
    let length = text.len() - rest.len();
    // However many zeros stand before it.
    let number = text.get(..length).unwrap_or_default();
    let number = number.trim_start_matches('0');
    let value = match number.len() {
        0 => 0,
        1 | 2 => u32::from_str_radix(number, radix).unwrap_or(u32::MAX),
        _ => u32::MAX,
    };
    match char::from_u32(value) {
        Some(sign @ ('<' | '!' | '@' | '#')) => {
            Found::Yes((sign, before + length + usize::from(rest.starts_with(';'))))
        }
        // The next digit may make one of it.
        _ if rest.is_empty() && number.len() < 2 => Found::Perhaps,
        _ => Found::No,
    }
}

pub(super) fn starts_with(text: &str, start: &str) -> bool {
    text.get(..start.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(start))
}
