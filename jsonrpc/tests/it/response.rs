//! Validation of responses: exactly one outcome, a complete error object, an id.

use crate::classify::{check_members, envelope, expect_message};
use interzone_jsonrpc::{
    ErrorCode, ErrorObject, JsonKind, Message, Policy, RawJson, RequestId, Response,
};

fn response<'a>(text: &'a str) -> Response<'a> {
    match expect_message(text, &Policy::STANDARD) {
        Message::Response(response) => response,
        other => panic!("{text} is {other:?}"),
    }
}

#[test]
fn any_json_value_is_a_valid_result() {
    for result in [
        "null",
        "true",
        "0",
        "-0",
        "1.50",
        "1e400",
        "123456789012345678901234567890",
        r#""""#,
        "[]",
        "{}",
        r#"{"error":{"code":1}}"#,
        r#"[ 1 , { "a" : null } ]"#,
    ] {
        let text = envelope(&format!(r#""id":1,"result":{result}"#));
        let response = response(&text);
        assert_eq!(response.result().map(RawJson::as_str), Some(result));
        assert_eq!(response.error(), None);
        assert_eq!(
            response.to_string(),
            text,
            "every digit and space is preserved"
        );
        assert!(
            response
                .decode_result::<serde::de::IgnoredAny>()
                .unwrap()
                .is_ok()
        );
        assert_eq!(response.into_outcome().unwrap().as_str(), result);
    }
}

#[test]
fn response_needs_exactly_one_of_result_and_error() {
    let error = r#""error":{"code":1,"message":"m"}"#;
    for (members, expected) in [
        (r#""result":0"#.to_owned(), "success"),
        (error.to_owned(), "failure"),
        (format!(r#""result":0,{error}"#), "result_and_error"),
        (format!(r#"{error},"result":0"#), "result_and_error"),
        (format!(r#""result":null,{error}"#), "result_and_error"),
        (r#""result":0,"error":null"#.to_owned(), "result_and_error"),
        (r#""result":0,"error":1"#.to_owned(), "result_and_error"),
        (r#""result":0,"error":{}"#.to_owned(), "result_and_error"),
        (r#""outcome":0"#.to_owned(), "not_a_message"),
        (
            r#""method":"a","result":0"#.to_owned(),
            "request_and_response",
        ),
        (format!(r#""method":"a",{error}"#), "request_and_response"),
        (
            format!(r#""method":"a","result":0,{error}"#),
            "request_and_response",
        ),
        (
            r#""method":null,"result":0"#.to_owned(),
            "request_and_response",
        ),
    ] {
        let members = format!(r#""id":1,{members}"#);
        check_members(&Policy::CLIENT, &[(&members, expected)]);
    }
}

#[test]
fn error_object_needs_code_and_message() {
    for (error, expected) in [
        ("null", "error_kind"),
        ("1", "error_kind"),
        (r#""m""#, "error_kind"),
        (r#"[1,"m"]"#, "error_kind"),
        ("true", "error_kind"),
        ("{}", "error_code_missing"),
        (r#"{"message":"m"}"#, "error_code_missing"),
        (r#"{"code":1}"#, "error_message_missing"),
        (r#"{"code":1,"data":"m"}"#, "error_message_missing"),
        (r#"{"code":1,"message":null}"#, "error_message_kind"),
        (r#"{"code":1,"message":1}"#, "error_message_kind"),
        (r#"{"code":1,"message":["m"]}"#, "error_message_kind"),
        (r#"{"code":null,"message":"m"}"#, "error_code_wrong"),
        (r#"{"code":1,"message":""}"#, "failure"),
        (r#"{"message":"m","code":1}"#, "failure"),
        (r#"{"\u0063ode":1,"messag\u0065":"m"}"#, "failure"),
        (r#"{"Code":1,"message":"m"}"#, "error_code_missing"),
    ] {
        let members = format!(r#""id":1,"error":{error}"#);
        check_members(&Policy::STANDARD, &[(&members, expected)]);
        assert_eq!(
            serde_json::from_str::<ErrorObject>(error).is_ok(),
            expected == "failure",
            "{error}"
        );
    }
}

#[test]
fn error_code_is_a_plain_32_bit_integer() {
    for (code, expected) in [
        ("0", Some(0)),
        ("-1", Some(-1)),
        ("-32700", Some(-32700)),
        ("2147483647", Some(i32::MAX)),
        ("-2147483648", Some(i32::MIN)),
        ("2147483648", None),
        ("-2147483649", None),
        ("9223372036854775808", None),
        ("1.0", None),
        ("1e1", None),
        ("-0", None),
        (r#""1""#, None),
        ("null", None),
        ("true", None),
        ("[1]", None),
    ] {
        let error = format!(r#"{{"code":{code},"message":"m"}}"#);
        let read = serde_json::from_str::<ErrorObject>(&error).ok();
        assert_eq!(read.map(|error| error.code().get()), expected, "{code}");
        if let Some(number) = expected {
            assert_eq!(
                serde_json::to_string(&ErrorObject::new(number, "m")).unwrap(),
                error
            );
        }
    }
}

#[test]
fn null_error_data_counts_as_absent() {
    let text = envelope(r#""id":1,"error":{"code":1,"message":"m","data":null}"#);
    let failed = response(&text);
    assert_eq!(failed.error().unwrap().data(), None);
    assert_eq!(
        failed.to_string(),
        envelope(r#""id":1,"error":{"code":1,"message":"m"}"#)
    );
    assert_eq!(
        ErrorObject::new(1, "m").with_data(RawJson::NULL),
        ErrorObject::new(1, "m")
    );
    for data in ["0", "false", r#""""#, "[]", "{}", r#"{"null":null}"#] {
        let text = envelope(&format!(
            r#""id":1,"error":{{"code":1,"message":"m","data":{data}}}"#
        ));
        assert_eq!(response(&text).to_string(), text);
    }
    let cleared = ErrorObject::new(1, "m")
        .with_data(RawJson::from_value(&1).unwrap())
        .with_data(RawJson::NULL);
    assert_eq!(cleared.data(), None);
}

#[test]
fn failure_response_writes_string_and_null_ids() {
    let failure = Response::failure(
        Some(RequestId::from("")),
        ErrorObject::standard(ErrorCode::new(7)),
    );
    assert_eq!(failure.id(), Some(&RequestId::from("")));
    assert_eq!(
        failure.to_string(),
        r#"{"jsonrpc":"2.0","id":"","error":{"code":7,"message":"Server error"}}"#
    );
    let without_id = Response::failure(None, ErrorObject::standard(ErrorCode::PARSE_ERROR));
    assert_eq!(without_id.id(), None);
    assert!(without_id.decode_result::<()>().is_none());
    assert!(without_id.to_string().contains(r#""id":null"#));
    check_members(
        &Policy::STANDARD,
        &[(r#""id":null,"error":{"code":1,"message":"m"}"#, "failure")],
    );
}

#[test]
fn debug_output_contains_no_content() {
    let secret = RawJson::from_value(&["xoxb-secret"]).unwrap();
    assert_eq!(secret.kind(), JsonKind::Array);
    assert!(!format!("{secret:?}").contains("secret"));
    let response = Response::success(1, secret);
    assert!(!format!("{response:?}").contains("secret"));
}
