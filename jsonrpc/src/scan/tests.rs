//! The scanner against `serde_json`, which must agree on what JSON is.

use super::*;
use serde_json::Value as Any;

fn accepts(text: &str) -> Result<(), Problem> {
    let mut scanner = Scanner::new(text, DEEPEST);
    scanner.value().map_err(|fault| fault.problem)?;
    if scanner.at_end() {
        Ok(())
    } else {
        Err(Problem::TrailingBytes)
    }
}

#[test]
fn agrees_with_serde_json_on_what_is_json() {
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
            accepts(text).is_ok(),
            serde_json::from_str::<Any>(text).is_ok(),
            "{text:?} gave {:?}",
            accepts(text)
        );
    }
}

#[test]
fn lets_nothing_in_that_serde_json_would_not_read_and_never_recurses() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |levels: usize| format!("{}1{}", open.repeat(levels), close.repeat(levels));
        assert_eq!(accepts(&nested(125)), Ok(()));
        assert!(serde_json::from_str::<Any>(&nested(127)).is_ok());
        assert_eq!(accepts(&nested(126)), Err(Problem::TooDeep));
        assert_eq!(accepts(&nested(1_000_000)), Err(Problem::TooDeep));
    }
}

#[test]
fn says_which_fault_it_found_and_where() {
    for (text, problem, at) in [
        ("", Problem::UnexpectedEnd, 0),
        ("[1,", Problem::UnexpectedEnd, 3),
        ("{\"a\":\"b", Problem::UnexpectedEnd, 7),
        ("\"\\ud83e", Problem::UnexpectedEnd, 7),
        ("\"\\ud83e\\", Problem::UnexpectedEnd, 8),
        ("\"\\ud83e\\u", Problem::UnexpectedEnd, 9),
        ("[x]", Problem::UnexpectedCharacter, 1),
        ("\"a\nb\"", Problem::ControlCharacter, 2),
        ("\"ab\\q\"", Problem::BadEscape, 4),
        ("\"ab\\uD800\"", Problem::LoneSurrogate, 3),
        ("[01]", Problem::BadNumber, 2),
        ("[-]", Problem::BadNumber, 2),
        ("[-", Problem::UnexpectedEnd, 2),
        ("[1.", Problem::UnexpectedEnd, 3),
        ("[1e+", Problem::UnexpectedEnd, 4),
    ] {
        let fault = Scanner::new(text, DEEPEST).value().unwrap_err();
        assert_eq!((fault.problem, fault.at), (problem, at), "{text:?}");
    }
}
