//! Whether a line takes as long as it is, whatever signs it is made of.

use super::*;
use crate::reply::looked::looks_of;

#[test]
fn a_line_of_signs_that_open_and_never_close_is_looked_at_a_few_times() {
    // Each level of emphasis may look for each of the six markers, for code, and for what links need.
    let most = (DEEPEST + 1) * 20;
    let length = 20_000;
    for piece in [
        "*a ",
        "**a ",
        "***a ",
        "_a ",
        "__a ",
        "~~a ",
        "~a ",
        "*",
        "**",
        "_",
        "__",
        "~",
        "`a ",
        "`",
        "``a ",
        "[a](",
        "[a",
        "[",
        "![",
        "![a](",
        "](",
        "[a]((",
        "(",
        ")",
        "<",
        "<a ",
        "<http://",
        "<http://a ",
        "\\",
        "\\*",
        "*a** ",
        "**a* ",
        "*a _b ",
        "*a **b ***c __d _e ~~f ",
        "_a*b",
        "a_b",
        "__a_",
        "*_~~",
        "[*a](`_",
        "**[a](*",
        "あ*",
        "*あ _い ",
        "*a \\* ",
        "> *a ",
    ] {
        let line = piece.repeat(length / piece.len());
        let seen = looks_of(|| convert(&line));
        assert!(seen <= most * line.len(), "{piece}: {seen}");
    }
    for (open, between, close) in [
        ("<http://", "", " >"),
        ("[", "a", "](x)"),
        ("[a](", "", ")"),
        ("[a](", "[b](x)", ""),
        ("[", "](", ")"),
        ("**a ", "x", "**"),
        ("*a ", "b* ", ""),
        ("`", "a", ""),
        ("***a ", "b* ", "c** "),
    ] {
        let times = length / open.len();
        let line = format!("{}{}{close}", open.repeat(times), between.repeat(times));
        let seen = looks_of(|| convert(&line));
        assert!(seen <= most * line.len(), "{open}{between}{close}: {seen}");
    }
    // Runs of backticks of all lengths, none of which comes twice.
    let runs: String = (1..300).map(|length| "`".repeat(length) + " ").collect();
    let seen = looks_of(|| convert(&runs));
    assert!(seen <= most * runs.len(), "backticks: {seen}");
}
