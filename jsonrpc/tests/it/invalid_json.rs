//! Bytes that are not JSON: a parse error with a null id, wherever the error is in the text.

use crate::classify::{classify, code_and_id, expect_rejection};
use interzone_jsonrpc::{Policy, RawJson};
use serde_json::Value;

const POLICIES: [Policy; 3] = [Policy::STANDARD, Policy::SERVER, Policy::CLIENT];

fn check(bytes: &[u8], expected: &str) {
    for policy in POLICIES {
        let shown = String::from_utf8_lossy(bytes);
        assert_eq!(classify(bytes, &policy), expected, "{shown}");
        assert_eq!(
            code_and_id(bytes, &policy),
            (-32700, Value::Null),
            "{shown}"
        );
    }
}

#[test]
fn empty_body_is_a_parse_error() {
    for text in ["", " ", "\n", "\t\r\n ", &" ".repeat(10_000)] {
        check(text.as_bytes(), "empty_body");
    }
}

#[test]
fn invalid_utf8_is_a_parse_error() {
    let broken: [&[u8]; 9] = [
        b"\xff",
        b"\x80",
        b"\xc3",
        b"\xc0\xaf",
        b"\xe0\x80\x80",
        b"\xed\xa0\x80",
        b"\xf5\x80\x80\x80",
        b"\xf4\x90\x80\x80",
        b"\xff\xfe{\x00}\x00",
    ];
    for bytes in broken {
        check(bytes, "not_utf8");
        let inside = [br#"{"jsonrpc":"2.0","id":1,"method":"a"#, bytes, br#""}"#].concat();
        check(&inside, "not_utf8");
        let after = [br#"{"jsonrpc":"2.0","id":1,"method":"a"}"#, bytes].concat();
        check(&after, "not_utf8");
        let in_batch = [b"[1,\"", bytes, b"\"]"].concat();
        check(&in_batch, "not_utf8");
    }
}

#[test]
fn byte_order_mark_is_a_parse_error() {
    check(
        "\u{feff}{\"jsonrpc\":\"2.0\",\"method\":\"a\"}".as_bytes(),
        "unexpected_character",
    );
    check(
        "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\u{feff}".as_bytes(),
        "trailing_bytes",
    );
    check("\u{feff}".as_bytes(), "unexpected_character");
    let utf_16: Vec<u8> = "{}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    check(&utf_16, "unexpected_character");
}

#[test]
fn invalid_literals_and_numbers_are_parse_errors() {
    for (value, expected) in [
        ("NaN", "unexpected_character"),
        ("nan", "unexpected_character"),
        ("Infinity", "unexpected_character"),
        ("-Infinity", "bad_number"),
        ("-NaN", "bad_number"),
        ("undefined", "unexpected_character"),
        ("None", "unexpected_character"),
        ("True", "unexpected_character"),
        ("nul", "unexpected_character"),
        ("01", "bad_number"),
        ("-01", "bad_number"),
        ("1.", "bad_number"),
        (".1", "unexpected_character"),
        ("+1", "unexpected_character"),
        ("1e", "bad_number"),
        ("1e+", "bad_number"),
        ("0x10", "unexpected_character"),
        ("1_000", "unexpected_character"),
        ("'a'", "unexpected_character"),
        ("\"\t\"", "control_character"),
        ("\"\u{0}\"", "control_character"),
        ("\"\u{1f}\"", "control_character"),
        (r#""\x41""#, "bad_escape"),
        (r#""\'""#, "bad_escape"),
        (r#""\U0041""#, "bad_escape"),
        (r#""\u004""#, "bad_escape"),
        (r#""\u+041""#, "bad_escape"),
        (r#""\u00g1""#, "bad_escape"),
        ("/**/1", "unexpected_character"),
        ("1//", "unexpected_character"),
        ("[1,]", "unexpected_character"),
        ("{\"a\":1,}", "unexpected_character"),
        ("{a:1}", "unexpected_character"),
        ("{1:1}", "unexpected_character"),
        ("[1}", "unexpected_character"),
        ("", "unexpected_character"),
    ] {
        for text in [
            format!(r#"{{"jsonrpc":"2.0","method":"a","id":1,"params":{{"x":[0,{value}]}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","method":"a","id":{value}}}"#),
            format!(r#"{{"jsonrpc":"2.0","method":"a","id":1,"x":{value}}}"#),
            format!(r#"{{"jsonrpc":"2.0","error":{{"data":{value}}},"id":1}}"#),
            format!(r#"[{{"jsonrpc":"2.0","method":"a","id":1}},{value}]"#),
        ] {
            check(text.as_bytes(), expected);
        }
        assert!(RawJson::parse(value).is_err(), "{value}");
    }
}

#[test]
fn lone_surrogate_is_a_parse_error_everywhere() {
    for half in [
        r"\ud800",
        r"\uDBFF",
        r"\udc00",
        r"\uDFFF",
        r"\ud83e\ud83e",
        r"\udd80\ud83e",
        r"\ud83e\u0041",
        r"\ud83e\n",
        r"\ud83e ",
        r"\ud83eA",
        r"a\ud83e\udd80\ud83e",
    ] {
        for text in [
            format!(r#"{{"{half}":1}}"#),
            format!(r#"{{"jsonrpc":"{half}","method":"a"}}"#),
            format!(r#"{{"jsonrpc":"2.0","method":"{half}","id":1}}"#),
            format!(r#"{{"jsonrpc":"2.0","method":"a","id":"{half}"}}"#),
            format!(r#"{{"jsonrpc":"2.0","method":"a","params":"{half}"}}"#),
            format!(r#"{{"jsonrpc":"2.0","method":"a","params":{{"{half}":1}}}}"#),
            format!(r#"{{"jsonrpc":"2.0","method":"a","params":[[{{"x":["{half}"]}}]]}}"#),
            format!(r#"{{"jsonrpc":"2.0","result":{{"x":"{half}"}},"id":1}}"#),
            format!(r#"{{"jsonrpc":"2.0","error":{{"{half}":1}},"id":1}}"#),
            format!(r#"{{"jsonrpc":"2.0","error":{{"code":1,"message":"{half}"}},"id":1}}"#),
            format!(r#"{{"jsonrpc":"2.0","error":{{"code":1,"data":["{half}"]}},"id":1}}"#),
            format!(r#""{half}""#),
            format!(r#"[1,"{half}"]"#),
            format!(r#"[{{"jsonrpc":"2.0","method":"a","x":"{half}"}}]"#),
        ] {
            check(text.as_bytes(), "lone_surrogate");
        }
        let string = format!("\"{half}\"");
        assert!(RawJson::parse(&string).is_err(), "{half}");
    }
}

#[test]
fn valid_escapes_are_accepted() {
    for escaped in [
        r"\ud83e\udd80",
        r"\uD83E\uDD80",
        "🦀",
        r"\u0000",
        r"\uffff",
        r"\\ud800",
        r"\/",
    ] {
        let text = format!(
            r#"{{"jsonrpc":"2.0","method":"{escaped}","params":["{escaped}"],"id":"{escaped}"}}"#
        );
        assert_eq!(classify(&text, &Policy::SERVER), "request", "{text}");
    }
}

#[test]
fn trailing_bytes_are_a_parse_error() {
    for tail in [
        "x", "{}", "[]", ",", "]", "}", "\0", "1", "\"", "\u{b}", "\u{a0}", "//",
    ] {
        for text in [
            r#"{"jsonrpc":"2.0","method":"a","id":1}"#,
            r#"[{"jsonrpc":"2.0","method":"a","id":1}]"#,
            "[]",
            "null ",
            "{}\n",
        ] {
            check(format!("{text}{tail}").as_bytes(), "trailing_bytes");
        }
    }
}

#[test]
fn every_truncated_message_is_an_unexpected_end() {
    let message =
        r#"[{"jsonrpc":"2.0","method":"a\u00e9\ud83e\udd80","params":{"x":[-1.5e+3,true]}}]"#;
    for end in 1..message.len() {
        check(&message.as_bytes()[..end], "unexpected_end");
    }
}

#[test]
fn only_json_whitespace_is_accepted() {
    let spaced = " \t\r\n{ \"jsonrpc\" : \"2.0\" ,\n\"method\"\t:\r\"a\" , \"params\" : [ ] } \n";
    assert_eq!(classify(spaced, &Policy::SERVER), "notification");
    for other in [
        '\u{b}', '\u{c}', '\u{85}', '\u{a0}', '\u{2028}', '\u{3000}', '\0',
    ] {
        let text = spaced.replacen(' ', &other.to_string(), 1);
        check(text.as_bytes(), "unexpected_character");
    }
}

#[test]
fn positions_are_counted_in_lines_and_characters() {
    for (text, offset, line, column) in [
        ("[x", 1, 1, 2),
        ("[\n x", 3, 2, 2),
        ("[\r\n\r\n\"é🦀\",x", 14, 3, 6),
        ("\n\n", 2, 3, 1),
        ("[\"é\",\n\"日本語\" x", 19, 2, 7),
        ("{\"jsonrpc\":\"2.0\"}\n\n  y", 21, 3, 3),
    ] {
        let position = expect_rejection(text.as_bytes(), &Policy::SERVER).position();
        assert_eq!(
            (position.offset, position.line, position.column),
            (offset, line, column),
            "{text:?}"
        );
    }
    let position = expect_rejection(b"[\"\xc3\xa9\",\n \xff]", &Policy::SERVER).position();
    assert_eq!((position.offset, position.line, position.column), (8, 2, 2));
}
