//! Snapshots of the error response to every violation: clients rely on the texts.

use crate::classify::expect_rejection;
use interzone_jsonrpc::{
    Batches, ExtraMembers, InvalidMessage, Message, MissingId, Notification, Policy, Request,
    Response,
};
use std::fmt::Write as _;

/// A policy that rejects everything that a policy can reject.
const STRICT: Policy = Policy {
    missing_id: MissingId::Refuse,
    extra_members: ExtraMembers::Refuse,
    batches: Batches::UpTo(2),
    ..Policy::SERVER
};

/// One input for each violation that bytes can have.
const PARSE_CASES: [(&str, Policy, &[u8]); 36] = [
    ("empty_body", STRICT, b" \n"),
    ("not_utf8", STRICT, b"{\"jsonrpc\":\"\xff\"}"),
    ("unexpected_end", STRICT, br#"{"jsonrpc":"2.0","method":"a"#),
    (
        "unexpected_character",
        STRICT,
        br#"{"jsonrpc":"2.0","params":NaN}"#,
    ),
    (
        "control_character",
        STRICT,
        b"{\"jsonrpc\":\"2.0\",\"method\":\"a\tb\"}",
    ),
    (
        "bad_escape",
        STRICT,
        br#"{"jsonrpc":"2.0","method":"\x41"}"#,
    ),
    (
        "lone_surrogate",
        STRICT,
        br#"{"jsonrpc":"2.0","method":"\ud800"}"#,
    ),
    ("bad_number", STRICT, br#"{"jsonrpc":"2.0","id":01}"#),
    (
        "too_deep",
        Policy {
            max_depth: 1,
            ..STRICT
        },
        br#"{"params":[[]]}"#,
    ),
    (
        "trailing_bytes",
        STRICT,
        br#"{"jsonrpc":"2.0","id":1,"method":"a"} {}"#,
    ),
    ("not_an_object", STRICT, b"\"a\""),
    ("empty_batch", STRICT, b"[]"),
    ("batch_too_large", STRICT, b"[1,2,3]"),
    (
        "batch_refused",
        Policy {
            batches: Batches::Refuse,
            ..STRICT
        },
        b"[1]",
    ),
    (
        "duplicate_member",
        STRICT,
        br#"{"jsonrpc":"2.0","id":1,"i\u0064":1}"#,
    ),
    (
        "extra_member",
        STRICT,
        br#"{"jsonrpc":"2.0","id":1,"method":"a","meta":{}}"#,
    ),
    ("version_missing", STRICT, br#"{"id":1,"method":"a"}"#),
    (
        "version_wrong",
        STRICT,
        br#"{"jsonrpc":"1.0","id":1,"method":"a"}"#,
    ),
    ("not_a_message", STRICT, br#"{"jsonrpc":"2.0","id":1}"#),
    (
        "request_and_response",
        STRICT,
        br#"{"jsonrpc":"2.0","id":1,"method":"a","result":1}"#,
    ),
    (
        "method_kind",
        STRICT,
        br#"{"jsonrpc":"2.0","id":1,"method":null}"#,
    ),
    (
        "method_empty",
        STRICT,
        br#"{"jsonrpc":"2.0","id":1,"method":""}"#,
    ),
    (
        "method_reserved",
        STRICT,
        br#"{"jsonrpc":"2.0","id":"echo","method":"rpc.a"}"#,
    ),
    (
        "params_scalar",
        STRICT,
        br#"{"jsonrpc":"2.0","id":1,"method":"a","params":true}"#,
    ),
    ("id_missing", STRICT, br#"{"jsonrpc":"2.0","method":"a"}"#),
    (
        "id_null",
        Policy::STANDARD,
        br#"{"jsonrpc":"2.0","id":null,"method":"a"}"#,
    ),
    (
        "id_kind",
        STRICT,
        br#"{"jsonrpc":"2.0","id":[],"method":"a"}"#,
    ),
    (
        "id_not_integer",
        STRICT,
        br#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#,
    ),
    (
        "result_and_error",
        Policy::STANDARD,
        br#"{"jsonrpc":"2.0","id":1,"result":1,"error":null}"#,
    ),
    (
        "error_kind",
        Policy::STANDARD,
        br#"{"jsonrpc":"2.0","id":1,"error":null}"#,
    ),
    (
        "error_code_missing",
        Policy::STANDARD,
        br#"{"jsonrpc":"2.0","id":1,"error":{}}"#,
    ),
    (
        "error_code_wrong",
        Policy::STANDARD,
        br#"{"jsonrpc":"2.0","id":1,"error":{"code":1.0}}"#,
    ),
    (
        "error_message_missing",
        Policy::STANDARD,
        br#"{"jsonrpc":"2.0","id":1,"error":{"code":1}}"#,
    ),
    (
        "error_message_kind",
        Policy::STANDARD,
        br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":{}}}"#,
    ),
    (
        "response_refused",
        STRICT,
        br#"{"jsonrpc":"2.0","id":1,"result":1}"#,
    ),
    // The same violation with another member.
    (
        "duplicate_member",
        Policy::STANDARD,
        br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":1,"message":"m"}}"#,
    ),
];

/// Violations that only typed deserialization has: a valid message of another type than expected.
const SERDE_ONLY: [&str; 3] = ["method_missing", "outcome_missing", "id_present"];

#[test]
fn error_response_of_every_violation() {
    let mut all = String::new();
    for (name, policy, bytes) in PARSE_CASES {
        let rejection = expect_rejection(bytes, &policy);
        assert_eq!(rejection.kind().name(), name);
        writeln!(all, "{name}").unwrap();
        writeln!(all, "    {}", on_one_line(bytes)).unwrap();
        match rejection.response() {
            Some(answer) => writeln!(all, "    {answer}").unwrap(),
            None => {
                let error = serde_json::to_string(&rejection.error()).unwrap();
                writeln!(all, "    not answered: {error}").unwrap();
            }
        }
    }
    insta::assert_snapshot!("error_response_of_every_violation", all);
}

/// Formats bytes on one line.
fn on_one_line(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.replace('\n', "<LF>").replace('\t', "<TAB>")
}

#[test]
fn deserializing_the_wrong_message_type_fails() {
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#;
    let note = r#"{"jsonrpc":"2.0","method":"a"}"#;
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":1}"#;
    let all = [
        serde_json::from_str::<Request>(answer)
            .unwrap_err()
            .to_string(),
        serde_json::from_str::<Notification>(answer)
            .unwrap_err()
            .to_string(),
        serde_json::from_str::<Response>(call)
            .unwrap_err()
            .to_string(),
        serde_json::from_str::<Notification>(call)
            .unwrap_err()
            .to_string(),
        serde_json::from_str::<Request>(note)
            .unwrap_err()
            .to_string(),
        serde_json::from_str::<Message>("[]")
            .unwrap_err()
            .to_string(),
    ];
    insta::assert_snapshot!("wrong_message_type_errors", all.join("\n"));
}

#[test]
fn error_text_names_the_json_kind() {
    let all: Vec<_> = ["null", "true", "1", "\"\"", "[]", "{}"]
        .iter()
        .map(|kind| format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":1,"message":{kind}}}}}"#))
        .map(|text| match serde_json::from_str::<Message>(&text) {
            Ok(message) => format!("accepted: {message}"),
            Err(error) => error.to_string(),
        })
        .collect();
    insta::assert_snapshot!("json_kind_articles", all.join("\n"));
}

/// `InvalidMessageKind` is non-exhaustive, so a match outside its crate cannot be complete: its source is read instead.
#[test]
fn every_violation_has_a_snapshot() {
    let source = include_str!("../../src/invalid_message_kind.rs");
    let names: Vec<_> = source
        .split_once("fn name(")
        .and_then(|(_, after)| after.split_once("\n    }\n"))
        .map(|(body, _)| {
            body.lines()
                .filter_map(|line| line.split('"').nth(1))
                .collect()
        })
        .unwrap();
    assert!(
        names.len() > 30,
        "the source could not be parsed: {names:?}"
    );
    let covered: Vec<_> = PARSE_CASES
        .iter()
        .map(|(name, ..)| *name)
        .chain(SERDE_ONLY)
        .collect();
    for name in &names {
        assert!(covered.contains(name), "`{name}` has no snapshot");
    }
    for name in covered {
        assert!(names.contains(&name), "`{name}` does not exist any more");
    }
}

#[test]
fn rejection_does_not_echo_the_input() {
    let secret = "xoxb-very-secret";
    for text in [
        format!(r#"{{"jsonrpc":"{secret}","id":1,"method":"a"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":["{secret}"],"method":"a"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":["{secret}"]}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"rpc.{secret}"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","params":"{secret}"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","{secret}":1}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a","x":"{secret}"}}"#),
        format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{secret}"}}"#),
        format!(r#""{secret}"#),
        secret.to_owned(),
        format!(r#""{secret}""#),
    ] {
        let format_all = |rejection: &InvalidMessage| {
            format!(
                "{rejection} {rejection:?} {}",
                rejection.response().unwrap()
            )
        };
        let output = format_all(&expect_rejection(text.as_bytes(), &STRICT));
        assert!(!output.contains("secret"), "{output}");
    }
}
