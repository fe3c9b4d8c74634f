//! Reserved method names, which begin with `rpc.`.

use crate::classify::{
    check_members, classify, code_and_id, envelope, error_responses, expect_message,
};
use interzone_jsonrpc::{InvalidMethod, Message, MethodName, Policy};
use serde_json::{Value, json};

#[test]
fn reserved_method_name_cannot_be_built() {
    for (name, expected) in [
        ("rpc.", Err(InvalidMethod::Reserved)),
        ("rpc.discover", Err(InvalidMethod::Reserved)),
        ("rpc..", Err(InvalidMethod::Reserved)),
        ("rpc.\u{0}", Err(InvalidMethod::Reserved)),
        ("", Err(InvalidMethod::Empty)),
        ("rpc", Ok("rpc")),
        ("rpcx.a", Ok("rpcx.a")),
        ("RPC.a", Ok("RPC.a")),
        (" rpc.a", Ok(" rpc.a")),
        ("a.rpc.b", Ok("a.rpc.b")),
        ("rpc\u{ff0e}a", Ok("rpc\u{ff0e}a")),
    ] {
        let by_new = MethodName::new(name);
        assert_eq!(
            by_new.as_ref().map(MethodName::as_str),
            expected.as_ref().copied()
        );
        assert_eq!(MethodName::try_from(name), by_new);
        assert_eq!(MethodName::try_from(name.to_owned()), by_new);
    }
}

#[test]
fn reserved_method_is_unknown_and_id_is_echoed() {
    for (id, echoed) in [
        ("1", json!(1)),
        (r#""1""#, json!("1")),
        (r#""""#, json!("")),
        ("-9223372036854775808", json!(i64::MIN)),
        (r#""\u00e9\"""#, json!("é\"")),
        ("null", Value::Null),
    ] {
        for name in ["rpc.discover", "rpc.", r"rp\u0063.x", r"rpc\u002ex"] {
            let text = envelope(&format!(r#""id":{id},"method":"{name}","params":[]"#));
            assert_eq!(
                code_and_id(text.as_bytes(), &Policy::SERVER),
                (-32601, echoed.clone()),
                "{text}"
            );
        }
    }
}

#[test]
fn reserved_notification_gets_no_response() {
    let text = envelope(r#""method":"rpc.discover""#);
    assert_eq!(classify(&text, &Policy::SERVER), "method_reserved");
    assert_eq!(error_responses(text.as_bytes(), &Policy::SERVER), None);
    let batch = format!("[{text},{text}]");
    assert_eq!(error_responses(batch.as_bytes(), &Policy::SERVER), None);
}

#[test]
fn malformed_reserved_call_is_an_invalid_request() {
    check_members(
        &Policy::SERVER,
        &[
            (r#""method":"rpc.a","id":1.5"#, "id_not_integer"),
            (r#""method":"rpc.a","id":[]"#, "id_kind"),
            (r#""method":"rpc.a","id":1,"params":1"#, "params_scalar"),
            (r#""method":"rpc.a","id":1,"id":1"#, "duplicate_member"),
            (
                r#""method":"rpc.a","id":1,"result":1"#,
                "request_and_response",
            ),
        ],
    );
}

#[test]
fn standard_policy_accepts_reserved_methods() {
    let text = envelope(r#""id":1,"method":"rpc.discover""#);
    let Message::Request(request) = expect_message(&text, &Policy::STANDARD) else {
        panic!("{text}")
    };
    assert!(request.is_reserved());
    assert_eq!(request.to_string(), text);

    let text = envelope(r#""method":"rpc.discover""#);
    let Message::Notification(note) = expect_message(&text, &Policy::STANDARD) else {
        panic!("{text}")
    };
    assert!(note.is_reserved());

    let text = envelope(r#""id":1,"method":"rpc""#);
    let Message::Request(request) = expect_message(&text, &Policy::SERVER) else {
        panic!("{text}")
    };
    assert!(!request.is_reserved());
}
