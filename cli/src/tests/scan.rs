//! Reads what the reference needs from the source where the compiler cannot be asked: names of constants,
//! their documentation, and words that are given to a function.

use super::{files, text_of};
use std::collections::BTreeSet;

/// The part of a file that ends up in the product.
pub(super) fn product(path: &str) -> String {
    let text = text_of(path);
    let end = text.find("#[cfg(test)]\nmod tests {");
    text[..end.unwrap_or(text.len())].to_owned()
}

/// The files of the product below a folder.
pub(super) fn products(folder: &str) -> Vec<String> {
    let ours = |path: &String| !path.contains("/tests/") && !path.ends_with("tests.rs");
    files(folder, ".rs").into_iter().filter(ours).collect()
}

/// Every line of a file that `pick` takes, with the documentation above it.
pub(super) fn documented(
    path: &str,
    pick: impl Fn(&str) -> Option<String>,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut docs = Vec::new();
    // An example in the documentation is none of its words.
    let mut fenced = false;
    for line in product(path).lines().map(str::trim) {
        if let Some(said) = line.strip_prefix("///") {
            if said.trim().starts_with("```") {
                fenced = !fenced;
            } else if !fenced {
                docs.push(said.trim().to_owned());
            }
            continue;
        }
        if let Some(name) = pick(line) {
            found.push((name, docs.join(" ").trim().to_owned()));
        }
        if !line.starts_with("#[") {
            docs.clear();
        }
    }
    found
}

/// The last string that each call of `function` is given, if it is a word of ours: `a_word`.
pub(super) fn last_words(text: &str, function: &str) -> BTreeSet<String> {
    let open = format!("{function}(");
    let calls = text.match_indices(&open);
    calls
        .filter(|(at, _)| !text[..*at].ends_with("fn "))
        .filter_map(|(at, _)| last_literal(inside(&text[at + open.len()..])))
        .filter(|word| is_word(word))
        .collect()
}

/// What is in a bracket that was opened just before.
fn inside(text: &str) -> &str {
    let (mut depth, mut quoted, mut escaped) = (1_usize, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '(' | '{' | '[' if !quoted => depth += 1,
            ')' | '}' | ']' if !quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &text[..at];
        }
    }
    text
}

fn last_literal(text: &str) -> Option<String> {
    let text = text.trim().trim_end_matches(',');
    let rest = text.strip_suffix('"')?;
    Some(rest[rest.rfind('"')? + 1..].to_owned())
}

pub(super) fn is_word(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
        && word
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[test]
fn what_stands_in_the_source_is_found() {
    let text = r#"fn no("x"); no(a("one", b), "two_words"); no(c); no("Three"); no(
        x,
        "four",
    )"#;
    let found: Vec<_> = last_words(text, "no").into_iter().collect();
    assert_eq!(found, ["four", "two_words"]);
}
