//! Scanner tests, with `serde_json` as the reference.

use super::*;
use serde_json::Value as Any;

fn scan(text: &str) -> Result<(), InvalidMessageKind> {
    let mut scanner = Scanner::new(text, MAX_DEPTH);
    scanner.scan_root().map_err(|fault| fault.kind)?;
    if scanner.is_at_end() {
        Ok(())
    } else {
        Err(InvalidMessageKind::TrailingBytes)
    }
}

#[test]
fn scanner_agrees_with_serde_json_on_valid_json() {
    for text in [
        "null",
        "true",
        "false",
        "0",
        "-0",
        "1",
        "-1",
        "10",
        "1.5",
        "1e5",
        "1E+5",
        "1e-5",
        "0.1e1",
        "01",
        "-",
        "+1",
        ".5",
        "1.",
        "1.e1",
        "1e",
        "1e+",
        "--1",
        "0x1",
        "NaN",
        "Infinity",
        "-Infinity",
        "nul",
        "nulll",
        "tru",
        "truefalse",
        "True",
        "\"\"",
        "\"a\"",
        "\"\\n\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\u00e9\"",
        "\"\\ud83e\\udd80\"",
        "\"\\ud83e\"",
        "\"\\udd80\"",
        "\"\\ud83e\\ud83e\"",
        "\"\\ud83ex\"",
        "\"\\ud83e\\n\"",
        "\"\t\"",
        "\"\u{0}\"",
        "\"\u{7f}\"",
        "\"",
        "\"a",
        "\"\\",
        "\"\\u",
        "[]",
        "[ ]",
        "[1]",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1",
        "[",
        "]",
        "{}",
        "{ }",
        "{\"a\":1}",
        "{\"a\":1,}",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{a:1}",
        "{'a':1}",
        "{\"a\":1 \"b\":2}",
        "{\"a\":1",
        "{",
        "}",
        "[}",
        "{]",
        "[1}",
        "{\"a\":1]",
        "[[],{},[{}]]",
        " [ 1 , { \"a\" : [ ] } ] ",
        "\u{feff}1",
        "1 1",
        "1,",
        "// c",
        "/**/1",
        "[1]x",
        "\u{a0}1",
        "\u{b}1",
        "é",
        "\"é\"",
    ] {
        assert_eq!(
            scan(text).is_ok(),
            serde_json::from_str::<Any>(text).is_ok(),
            "{text:?} gave {:?}",
            scan(text)
        );
    }
}

#[test]
fn scanner_rejects_nesting_beyond_the_limit() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |levels: usize| format!("{}1{}", open.repeat(levels), close.repeat(levels));
        assert_eq!(scan(&nested(125)), Ok(()));
        assert!(serde_json::from_str::<Any>(&nested(127)).is_ok());
        assert_eq!(scan(&nested(126)), Err(InvalidMessageKind::TooDeep));
        assert_eq!(scan(&nested(1_000_000)), Err(InvalidMessageKind::TooDeep));
    }
}

#[test]
fn scan_error_has_kind_and_offset() {
    for (text, kind, offset) in [
        ("", InvalidMessageKind::UnexpectedEnd, 0),
        ("[1,", InvalidMessageKind::UnexpectedEnd, 3),
        ("{\"a\":\"b", InvalidMessageKind::UnexpectedEnd, 7),
        ("\"\\ud83e", InvalidMessageKind::UnexpectedEnd, 7),
        ("\"\\ud83e\\", InvalidMessageKind::UnexpectedEnd, 8),
        ("\"\\ud83e\\u", InvalidMessageKind::UnexpectedEnd, 9),
        ("[x]", InvalidMessageKind::UnexpectedCharacter, 1),
        ("\"a\nb\"", InvalidMessageKind::ControlCharacter, 2),
        ("\"ab\\q\"", InvalidMessageKind::BadEscape, 4),
        ("\"ab\\uD800\"", InvalidMessageKind::LoneSurrogate, 3),
        ("[01]", InvalidMessageKind::BadNumber, 2),
        ("[-]", InvalidMessageKind::BadNumber, 2),
        ("[-", InvalidMessageKind::UnexpectedEnd, 2),
        ("[1.", InvalidMessageKind::UnexpectedEnd, 3),
        ("[1e+", InvalidMessageKind::UnexpectedEnd, 4),
    ] {
        let error = Scanner::new(text, MAX_DEPTH).scan_root().unwrap_err();
        assert_eq!((error.kind, error.offset), (kind, offset), "{text:?}");
    }
}
