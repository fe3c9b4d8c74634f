//! Names that begin with `rpc.`: nobody can call them by accident, and nobody answers to them.

use crate::verdict::{check_members, code_and_id, envelope, message, reply, verdict};
use interzone_jsonrpc::{InvalidMethod, Message, MethodName, Policy};
use serde_json::{Value, json};

#[test]
fn they_cannot_be_built() {
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
fn on_the_wire_they_are_unknown_methods_and_the_id_is_echoed() {
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
fn as_notifications_they_are_met_with_silence() {
    let text = envelope(r#""method":"rpc.discover""#);
    assert_eq!(verdict(&text, &Policy::SERVER), "method_reserved");
    assert_eq!(reply(text.as_bytes(), &Policy::SERVER), None);
    let batch = format!("[{text},{text}]");
    assert_eq!(reply(batch.as_bytes(), &Policy::SERVER), None);
}

#[test]
fn a_reserved_call_that_is_not_well_formed_is_invalid_first() {
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
fn whoever_only_looks_may_see_them() {
    let text = envelope(r#""id":1,"method":"rpc.discover""#);
    let Message::Request(request) = message(&text, &Policy::STANDARD) else {
        panic!("{text}")
    };
    assert!(request.is_reserved());
    assert_eq!(request.to_string(), text);

    let text = envelope(r#""method":"rpc.discover""#);
    let Message::Notification(note) = message(&text, &Policy::STANDARD) else {
        panic!("{text}")
    };
    assert!(note.is_reserved());

    let text = envelope(r#""id":1,"method":"rpc""#);
    let Message::Request(request) = message(&text, &Policy::SERVER) else {
        panic!("{text}")
    };
    assert!(!request.is_reserved());
}
