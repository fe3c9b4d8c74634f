//! Rules about wording: identifiers and sentences use terms of art.

use crate::source::{SourceFile, is_word};
use crate::tree::{Finding, collect_findings};
use std::collections::BTreeMap;

/// Words that must not be part of a defined name: metaphors and participles that replaced a term of art.
const BANNED_PARTS: &[&str] = &[
    "told",
    "said",
    "heard",
    "came",
    "desk",
    "seat",
    "seats",
    "shelf",
    "errand",
    "errands",
    "bell",
    "bells",
    "farewell",
    "patience",
    "mishap",
    "newborn",
    "newcomer",
    "whoever",
    "nobody",
    "somebody",
    "door",
    "doors",
    "carrier",
    "complaint",
    "keeper",
    "talks",
    "papers",
];

/// Words that must not be a complete name; as a part of a name they are allowed.
const BANNED_NAMES: &[&str] = &[
    "of", "known", "kept", "looked", "carried", "floor", "paper", "letters", "heart", "pulse",
    "trouble", "whole", "beside", "begun", "asking",
];

/// Words that must not be the complete name of an item; for a local variable they are allowed.
const BANNED_ITEM_NAMES: &[&str] = &[
    "at", "by", "with", "to", "seen", "rest", "room", "place", "asked", "shown", "passed", "taken",
    "arrived", "moment", "around", "ahead", "left", "found", "written", "word", "words",
];

/// Phrases that must not occur in comments, strings and Markdown.
const BANNED_PHRASES: &[&str] = &[
    "nobody",
    "somebody",
    "whoever",
    "anybody",
    "everybody",
    "anew",
    "in vain",
    "what came of",
    "call off",
    "called off",
    "calls off",
];

/// Keywords that are followed by the name of a definition.
const DEFINING: &[&str] = &[
    "fn", "struct", "enum", "union", "trait", "type", "mod", "const", "static", "let",
];

/// Returns the keywords and names of the definitions in a line.
fn defined_names(code: &str) -> impl Iterator<Item = (&str, &str)> {
    let words: Vec<&str> = code
        .split(|c| !is_word(c))
        .filter(|word| !word.is_empty())
        .collect();
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        if !DEFINING.contains(word) {
            continue;
        }
        let mut names = words[index + 1..].iter();
        if let Some(name) = names.find(|name| !matches!(**name, "mut" | "ref" | "fn")) {
            found.push((*word, *name));
        }
    }
    found.into_iter()
}

/// Splits `RunOutput`, `run_output` and `RUN_OUTPUT` into `run` and `output`.
fn split_name(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut after_lower = false;
    for c in name.chars() {
        if c == '_' {
            parts.push(String::new());
            after_lower = false;
            continue;
        }
        if parts.is_empty() || (c.is_uppercase() && after_lower) {
            parts.push(String::new());
        }
        after_lower = c.is_lowercase() || c.is_numeric();
        if let Some(part) = parts.last_mut() {
            part.extend(c.to_lowercase());
        }
    }
    parts
}

/// Exempt file: this one, which lists the banned words.
const EXEMPT: &str = "tests/tests/tidy/wording.rs";

fn is_banned(name: &str, is_item: bool) -> bool {
    let name = name.to_lowercase();
    BANNED_NAMES.contains(&name.as_str()) || (is_item && BANNED_ITEM_NAMES.contains(&name.as_str()))
}

fn has_banned_part(name: &str) -> bool {
    split_name(name)
        .iter()
        .any(|part| BANNED_PARTS.contains(&part.as_str()))
}

/// Names are made of terms of art.
pub(crate) fn has_plain_names(source: &SourceFile) -> Vec<Finding> {
    if source.path == EXEMPT {
        return Vec::new();
    }
    collect_findings(source, source.lines.iter(), |line| {
        defined_names(&line.code).find_map(|(keyword, name)| {
            let banned = is_banned(name, keyword != "let") || has_banned_part(name);
            banned.then(|| format!("the name `{name}`"))
        })
    })
}

/// Files are named by terms of art.
pub(crate) fn has_plain_file_name(source: &SourceFile) -> Vec<Finding> {
    let names = source.path.trim_end_matches(".rs").split('/');
    names
        .filter(|name| is_banned(name, true) || has_banned_part(name))
        .map(|name| Finding::new(&source.path, 1, format!("the file name `{name}`")))
        .collect()
}

/// Comments and strings name the actor and the action.
pub(crate) fn has_plain_sentences(source: &SourceFile) -> Vec<Finding> {
    if source.path == EXEMPT {
        return Vec::new();
    }
    collect_findings(source, source.lines.iter(), |line| {
        banned_phrase(&line.comment).or_else(|| banned_phrase(&line.text))
    })
}

/// Documents name the actor and the action. Table rows that quote a sentence to avoid start with `| ✗`.
pub(crate) fn has_plain_prose(path: &str, text: &str) -> Vec<Finding> {
    text.lines()
        .zip(1..)
        .filter(|(line, _)| !line.starts_with("| ✗"))
        .filter_map(|(line, number)| Some(Finding::new(path, number, banned_phrase(line)?)))
        .collect()
}

/// Type names with more definitions than [`MAX_DEFINITIONS`], each with the places. `Result` is exempt: an alias of
/// that name with the module's error type is the convention of the standard library.
pub(crate) fn repeated_type_names(sources: &[SourceFile]) -> Vec<String> {
    const MAX_DEFINITIONS: usize = 2;
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in sources {
        for line in &source.lines {
            for (keyword, name) in defined_names(&line.code) {
                let is_associated = keyword == "type" && line.code.starts_with(' ');
                if matches!(keyword, "struct" | "enum" | "union" | "trait" | "type")
                    && !is_associated
                    && name != "Result"
                {
                    let place = format!("{}:{}", source.path, line.number);
                    places.entry(name).or_default().push(place);
                }
            }
        }
    }
    places
        .iter()
        .filter(|(_, places)| places.len() > MAX_DEFINITIONS)
        .map(|(name, places)| format!("`{name}`: {}", places.join(", ")))
        .collect()
}

/// Handlers are named after their wire method: the arm of `Method::TasksCreate` calls `handlers::tasks_create`.
pub(crate) fn handlers_are_named_after_methods(source: &SourceFile) -> Vec<Finding> {
    if !source.path.starts_with("execution/src/rpc") {
        return Vec::new();
    }
    let mut method: Option<String> = None;
    let mut findings = Vec::new();
    for line in &source.lines {
        // A method that another module handles must not be compared with the handlers of the next function.
        if line.code.contains("fn ") {
            method = None;
        }
        if let Some((_, after)) = line.code.split_once("Method::") {
            method = Some(split_name(leading_name(after)).join("_"));
        }
        let Some((_, after)) = line.code.split_once("handlers::") else {
            continue;
        };
        let handler = leading_name(after);
        let is_call = after[handler.len()..].starts_with('(');
        if let Some(method) = method.take().filter(|method| is_call && *method != handler) {
            let description = format!("the handler `{handler}` serves the method `{method}`");
            findings.push(Finding::new(&source.path, line.number, description));
        }
    }
    findings
}

fn leading_name(code: &str) -> &str {
    &code[..code.find(|c| !is_word(c)).unwrap_or(code.len())]
}

fn banned_phrase(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let occurs = |phrase: &&&str| {
        lower.match_indices(**phrase).any(|(at, _)| {
            !lower[..at].ends_with(is_word) && !lower[at + phrase.len()..].starts_with(is_word)
        })
    };
    let phrase = BANNED_PHRASES.iter().find(occurs)?;
    Some(format!("the phrase `{phrase}`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule_assertions::{assert_breaks, assert_passes};

    #[test]
    fn names_with_a_metaphor_are_found() {
        for text in [
            "fn told() {}",
            "pub(crate) struct WriterDesk;",
            "const PATIENCE: u8 = 1;",
            "let mut heard = 1;",
            "pub(super) async fn of(x: u8) {}",
            "mod doors;",
        ] {
            assert_breaks(has_plain_names, "hub/src/a.rs", text);
        }
        for text in [
            "fn render(told: u8) {}",
            "let offset = doors_of_peer();",
            "struct Saidi; fn offload() {}",
            "// fn told() {}\nlet x = \"fn told\";",
        ] {
            assert_passes(has_plain_names, "hub/src/a.rs", text);
        }
        assert_breaks(has_plain_file_name, "hub/src/doors.rs", "");
        assert_passes(has_plain_file_name, "hub/src/http.rs", "");
    }

    #[test]
    fn banned_phrases_are_found_in_comments_and_strings() {
        assert_breaks(has_plain_sentences, "hub/src/a.rs", "/// Nobody waits.");
        assert_breaks(
            has_plain_sentences,
            "hub/src/a.rs",
            "f(\"it was called off\")",
        );
        assert_passes(
            has_plain_sentences,
            "hub/src/a.rs",
            "let renewal = anew_id;",
        );
        assert_passes(has_plain_sentences, "hub/src/a.rs", "// A newer one.");
        assert_eq!(has_plain_prose("a.md", "One.\nNobody waits.").len(), 1);
        assert!(has_plain_prose("a.md", "| ✗ Nobody waits. | No caller waits. |").is_empty());
    }

    #[test]
    fn third_definition_of_a_type_name_is_found() {
        let source = |text: &str| SourceFile::new("hub/src/a.rs", text);
        let two = [source("struct Clock;"), source("mod a { enum Clock {} }")];
        assert!(repeated_type_names(&two).is_empty());
        let [first, second] = two;
        let three = [first, second, source("pub(crate) trait Clock {}")];
        assert_eq!(repeated_type_names(&three).len(), 1);
        let aliases = source("type Result = u8;\ntype Result = u8;\ntype Result = u8;");
        assert!(repeated_type_names(&[aliases]).is_empty());
    }

    #[test]
    fn handler_with_another_name_than_its_method_is_found() {
        let path = "execution/src/rpc/dispatch.rs";
        let check = handlers_are_named_after_methods;
        assert_passes(check, path, "Method::TasksGet => handlers::tasks_get(cx),");
        assert_breaks(check, path, "Method::TasksGet => handlers::get(cx),");
        assert_breaks(
            check,
            path,
            "Method::TasksGet => {\n    handlers::get(cx)\n}",
        );
    }
}
