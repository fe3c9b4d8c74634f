//! Names as Bedrock takes them: of models in addresses, and of documents.

use std::collections::BTreeSet;
use std::fmt::Write;
use url::Url;

/// The most characters that a document's name may have.
const LONGEST: usize = 100;

/// The address of a model below `base`. Its name may be an ARN, whose colons and slashes are part of
/// one segment; a signature is over what is written here, so every other character is escaped, not only
/// those that must be.
pub(super) fn model_url(mut base: Url, model: &str) -> Url {
    let mut path = base.path().trim_end_matches('/').to_owned();
    path.push('/');
    for byte in model.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            path.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(path, "%{byte:02X}");
        }
    }
    path.push_str("/converse-stream");
    base.set_path(&path);
    base
}

/// A document's name: ASCII letters and digits, single spaces, brackets and hyphens. Two documents of
/// one request are never called the same.
pub(super) fn document(name: &str, taken: &mut BTreeSet<String>) -> String {
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() => c,
        '(' | ')' | '[' | ']' | '-' => c,
        _ => ' ',
    };
    let spaced: String = name.chars().map(plain).collect();
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let short = |most: usize, text: &str| {
        let cut: String = text.chars().take(most).collect();
        cut.trim_end().to_owned()
    };
    let mut found = short(LONGEST, &words.join(" "));
    if !found.contains(|c: char| c.is_ascii_alphanumeric()) {
        found = "document".to_owned();
    }
    let first = found.clone();
    let mut number = 2_u32;
    while !taken.insert(found.clone()) {
        let behind = format!(" ({number})");
        found = format!(
            "{}{behind}",
            short(LONGEST.saturating_sub(behind.len()), &first)
        );
        number = number.saturating_add(1);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_one_segment() {
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
    fn documents_have_plain_names_of_their_own() {
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
            assert_eq!(document(name, &mut taken), expected);
        }
        let long = "x".repeat(300);
        assert_eq!(document(&long, &mut taken).len(), LONGEST);
        let second = document(&long, &mut taken);
        assert!(
            second.len() == LONGEST && second.ends_with("x (2)"),
            "{second}"
        );
    }
}
