//! The Cauce rules for request ids and messages, row by row.

use crate::classify::{
    check_labels, check_members, code_and_id, envelope, error_responses, expect_message,
};
use interzone_jsonrpc::{
    Batches, ErrorCode, ErrorObject, Message, MethodName, MissingErrorId, Notification, Policy,
    RawJson, Request, RequestId, Response,
};
use serde_json::{Value, json};

/// The hub's side of a WebSocket: both sides send requests and responses, and there are no batches.
const HUB: Policy = Policy {
    batches: Batches::Refuse,
    ..Policy::STANDARD
};

/// A reader of responses that accepts an error without an id.
const LENIENT: Policy = Policy {
    missing_error_id: MissingErrorId::Null,
    ..HUB
};

#[test]
fn request_id_is_a_string_or_a_signed_64_bit_integer() {
    for (id, valid) in [
        (r#""a""#, true),
        (r#""""#, true),
        ("0", true),
        ("1", true),
        ("-1", true),
        ("9223372036854775807", true),
        ("-9223372036854775808", true),
        ("1.0", false),
        ("1.5", false),
        ("1e3", false),
        ("1E3", false),
        ("0e0", false),
        ("-0", false),
        ("-0.0", false),
        ("9223372036854775808", false),
        ("-9223372036854775809", false),
        ("18446744073709551615", false),
        ("18446744073709551616", false),
        ("1e400", false),
        ("null", false),
        ("true", false),
        ("false", false),
        ("[]", false),
        ("[1]", false),
        ("{}", false),
    ] {
        let alone = serde_json::from_str::<RequestId>(id);
        assert_eq!(alone.is_ok(), valid, "{id} alone");
        for shape in [
            format!(r#""id":{id},"method":"a""#),
            format!(r#""id":{id},"result":1"#),
        ] {
            let text = envelope(&shape);
            let parsed = serde_json::from_str::<Message>(&text);
            assert_eq!(parsed.is_ok(), valid, "{text}");
            if let Ok(parsed) = parsed {
                assert_eq!(parsed.to_string(), text, "the id keeps its type and value");
            }
            if !valid && shape.contains("method") {
                assert_eq!(code_and_id(text.as_bytes(), &HUB), (-32600, Value::Null));
            } else if !valid {
                // A hub may receive responses, so it does not answer a broken one.
                assert_eq!(error_responses(text.as_bytes(), &HUB), None, "{text}");
            }
        }
    }
}

#[test]
fn version_must_be_exactly_2_0() {
    for policy in [HUB, LENIENT, Policy::STANDARD, Policy::SERVER] {
        check_labels(
            &policy,
            &[
                (r#"{"id":1,"method":"a"}"#, "version_missing"),
                (r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#, "version_wrong"),
                (r#"{"jsonrpc":2.0,"id":1,"method":"a"}"#, "version_wrong"),
                (r#"{"jsonrpc":2,"id":1,"method":"a"}"#, "version_wrong"),
                (r#"{"jsonrpc":"2","id":1,"method":"a"}"#, "version_wrong"),
                (r#"{"jsonrpc":"2.0 ","id":1,"method":"a"}"#, "version_wrong"),
                (r#"{"jsonrpc":"","id":1,"method":"a"}"#, "version_wrong"),
                (r#"{"jsonrpc":null,"id":1,"method":"a"}"#, "version_wrong"),
                (
                    r#"{"jsonrpc":["2.0"],"id":1,"method":"a"}"#,
                    "version_wrong",
                ),
                (
                    r#"{"JSONRPC":"2.0","id":1,"method":"a"}"#,
                    "version_missing",
                ),
                (r#"{"JsonRpc":"2.0","id":1,"result":1}"#, "version_missing"),
            ],
        );
    }
    // An escaped version is the same string.
    let escaped = r#"{"jsonrpc":"2\u002e\u0030","method":"a"}"#;
    check_labels(&HUB, &[(escaped, "notification")]);
    let wrong = br#"{"jsonrpc":"1.0","id":1,"method":"a"}"#;
    assert_eq!(code_and_id(wrong, &HUB), (-32600, Value::Null));
}

#[test]
fn calls_are_validated() {
    check_members(
        &HUB,
        &[
            // A null id makes neither a request nor a notification.
            (r#""id":null,"method":"a""#, "id_null"),
            (r#""id":1.5,"method":"a""#, "id_not_integer"),
            (r#""id":true,"method":"a""#, "id_kind"),
            (r#""id":[1],"method":"a""#, "id_kind"),
            (r#""id":{},"method":"a""#, "id_kind"),
            (r#""id":9223372036854775808,"method":"a""#, "id_not_integer"),
            (r#""method":"a""#, "notification"),
            (r#""id":1,"method":"""#, "method_empty"),
            (r#""method":"""#, "method_empty"),
            (r#""id":1"#, "not_a_message"),
            (r#""params":{}"#, "not_a_message"),
            (r#""id":1,"method":1"#, "method_kind"),
            (r#""id":1,"method":null"#, "method_kind"),
            (r#""id":1,"method":["a"]"#, "method_kind"),
            (r#""id":1,"method":{}"#, "method_kind"),
            (r#""id":1,"method":true"#, "method_kind"),
            (r#""id":1,"method":" ""#, "request"),
            (r#""id":1,"METHOD":"a""#, "not_a_message"),
            // Any JSON value may be params.
            (r#""id":1,"method":"a","params":null"#, "request"),
            (r#""id":1,"method":"a","params":1"#, "request"),
            (r#""id":1,"method":"a","params":"s""#, "request"),
            (r#""id":1,"method":"a","params":false"#, "request"),
            (r#""id":1,"method":"a","params":[1]"#, "request"),
            (r#""id":1,"method":"a","params":{}"#, "request"),
            (r#""method":"a","params":0"#, "notification"),
            // Unknown members are ignored.
            (r#""id":1,"method":"a","more":{"id":2}"#, "request"),
            (r#""method":"a","ID":1"#, "notification"),
        ],
    );
    for members in [r#""id":null,"method":"a""#, r#""id":1,"method":"""#] {
        let text = envelope(members);
        assert_eq!(code_and_id(text.as_bytes(), &HUB), (-32600, Value::Null));
    }
}

#[test]
fn null_params_count_as_absent() {
    let text = envelope(r#""id":1,"method":"a","params":null"#);
    let Message::Request(request) = expect_message(&text, &HUB) else {
        panic!("{text}")
    };
    assert_eq!(request.params(), None);
    assert_eq!(
        request.to_string(),
        r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#
    );
}

#[test]
fn notification_has_no_id() {
    let with_id = envelope(r#""id":1,"method":"a""#);
    assert!(matches!(
        expect_message(&with_id, &HUB),
        Message::Request(_)
    ));
    assert!(serde_json::from_str::<Notification>(&with_id).is_err());
    assert!(serde_json::from_str::<Notification>(&envelope(r#""id":null,"method":"a""#)).is_err());
    assert!(serde_json::from_str::<Notification>(&envelope(r#""method":"a""#)).is_ok());
    assert!(serde_json::from_str::<Request>(&envelope(r#""method":"a""#)).is_err());
}

#[test]
fn message_must_be_an_object() {
    check_labels(
        &HUB,
        &[
            (r#"["2.0",1,"cauce.ping",null]"#, "batch_refused"),
            (
                r#"[{"jsonrpc":"2.0","id":1,"method":"a"}]"#,
                "batch_refused",
            ),
            ("[]", "batch_refused"),
            ("1", "not_an_object"),
            ("\"a\"", "not_an_object"),
            ("null", "not_an_object"),
            ("true", "not_an_object"),
            ("{}", "version_missing"),
        ],
    );
    for text in [r#"["2.0",1,"cauce.ping",null]"#, "[]", "1", "null"] {
        assert_eq!(code_and_id(text.as_bytes(), &HUB), (-32600, Value::Null));
        assert!(serde_json::from_str::<Message>(text).is_err(), "{text}");
        assert!(serde_json::from_str::<Request>(text).is_err(), "{text}");
    }
    let positional = r#"["2.0",1,"cauce.ping",null]"#;
    assert!(serde_json::from_str::<Request>(positional).is_err());
    assert!(serde_json::from_str::<ErrorObject>(r#"[-32600,"message",null]"#).is_err());
}

#[test]
fn responses_are_validated() {
    check_members(
        &HUB,
        &[
            (
                r#""id":1,"result":1,"error":{"code":1,"message":"m"}"#,
                "result_and_error",
            ),
            (
                r#""id":1,"result":null,"error":{"code":1,"message":"m"}"#,
                "result_and_error",
            ),
            (r#""id":1,"result":1,"error":null"#, "result_and_error"),
            (r#""id":1,"result":null,"error":null"#, "result_and_error"),
            (r#""id":1"#, "not_a_message"),
            (r#""id":1,"result":null"#, "success"),
            (r#""id":null,"result":1"#, "id_null"),
            (r#""result":1"#, "id_missing"),
            (r#""id":1.5,"result":1"#, "id_not_integer"),
            (r#""id":null,"error":{"code":1,"message":"m"}"#, "failure"),
            (r#""error":{"code":1,"message":"m"}"#, "id_missing"),
            (
                r#""id":1.5,"error":{"code":1,"message":"m"}"#,
                "id_not_integer",
            ),
            (r#""id":[],"error":{"code":1,"message":"m"}"#, "id_kind"),
            (r#""id":1,"error":null"#, "error_kind"),
            (r#""id":1,"error":{"code":1}"#, "error_message_missing"),
            (r#""id":1,"error":{"message":"m"}"#, "error_code_missing"),
            (
                r#""id":1,"error":{"code":1.0,"message":"m"}"#,
                "error_code_wrong",
            ),
            (
                r#""id":1,"error":{"code":"1","message":"m"}"#,
                "error_code_wrong",
            ),
            (
                r#""id":1,"error":{"code":2147483648,"message":"m"}"#,
                "error_code_wrong",
            ),
            (
                r#""id":1,"error":{"code":2147483647,"message":"m"}"#,
                "failure",
            ),
            (
                r#""id":1,"error":{"code":-2147483648,"message":"m"}"#,
                "failure",
            ),
            (
                r#""id":1,"error":{"code":-2147483649,"message":"m"}"#,
                "error_code_wrong",
            ),
            (
                r#""id":1,"error":{"code":1,"message":"m","data":null}"#,
                "failure",
            ),
            (r#""id":1,"result":1,"more":1"#, "success"),
            (r#""id":1,"result":1,"params":{}"#, "success"),
            (r#""id":1,"result":1,"result":2"#, "duplicate_member"),
            (r#""id":1,"method":"a","result":1"#, "request_and_response"),
            (
                r#""method":"a","error":{"code":1,"message":"m"}"#,
                "request_and_response",
            ),
        ],
    );
    check_members(
        &LENIENT,
        &[
            (r#""error":{"code":1,"message":"m"}"#, "failure"),
            (r#""id":null,"error":{"code":1,"message":"m"}"#, "failure"),
            // A malformed id is always reported.
            (
                r#""id":1.5,"error":{"code":1,"message":"m"}"#,
                "id_not_integer",
            ),
            (r#""result":1"#, "id_missing"),
            (r#""id":null,"result":1"#, "id_null"),
        ],
    );
}

#[test]
fn duplicate_members_and_trailing_bytes_are_rejected() {
    check_labels(
        &HUB,
        &[
            (
                r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"a"}"#,
                "duplicate_member",
            ),
            (
                r#"{"jsonrpc":"2.0","jsonrpc":"2.0","method":"a"}"#,
                "duplicate_member",
            ),
            (
                " \t\r\n{\"jsonrpc\":\"2.0\",\"method\":\"a\"} \n",
                "notification",
            ),
            (r#"{"jsonrpc":"2.0","method":"a"} x"#, "trailing_bytes"),
            (r#"{"jsonrpc":"2.0","method":"a"}{}"#, "trailing_bytes"),
        ],
    );
    let trailing = br#"{"jsonrpc":"2.0","id":1,"method":"a"} x"#;
    assert_eq!(code_and_id(trailing, &HUB), (-32700, Value::Null));
}

#[test]
fn written_message_has_required_members_only() {
    let sent = |response: Response| serde_json::from_slice::<Value>(&response.to_vec()).unwrap();
    assert_eq!(
        sent(Response::success(1, RawJson::NULL)),
        json!({"jsonrpc": "2.0", "id": 1, "result": null})
    );
    assert_eq!(
        sent(Response::failure(
            None,
            ErrorObject::new(1, "m").with_data(RawJson::NULL)
        )),
        json!({"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": "m"}})
    );
    let note = Notification::new(MethodName::new("cauce.pong").unwrap());
    assert_eq!(
        note.clone().with_params(RawJson::NULL).to_string(),
        note.to_string()
    );
}

#[test]
fn error_codes_match_the_specification() {
    for (code, number, message) in [
        (ErrorCode::PARSE_ERROR, -32700, "Parse error"),
        (ErrorCode::INVALID_REQUEST, -32600, "Invalid Request"),
        (ErrorCode::METHOD_NOT_FOUND, -32601, "Method not found"),
        (ErrorCode::INVALID_PARAMS, -32602, "Invalid params"),
        (ErrorCode::INTERNAL_ERROR, -32603, "Internal error"),
    ] {
        assert_eq!(code.get(), number);
        assert_eq!(code.standard_message(), Some(message));
        assert!(code.is_reserved() && !code.is_server_error());
    }
    for (number, reserved, server) in [
        (-32769, false, false),
        (-32768, true, false),
        (-32100, true, false),
        (-32099, true, true),
        (-32000, true, true),
        (-31999, false, false),
        (-40001, false, false),
    ] {
        let code = ErrorCode::new(number);
        assert_eq!(code.is_reserved(), reserved, "{number}");
        assert_eq!(code.is_server_error(), server, "{number}");
    }
}
