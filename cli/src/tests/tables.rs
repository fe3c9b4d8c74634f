//! How the reference is set: tables of Markdown, and what may stand in them. What is said is not decided
//! here.

use std::fmt::Write as _;

/// The line that every page of the reference begins with, below its title.
pub(super) fn opening(title: &str, made_of: &str) -> String {
    format!(
        "# {title}\n\n<!-- Made by the tests of the command line; do not edit. To renew it: {} -->\n\n\
         Made of {made_of}, and tested to be current.\n\n",
        super::HOW
    )
}

/// A table with these columns.
pub(super) fn table(columns: &[&str], rows: &[Vec<String>]) -> String {
    let mut page = String::new();
    let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
    page.push_str(&line(columns.to_vec()));
    let _ = writeln!(page, "|{}", "---|".repeat(columns.len()));
    for row in rows {
        assert_eq!(row.len(), columns.len(), "{row:?}");
        page.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    page.push('\n');
    page
}

/// As code, which may hold anything.
pub(super) fn code(text: &str) -> String {
    match text {
        "" => String::new(),
        text => format!("`{}`", text.replace('|', "\\|")),
    }
}

/// As words, on one line. What is code in them stays code; brackets outside of it would be tags.
pub(super) fn words(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.replace('|', "\\|");
    let pieces = text.split('`').enumerate().map(|(at, piece)| match at % 2 {
        0 => piece.replace('<', "&lt;").replace('>', "&gt;"),
        _ => format!("`{piece}`"),
    });
    pieces.collect()
}

/// With a capital letter.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

#[test]
fn what_would_break_a_table_is_made_safe() {
    assert_eq!(words("a | b\n  <c> `<d>`"), "a \\| b &lt;c&gt; `<d>`");
    assert_eq!(code("a|b"), "`a\\|b`");
    assert_eq!(
        table(&["a", "b"], &[vec!["1".into(), "2".into()]]),
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n"
    );
}
