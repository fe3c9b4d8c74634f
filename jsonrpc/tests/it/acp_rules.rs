//! The ACP rules that apply to the JSON-RPC envelope.

use crate::classify::{
    check_labels, check_members, classify, code_and_id, envelope, error_responses, expect_message,
};
use interzone_jsonrpc::{
    ExtraMembers, JsonKind, Message, NullId, ParamsShape, Policy, RawJson, Responses,
};
use serde_json::{Value, json};

/// The server: no extra members, and a null id is allowed in a request.
const ENDPOINT: Policy = Policy {
    extra_members: ExtraMembers::Refuse,
    ..Policy::SERVER
};

/// The client, with the same strictness for responses.
const CALLER: Policy = Policy {
    extra_members: ExtraMembers::Refuse,
    null_id: NullId::Answer,
    params: ParamsShape::Structured,
    responses: Responses::Admit,
    ..Policy::STANDARD
};

#[test]
fn request_with_extra_member_is_rejected() {
    check_members(
        &ENDPOINT,
        &[
            (
                r#""method":"tasks.get","params":{"taskId":"t"},"id":"1""#,
                "request",
            ),
            (r#""method":"tasks.get","id":1"#, "request"),
            (r#""method":"tasks.get""#, "notification"),
            (r#""method":"tasks.get","id":1,"meta":{}"#, "extra_member"),
            (r#""meta":null,"method":"tasks.get","id":1"#, "extra_member"),
            (
                r#""method":"tasks.get","Method":"x","id":1"#,
                "extra_member",
            ),
            (r#""method":"tasks.get","meta":1"#, "extra_member"),
            (r#""method":"tasks.get","":1"#, "extra_member"),
            (r#""id":1,"params":{}"#, "not_a_message"),
            (r#""id":1,"method":7"#, "method_kind"),
        ],
    );
    check_labels(
        &ENDPOINT,
        &[(r#"{"method":"tasks.get","id":1}"#, "version_missing")],
    );
}

#[test]
fn response_with_extra_member_or_two_outcomes_is_rejected() {
    check_members(
        &CALLER,
        &[
            (r#""id":1,"result":{"type":"task"}"#, "success"),
            (r#""id":1,"error":{"code":-40001,"message":"m"}"#, "failure"),
            (
                r#""id":1,"error":{"code":-40001,"message":"m","data":{}}"#,
                "failure",
            ),
            (r#""id":1,"result":null,"error":null"#, "result_and_error"),
            (
                r#""id":1,"result":{},"error":{"code":1,"message":"m"}"#,
                "result_and_error",
            ),
            (r#""id":1"#, "not_a_message"),
            (r#""result":1"#, "id_missing"),
            (r#""error":{"code":1,"message":"m"}"#, "id_missing"),
            (r#""id":1,"result":1,"meta":1"#, "extra_member"),
            (r#""id":1,"result":1,"params":{}"#, "extra_member"),
            (
                r#""id":1,"error":{"code":1,"message":"m","more":1}"#,
                "extra_member",
            ),
            // Members inside the result are not checked.
            (r#""id":1,"result":{"meta":1,"meta":2}"#, "success"),
        ],
    );
}

#[test]
fn response_echoes_id_with_type_and_value() {
    for id in [
        r#""1""#,
        "1",
        r#""""#,
        "0",
        "-1",
        "4611686018427387904",
        "9223372036854775807",
        "-9223372036854775808",
        r#""é\"\\\n""#,
        "null",
    ] {
        let text = envelope(&format!(r#""method":"tasks.get","id":{id}"#));
        let Message::Request(request) = expect_message(&text, &ENDPOINT) else {
            panic!("{text}")
        };
        let answer = request.succeed(RawJson::NULL).to_string();
        assert_eq!(
            answer,
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":null}}"#)
        );
    }
}

#[test]
fn id_of_another_type_is_an_invalid_request() {
    for id in [
        "true", "false", "[]", "[1]", "{}", "1.5", "1.0", "1e2", "-0",
    ] {
        let text = envelope(&format!(r#""method":"tasks.get","id":{id}"#));
        assert_eq!(
            code_and_id(text.as_bytes(), &ENDPOINT),
            (-32600, Value::Null),
            "{id}"
        );
    }
}

#[test]
fn unreadable_id_is_answered_with_null() {
    for (text, code) in [
        (r#"{"jsonrpc":"2.0","id":1"#, -32700),
        ("", -32700),
        (r#"{"jsonrpc":"2.0","id":1}"#, -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#, -32600),
    ] {
        assert_eq!(
            code_and_id(text.as_bytes(), &ENDPOINT),
            (code, Value::Null),
            "{text}"
        );
    }
}

#[test]
fn notification_gets_no_response() {
    for members in [
        r#""method":"tasks.get""#,
        r#""method":"unknown.method""#,
        r#""method":"rpc.discover""#,
    ] {
        assert_eq!(
            error_responses(envelope(members).as_bytes(), &ENDPOINT),
            None
        );
    }
}

#[test]
fn null_id_is_answered_with_null_id() {
    let text = envelope(r#""method":"tasks.get","id":null"#);
    assert_eq!(classify(&text, &ENDPOINT), "request");
    let Message::Request(request) = expect_message(&text, &ENDPOINT) else {
        panic!("{text}")
    };
    assert_eq!(request.id(), None);
    let answer = request.succeed(RawJson::NULL).to_string();
    assert_eq!(classify(&answer, &CALLER), "success", "{answer}");
}

#[test]
fn batch_items_are_answered_one_by_one_up_to_1000() {
    assert_eq!(code_and_id(b"[]", &ENDPOINT), (-32600, Value::Null));
    assert_eq!(code_and_id(b" [ ] ", &ENDPOINT), (-32600, Value::Null));
    check_labels(
        &ENDPOINT,
        &[
            ("[]", "empty_batch"),
            ("[1]", "[not_an_object]"),
            (r#"[{"jsonrpc":"2.0","method":"a"}]"#, "[notification]"),
            (
                r#"[1,{"jsonrpc":"2.0","method":"a","id":1},{"jsonrpc":"2.0","method":"a","x":1}]"#,
                "[not_an_object request extra_member]",
            ),
        ],
    );
    let nulls = error_responses(b"[1,\"a\",[]]", &ENDPOINT).unwrap();
    let codes: Vec<_> = nulls
        .as_array()
        .unwrap()
        .iter()
        .map(|answer| (&answer["error"]["code"], &answer["id"]))
        .collect();
    assert_eq!(codes, [(&json!(-32600), &Value::Null); 3]);

    let quiet = format!("[{0},{0}]", envelope(r#""method":"stream.chunk""#));
    assert_eq!(error_responses(quiet.as_bytes(), &ENDPOINT), None);

    let many = |count: usize| {
        let item = envelope(r#""method":"a","id":1"#);
        format!("[{}]", vec![item; count].join(","))
    };
    assert!(classify(many(1000), &ENDPOINT).starts_with("[request "));
    assert_eq!(
        code_and_id(many(1001).as_bytes(), &ENDPOINT),
        (-32600, Value::Null)
    );
}

#[test]
fn params_must_be_structured_and_are_passed_verbatim() {
    check_members(
        &ENDPOINT,
        &[
            (r#""method":"a","id":1,"params":"t""#, "params_scalar"),
            (r#""method":"a","id":1,"params":7"#, "params_scalar"),
            (r#""method":"a","id":1,"params":true"#, "params_scalar"),
            (r#""method":"a","id":1,"params":null"#, "request"),
            (
                r#""method":"a","id":1,"params":{"x":1,"y":{"z":[]}}"#,
                "request",
            ),
        ],
    );
    // An array is valid JSON-RPC; the method sees its kind and rejects it.
    let text = envelope(r#""method":"a","id":1,"params":["t"]"#);
    let Message::Request(request) = expect_message(&text, &ENDPOINT) else {
        panic!("{text}")
    };
    assert_eq!(request.params().map(RawJson::kind), Some(JsonKind::Array));

    // Unset members may be null, and are passed on as received.
    let nulls = r#"{"taskId":"t","timestamp":null,"metadata":{"reason":null}}"#;
    let text = envelope(&format!(r#""method":"a","id":1,"params":{nulls}"#));
    let Message::Request(request) = expect_message(&text, &ENDPOINT) else {
        panic!("{text}")
    };
    assert_eq!(request.params().map(RawJson::as_str), Some(nulls));
}

#[test]
fn invalid_json_is_a_parse_error() {
    for text in [
        &b"\xff"[..],
        b"NaN",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":{\"x\":NaN}}",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"a\"},",
        b"",
        b"   ",
    ] {
        assert_eq!(code_and_id(text, &ENDPOINT), (-32700, Value::Null));
    }
}
