//! The rule about error codes: each number has one home, however it is spelt.

use std::ops::RangeInclusive;

use crate::source::{Line, Source, is_word};
use crate::tree::{Finding, findings};

/// Below zero, the block that JSON-RPC 2.0 keeps for itself.
const RESERVED: RangeInclusive<u32> = 32_000..=32_768;
/// Below zero, every number that is taken for an error code: those that our dialects use.
const CODES: [RangeInclusive<u32>; 2] = [32_000..=32_999, 40_000..=40_999];

/// Words after which a minus sign begins a number; after any other it takes something away.
const BEFORE_A_VALUE: &[&str] = &["return", "break", "in", "else", "match", "if"];

/// The codes of JSON-RPC are in `jsonrpc/src/codes.rs`, those of a dialect in its `codes.rs`.
pub(crate) fn codes_at_home(source: &Source) -> Vec<Finding> {
    findings(source, source.product(), |line| {
        written(line)
            .find(|code| !is_home(&source.path, *code))
            .map(|code| format!("error code -{code}"))
    })
}

fn is_home(path: &str, code: u32) -> bool {
    match path.split('/').collect::<Vec<_>>().as_slice() {
        ["jsonrpc", "src", "codes.rs"] => RESERVED.contains(&code),
        // What every dialect shares has no codes.
        ["protocol", "src", dialect, "codes.rs"] => *dialect != "vocab",
        _ => false,
    }
}

/// The error codes of a line, without their sign.
fn written(line: &Line) -> impl Iterator<Item = u32> + '_ {
    let in_code = line.code.match_indices('-').filter_map(|(at, _)| {
        let (before, after) = (&line.code[..at], &line.code[at + 1..]);
        let inner = after.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        (!is_subtraction(before)).then(|| literal(inner)).flatten()
    });
    // Strings count as well: an answer written out by hand has a code in it.
    let in_text = line.text.match_indices('-').filter_map(|(at, _)| {
        let (before, after) = (&line.text[..at], &line.text[at + 1..]);
        let glued = before.ends_with(is_word); // RFC-32001 is a name
        (!glued).then(|| number(after, 10)).flatten()
    });
    in_code
        .chain(in_text)
        .filter(|code| CODES.iter().any(|block| block.contains(code)))
}

/// Whether a minus sign after `before` takes something away from a value other than zero.
fn is_subtraction(before: &str) -> bool {
    let before = before.trim_end();
    let rest = before.trim_end_matches(is_word);
    let word = &before[rest.len()..];
    match word {
        "" => before.ends_with([')', ']']),
        "0" => rest.ends_with('.'),
        _ => !BEFORE_A_VALUE.contains(&word),
    }
}

/// The whole number that a literal of Rust begins with.
fn literal(text: &str) -> Option<u32> {
    let radix = match text.get(..2) {
        Some("0x") => 16,
        Some("0o") => 8,
        Some("0b") => 2,
        _ => return number(text, 10),
    };
    number(&text[2..], radix)
}

fn number(text: &str, radix: u32) -> Option<u32> {
    let digits: String = text
        .chars()
        .take_while(|c| c.is_digit(radix) || *c == '_')
        .filter(|c| *c != '_')
        .collect();
    u32::from_str_radix(&digits, radix).ok()
}

#[cfg(test)]
mod tests {
    use super::codes_at_home;
    use crate::prove::{breaks, keeps};

    #[test]
    fn a_code_is_seen_however_it_is_spelt() {
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
            let breaks = |text: String| breaks(codes_at_home, "hub/src/a.rs", &text);
            breaks(format!("let code = {spelling};"));
            breaks(format!("f({spelling})"));
            breaks(format!("{spelling} => 1,"));
            breaks(format!("return {spelling};"));
        }
        breaks(codes_at_home, "cli/src/a.rs", r#"f(r"{"code":-32601}");"#);
        breaks(codes_at_home, "cli/src/a.rs", r#"f("code: -32601");"#);
    }

    #[test]
    fn other_numbers_are_none() {
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
            keeps(codes_at_home, "hub/src/a.rs", text);
        }
        keeps(codes_at_home, "tests/tests/it/a.rs", "f(-32700);");
    }

    #[test]
    fn only_a_home_is_a_home() {
        let own = "const PARSE_ERROR: i32 = -32700;";
        keeps(codes_at_home, "jsonrpc/src/codes.rs", own);
        keeps(codes_at_home, "protocol/src/acp/codes.rs", own);
        breaks(codes_at_home, "hub/src/codes.rs", own);
        breaks(codes_at_home, "jsonrpc/src/inner/codes.rs", own);
        breaks(codes_at_home, "protocol/src/codes.rs", own);
        breaks(codes_at_home, "protocol/src/vocab/codes.rs", own);
        breaks(codes_at_home, "protocol/src/acp/inner/codes.rs", own);
        breaks(codes_at_home, "protocol/src/acp.rs", own);

        // The envelope knows no dialect, so its home is for its own block alone.
        let block = "const BLOCK: (i32, i32) = (-32768, -32000);";
        keeps(codes_at_home, "jsonrpc/src/codes.rs", block);
        for foreign in ["(-32700, -40001)", "-32_769", "-0x9c41"] {
            let text = format!("const X: T = {foreign};");
            breaks(codes_at_home, "jsonrpc/src/codes.rs", &text);
            keeps(codes_at_home, "protocol/src/cauce/codes.rs", &text);
        }
    }
}
