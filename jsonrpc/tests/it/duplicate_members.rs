//! Duplicate members: rejected where the envelope defines them, also if they are escaped.

use crate::classify::{check_members, code_and_id, envelope, expect_message, expect_rejection};
use interzone_jsonrpc::{ExtraMembers, Message, Policy, RawJson};
use serde_json::Value;

/// The value that makes each member valid.
const MEMBERS: [(&str, &str); 6] = [
    ("jsonrpc", r#""2.0""#),
    ("id", "1"),
    ("method", r#""a""#),
    ("params", "{}"),
    ("result", "1"),
    ("error", r#"{"code":1,"message":"m"}"#),
];

/// Returns the member name with its `nth` character escaped.
fn escape_nth(name: &str, nth: usize) -> String {
    let spell = |(index, character): (usize, char)| match index == nth {
        true => format!("\\u{:04X}", u32::from(character)),
        false => character.to_string(),
    };
    name.chars().enumerate().map(spell).collect()
}

#[test]
fn duplicate_envelope_member_is_rejected() {
    for (name, value) in MEMBERS {
        let spellings = (0..name.len()).map(|nth| escape_nth(name, nth));
        for second in spellings.chain([name.to_owned()]) {
            for (one, two) in [(name, second.as_str()), (second.as_str(), name)] {
                let text = format!(r#"{{"{one}":{value},"x":0,"{two}":{value}}}"#);
                for policy in [Policy::STANDARD, Policy::SERVER, Policy::CLIENT] {
                    let rejection = expect_rejection(text.as_bytes(), &policy);
                    assert_eq!(rejection.kind().name(), "duplicate_member", "{text}");
                    assert_eq!(rejection.kind().field(), Some(name), "{text}");
                    let offset = text.rfind(&format!("\"{two}\":")).unwrap();
                    assert_eq!(rejection.position().offset, offset, "{text}");
                }
                assert_eq!(
                    code_and_id(text.as_bytes(), &Policy::SERVER),
                    (-32600, Value::Null)
                );
            }
        }
    }
}

#[test]
fn duplicate_error_object_member_is_rejected() {
    for (name, value) in [("code", "1"), ("message", r#""m""#), ("data", "{}")] {
        for second in [
            name.to_owned(),
            escape_nth(name, 0),
            escape_nth(name, name.len() - 1),
        ] {
            let error = format!(r#"{{"code":1,"message":"m","data":{{}},"{second}":{value}}}"#);
            let text = envelope(&format!(r#""id":1,"error":{error}"#));
            let rejection = expect_rejection(text.as_bytes(), &Policy::STANDARD);
            let field = format!("error.{name}");
            assert_eq!(rejection.kind().name(), "duplicate_member", "{text}");
            assert_eq!(rejection.kind().field(), Some(field.as_str()), "{text}");
            assert!(serde_json::from_str::<interzone_jsonrpc::ErrorObject>(&error).is_err());
        }
    }
}

#[test]
fn second_error_member_is_a_duplicate() {
    let object = r#"{"code":1,"message":"m"}"#;
    for (first, second) in [
        (object, object),
        (object, "null"),
        ("null", object),
        ("null", "null"),
        ("1", "[]"),
        (object, r#"{"code":1,"code":2}"#),
    ] {
        let text = envelope(&format!(r#""id":1,"error":{first},"error":{second}"#));
        assert_eq!(
            expect_rejection(text.as_bytes(), &Policy::STANDARD)
                .kind()
                .field(),
            Some("error"),
            "{text}"
        );
    }
}

#[test]
fn duplicate_extra_members_follow_the_policy() {
    let rows = [
        r#""method":"a","id":1,"x":1,"x":2"#,
        r#""method":"a","id":1,"x":1,"\u0078":2"#,
        r#""method":"a","id":1,"ID":1,"Id":2,"id ":3"#,
        r#""method":"a","id":1,"":1,"":2"#,
        r#""method":"a","id":1,"code":1,"code":2"#,
    ];
    for members in rows {
        check_members(&Policy::STANDARD, &[(members, "request")]);
        let strict = Policy {
            extra_members: ExtraMembers::Refuse,
            ..Policy::STANDARD
        };
        check_members(&strict, &[(members, "extra_member")]);
    }
    check_members(
        &Policy::STANDARD,
        &[(
            r#""id":1,"error":{"code":1,"message":"m","x":1,"x":2}"#,
            "failure",
        )],
    );
}

#[test]
fn duplicates_in_params_result_and_data_are_kept() {
    let twice =
        r#"{"id":1,"id":2,"jsonrpc":"1.0","jsonrpc":[],"code":1,"code":2,"x":{"x":1,"x":2}}"#;
    let text = envelope(&format!(r#""method":"a","id":1,"params":{twice}"#));
    let Message::Request(request) = expect_message(&text, &Policy::SERVER) else {
        panic!("{text}")
    };
    assert_eq!(request.params().map(RawJson::as_str), Some(twice));

    for outcome in [
        format!(r#""result":{twice}"#),
        format!(r#""error":{{"code":1,"message":"m","data":{twice}}}"#),
    ] {
        let text = envelope(&format!(r#""id":1,{outcome}"#));
        assert_eq!(expect_message(&text, &Policy::STANDARD).to_string(), text);
    }
}

#[test]
fn duplicate_member_is_reported_before_other_errors() {
    check_members(
        &Policy::SERVER,
        &[
            (r#""id":null,"id":1.5,"method":7"#, "duplicate_member"),
            (r#""result":1,"result":1,"error":1"#, "duplicate_member"),
            (r#""jsonrpc":1"#, "duplicate_member"),
        ],
    );
}
