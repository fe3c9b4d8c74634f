//! Scans the source for what the reference needs and the compiler cannot provide: names of constants with their
//! documentation, and string arguments of functions.

use super::{files, read_text};
use std::collections::BTreeSet;

/// Returns the text of a file without its tests.
pub(super) fn source_without_tests(path: &str) -> String {
    let text = read_text(path);
    let end = text.find("#[cfg(test)]\nmod tests {");
    text[..end.unwrap_or(text.len())].to_owned()
}

/// Returns the source files below a folder, without test files.
pub(super) fn source_files(folder: &str) -> Vec<String> {
    let is_source = |path: &String| !path.contains("/tests/") && !path.ends_with("tests.rs");
    files(folder, ".rs").into_iter().filter(is_source).collect()
}

/// Returns every line of a file for which `pick` returns a name, with the documentation above it.
pub(super) fn documented(
    path: &str,
    pick: impl Fn(&str) -> Option<String>,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut docs = Vec::new();
    // Code examples in the documentation are skipped.
    let mut fenced = false;
    for line in source_without_tests(path).lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("///") {
            if text.trim().starts_with("```") {
                fenced = !fenced;
            } else if !fenced {
                docs.push(text.trim().to_owned());
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

/// Returns the last string argument of each call of `function`, if it is an identifier such as `a_code`.
pub(super) fn last_string_arguments(text: &str, function: &str) -> BTreeSet<String> {
    let open = format!("{function}(");
    let calls = text.match_indices(&open);
    calls
        .filter(|(at, _)| !text[..*at].ends_with("fn "))
        .filter_map(|(at, _)| last_literal(bracket_content(&text[at + open.len()..])))
        .filter(|code| is_identifier(code))
        .collect()
}

/// Returns the text up to the closing bracket of the bracket opened just before.
fn bracket_content(text: &str) -> &str {
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
    let inner = text.strip_suffix('"')?;
    Some(inner[inner.rfind('"')? + 1..].to_owned())
}

pub(super) fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase())
        && text
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

#[test]
fn string_arguments_are_found_in_source() {
    let text = r#"fn no("x"); no(a("one", b), "two_words"); no(c); no("Three"); no(
        x,
        "four",
    )"#;
    let found: Vec<_> = last_string_arguments(text, "no").into_iter().collect();
    assert_eq!(found, ["four", "two_words"]);
}
