//! The answer to every problem there is, word for word: programs and people both rely on them.

use crate::verdict::rejection;
use interzone_jsonrpc::{
    Batches, ExtraMembers, Message, MissingId, Notification, Policy, Rejection, Request, Response,
};
use std::fmt::Write as _;

/// A door that refuses all that a policy can refuse.
const STRICT: Policy = Policy {
    missing_id: MissingId::Refuse,
    extra_members: ExtraMembers::Refuse,
    batches: Batches::UpTo(2),
    ..Policy::SERVER
};

/// One input for each problem that bytes can have.
const WIRE: [(&str, Policy, &[u8]); 36] = [
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
    // The same problem may name another member.
    (
        "duplicate_member",
        Policy::STANDARD,
        br#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"code":1,"message":"m"}}"#,
    ),
];

/// Problems that only a typed reader has: a valid message of another kind than was due.
const TYPED: [&str; 3] = ["method_missing", "outcome_missing", "id_present"];

#[test]
fn the_answer_to_every_problem() {
    let mut all = String::new();
    for (name, policy, bytes) in WIRE {
        let rejection = rejection(bytes, &policy);
        assert_eq!(rejection.problem().name(), name);
        writeln!(all, "{name}").unwrap();
        writeln!(all, "    {}", shown(bytes)).unwrap();
        match rejection.answer() {
            Some(answer) => writeln!(all, "    {answer}").unwrap(),
            None => {
                let error = serde_json::to_string(&rejection.error()).unwrap();
                writeln!(all, "    not answered: {error}").unwrap();
            }
        }
    }
    insta::assert_snapshot!("the_answer_to_every_problem", all);
}

/// Bytes on one line.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.replace('\n', "<LF>").replace('\t', "<TAB>")
}

#[test]
fn what_a_typed_reader_says() {
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
    insta::assert_snapshot!("what_a_typed_reader_says", all.join("\n"));
}

#[test]
fn every_kind_of_value_has_its_article() {
    let all: Vec<_> = ["null", "true", "1", "\"\"", "[]", "{}"]
        .iter()
        .map(|kind| format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":1,"message":{kind}}}}}"#))
        .map(|text| match serde_json::from_str::<Message>(&text) {
            Ok(message) => format!("taken: {message}"),
            Err(error) => error.to_string(),
        })
        .collect();
    insta::assert_snapshot!("every_kind_of_value_has_its_article", all.join("\n"));
}

/// `Problem` may grow, so no match outside its crate can be complete; its source is asked instead.
#[test]
fn no_problem_is_forgotten() {
    let source = include_str!("../../src/problem.rs");
    let names: Vec<_> = source
        .split_once("fn name(")
        .and_then(|(_, rest)| rest.split_once("\n    }\n"))
        .map(|(body, _)| {
            body.lines()
                .filter_map(|line| line.split('"').nth(1))
                .collect()
        })
        .unwrap();
    assert!(
        names.len() > 30,
        "the source is not read as it should be: {names:?}"
    );
    let shown: Vec<_> = WIRE.iter().map(|(name, ..)| *name).chain(TYPED).collect();
    for name in &names {
        assert!(shown.contains(name), "`{name}` has no snapshot");
    }
    for name in shown {
        assert!(names.contains(&name), "`{name}` is no problem any more");
    }
}

#[test]
fn what_was_sent_is_not_sent_back() {
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
        let told = |rejection: &Rejection| {
            format!("{rejection} {rejection:?} {}", rejection.answer().unwrap())
        };
        let told = told(&rejection(text.as_bytes(), &STRICT));
        assert!(!told.contains("secret"), "{told}");
    }
}
