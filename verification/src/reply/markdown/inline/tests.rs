//! Tests that inline conversion takes linear time for any input.

use super::*;
use crate::reply::complexity_probe::count_scanned_bytes;

#[test]
fn unclosed_delimiters_take_linear_time() {
    // Each level of emphasis may search for the six markers, for code, and for link delimiters.
    let max_scans_per_byte = (MAX_EMPHASIS_DEPTH + 1) * 20;
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
        let scanned = count_scanned_bytes(|| convert(&line));
        assert!(
            scanned <= max_scans_per_byte * line.len(),
            "{piece}: {scanned}"
        );
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
        let scanned = count_scanned_bytes(|| convert(&line));
        assert!(
            scanned <= max_scans_per_byte * line.len(),
            "{open}{between}{close}: {scanned}"
        );
    }
    // Runs of backticks of distinct lengths.
    let runs: String = (1..300).map(|length| "`".repeat(length) + " ").collect();
    let scanned = count_scanned_bytes(|| convert(&runs));
    assert!(
        scanned <= max_scans_per_byte * runs.len(),
        "backticks: {scanned}"
    );
}
