//! Rule about error codes: each number is defined in one place, in any spelling.

use std::ops::RangeInclusive;

use crate::source::{SourceFile, SourceLine, is_word};
use crate::tree::{Finding, collect_findings};

/// Absolute values of the block that JSON-RPC 2.0 reserves.
const RESERVED: RangeInclusive<u32> = 32_000..=32_768;
/// Absolute values of all numbers treated as error codes: those that our dialects use.
const CODES: [RangeInclusive<u32>; 2] = [32_000..=32_999, 40_000..=40_999];

/// Keywords after which a minus sign begins a number; after any other word it is a subtraction.
const KEYWORDS_BEFORE_VALUE: &[&str] = &["return", "break", "in", "else", "match", "if"];

/// The codes of JSON-RPC are in `jsonrpc/src/codes.rs`, those of a dialect in its `codes.rs`.
pub(crate) fn codes_in_codes_files(source: &SourceFile) -> Vec<Finding> {
    collect_findings(source, source.product(), |line| {
        codes_in_line(line)
            .find(|code| !is_allowed_in(&source.path, *code))
            .map(|code| format!("error code -{code}"))
    })
}

fn is_allowed_in(path: &str, code: u32) -> bool {
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["jsonrpc", "src", "codes.rs"] => RESERVED.contains(&code),
        // The vocabulary shared by all dialects has no codes.
        ["protocol", "src", dialect, "codes.rs"] => *dialect != "vocab",
        _ => false,
    }
}

/// Error codes of a line, without their sign.
fn codes_in_line(line: &SourceLine) -> impl Iterator<Item = u32> + '_ {
    let in_code = line.code.match_indices('-').filter_map(|(at, _)| {
        let (before, after) = (&line.code[..at], &line.code[at + 1..]);
        let inner = after.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        (!is_subtraction(before))
            .then(|| parse_literal(inner))
            .flatten()
    });
    // Strings count as well: a hand-written response has a code in it.
    let in_text = line.text.match_indices('-').filter_map(|(at, _)| {
        let (before, after) = (&line.text[..at], &line.text[at + 1..]);
        let glued = before.ends_with(is_word); // RFC-32001 is a name
        (!glued).then(|| parse_digits(after, 10)).flatten()
    });
    in_code
        .chain(in_text)
        .filter(|code| CODES.iter().any(|block| block.contains(code)))
}

/// Returns true if a minus sign after `before` subtracts from a value other than zero.
fn is_subtraction(before: &str) -> bool {
    let before = before.trim_end();
    let prefix = before.trim_end_matches(is_word);
    let last_word = &before[prefix.len()..];
    match last_word {
        "" => before.ends_with([')', ']']),
        "0" => prefix.ends_with('.'),
        _ => !KEYWORDS_BEFORE_VALUE.contains(&last_word),
    }
}

/// Parses the integer that a Rust literal begins with.
fn parse_literal(text: &str) -> Option<u32> {
    let radix = match text.get(..2) {
        Some("0x") => 16,
        Some("0o") => 8,
        Some("0b") => 2,
        _ => return parse_digits(text, 10),
    };
    parse_digits(&text[2..], radix)
}

fn parse_digits(text: &str, radix: u32) -> Option<u32> {
    let digits: String = text
        .chars()
        .take_while(|c| c.is_digit(radix) || *c == '_')
        .filter(|c| *c != '_')
        .collect();
    u32::from_str_radix(&digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::codes_in_codes_files;
    use crate::rule_assertions::{assert_breaks, assert_passes};

    #[test]
    fn codes_are_found_in_any_spelling() {
        for spelling in [
            "-32001",
            "-32_001",
            "-3_2_0_0_1_",
            "- 32001",
            "-(32001)",
            "- ( (32001))",
            "-/* minus */32001",
            "-32001i32",
            "-32_001_i64",
            "-0x7d01",
            "-0x7D_01",
            "-(0x7d01_i32)",
            "-0o76401",
            "-0b111_1101_0000_0001",
            "0 - 32001",
            "-40001",
            "-40_999",
        ] {
            let breaks = |text: String| assert_breaks(codes_in_codes_files, "hub/src/a.rs", &text);
            breaks(format!("let code = {spelling};"));
            breaks(format!("f({spelling})"));
            breaks(format!("{spelling} => 1,"));
            breaks(format!("return {spelling};"));
        }
        assert_breaks(
            codes_in_codes_files,
            "cli/src/a.rs",
            r#"f(r"{"code":-32601}");"#,
        );
        assert_breaks(
            codes_in_codes_files,
            "cli/src/a.rs",
            r#"f("code: -32601");"#,
        );
    }

    #[test]
    fn other_numbers_are_not_codes() {
        for text in [
            "let x = -327; let y = -320000; let z = 40001;",
            "let x = -31_999; let y = -33_000; let z = -41_000;",
            "let x = -0x7c01; let y = -0xffff_ffff_ffff;",
            "let rest = length - 32_768; x -= 40_000;",
            "let rest = (a + b) - 32_768 + c[0] - 40_000 + t.0 - 40_000;",
            "fn f() -> u16 { 32001 }",
            r#"f("RFC-32001");"#,
            "/// Answers -32700.\nlet x = -32; // -32601",
            "#[cfg(test)]\nmod tests { const X: i32 = -32700; }",
        ] {
            assert_passes(codes_in_codes_files, "hub/src/a.rs", text);
        }
        assert_passes(codes_in_codes_files, "tests/tests/it/a.rs", "f(-32700);");
    }

    #[test]
    fn codes_are_allowed_only_in_codes_files() {
        let own = "const PARSE_ERROR: i32 = -32700;";
        assert_passes(codes_in_codes_files, "jsonrpc/src/codes.rs", own);
        assert_passes(codes_in_codes_files, "protocol/src/acp/codes.rs", own);
        assert_breaks(codes_in_codes_files, "hub/src/codes.rs", own);
        assert_breaks(codes_in_codes_files, "jsonrpc/src/inner/codes.rs", own);
        assert_breaks(codes_in_codes_files, "protocol/src/codes.rs", own);
        assert_breaks(codes_in_codes_files, "protocol/src/vocab/codes.rs", own);
        assert_breaks(codes_in_codes_files, "protocol/src/acp/inner/codes.rs", own);
        assert_breaks(codes_in_codes_files, "protocol/src/acp.rs", own);

        // The envelope has no dialect, so its file is for its own block only.
        let block = "const BLOCK: (i32, i32) = (-32768, -32000);";
        assert_passes(codes_in_codes_files, "jsonrpc/src/codes.rs", block);
        for foreign in ["(-32700, -40001)", "-32_769", "-0x9c41"] {
            let text = format!("const X: T = {foreign};");
            assert_breaks(codes_in_codes_files, "jsonrpc/src/codes.rs", &text);
            assert_passes(codes_in_codes_files, "protocol/src/cauce/codes.rs", &text);
        }
    }
}
