//! Names in the form that Bedrock accepts: of models in URLs, and of documents.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::collections::BTreeSet;
use url::Url;

/// Characters that are percent-encoded in URLs: all but the unreserved ones.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Maximum length of a document name, in characters.
const MAX_DOCUMENT_NAME_CHARS: usize = 100;

/// Returns the URL of a model below `base`. The name may be an ARN, whose colons and slashes belong to a single path
/// segment. Signatures cover the URL as written here, so every other character is escaped, not only those that must
/// be.
pub(super) fn model_url(mut base: Url, model: &str) -> Url {
    let mut path = base.path().trim_end_matches('/').to_owned();
    path.push('/');
    path.extend(utf8_percent_encode(model, ENCODED));
    path.push_str("/converse-stream");
    base.set_path(&path);
    base
}

/// Returns a valid document name: ASCII letters and digits, single spaces, brackets and hyphens. Names are unique
/// within a request.
pub(super) fn document_name(name: &str, taken: &mut BTreeSet<String>) -> String {
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() => c,
        '(' | ')' | '[' | ']' | '-' => c,
        _ => ' ',
    };
    let spaced: String = name.chars().map(plain).collect();
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let truncate = |max_chars: usize, text: &str| {
        let cut: String = text.chars().take(max_chars).collect();
        cut.trim_end().to_owned()
    };
    let mut unique = truncate(MAX_DOCUMENT_NAME_CHARS, &words.join(" "));
    if !unique.contains(|c: char| c.is_ascii_alphanumeric()) {
        unique = "document".to_owned();
    }
    let first = unique.clone();
    let mut number = 2_u32;
    while !taken.insert(unique.clone()) {
        let suffix = format!(" ({number})");
        unique = format!(
            "{}{suffix}",
            truncate(MAX_DOCUMENT_NAME_CHARS.saturating_sub(suffix.len()), &first)
        );
        number = number.saturating_add(1);
    }
    unique
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_name_is_a_single_path_segment() {
        let base: Url = "https://bedrock-runtime.eu-central-1.amazonaws.com/model"
            .parse()
            .unwrap();
        for (model, path) in [
            (
                "anthropic.claude-sonnet-4-5-20250929-v1:0",
                "/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse-stream",
            ),
            (
                "arn:aws:bedrock:us-east-1:1:inference-profile/eu.x",
                "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Feu.x/converse-stream",
            ),
            ("../x?y#z", "/model/..%2Fx%3Fy%23z/converse-stream"),
        ] {
            assert_eq!(model_url(base.clone(), model).path(), path);
        }
    }

    #[test]
    fn document_names_are_plain_and_unique() {
        let mut taken = BTreeSet::new();
        for (name, expected) in [
            ("sales.csv", "sales csv"),
            ("売上 2026.csv", "2026 csv"),
            ("売上", "document"),
            ("a  b\t(1) [x]-y.pdf", "a b (1) [x]-y pdf"),
            ("sales_csv", "sales csv (2)"),
            ("ignore\nthis", "ignore this"),
            ("sales.csv", "sales csv (3)"),
        ] {
            assert_eq!(document_name(name, &mut taken), expected);
        }
        let long = "x".repeat(300);
        assert_eq!(
            document_name(&long, &mut taken).len(),
            MAX_DOCUMENT_NAME_CHARS
        );
        let second = document_name(&long, &mut taken);
        assert!(
            second.len() == MAX_DOCUMENT_NAME_CHARS && second.ends_with("x (2)"),
            "{second}"
        );
    }
}
