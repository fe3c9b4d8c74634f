//! Ids keep their type and value from request to response.

use crate::classify::{envelope, expect_message};
use interzone_jsonrpc::{
    ErrorCode, ErrorObject, Message, MethodName, Policy, RawJson, Request, RequestId,
};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashSet};

/// Ids as JSON text, and their values.
fn spellings() -> Vec<(&'static str, RequestId<'static>)> {
    vec![
        ("0", RequestId::from(0)),
        ("1", RequestId::from(1)),
        ("-1", RequestId::from(-1)),
        (
            "9007199254740993",
            RequestId::from(9_007_199_254_740_993_i64),
        ),
        ("9223372036854775807", RequestId::from(i64::MAX)),
        ("-9223372036854775808", RequestId::from(i64::MIN)),
        (r#""""#, RequestId::from("")),
        (r#""1""#, RequestId::from("1")),
        (r#""null""#, RequestId::from("null")),
        (r#"" ""#, RequestId::from(" ")),
        (r#""a\"b""#, RequestId::from("a\"b")),
        (r#""\\""#, RequestId::from("\\")),
        (r#""\/""#, RequestId::from("/")),
        (r#""\u0041""#, RequestId::from("A")),
        (r#""\u0000""#, RequestId::from("\0")),
        (r#""\b\f\n\r\t""#, RequestId::from("\u{8}\u{c}\n\r\t")),
        (r#""\ud83e\udd80""#, RequestId::from("🦀")),
        (r#""日本語""#, RequestId::from("日本語")),
        (
            "\"\u{7f}\u{2028}\u{feff}\"",
            RequestId::from("\u{7f}\u{2028}\u{feff}"),
        ),
    ]
}

fn request<'a>(text: &'a str) -> Request<'a> {
    match expect_message(text, &Policy::SERVER) {
        Message::Request(request) => request,
        other => panic!("{text} is {other:?}"),
    }
}

#[test]
fn id_keeps_type_and_value_through_every_api() {
    for (spelt, id) in spellings() {
        let text = envelope(&format!(r#""id":{spelt},"method":"a""#));
        let request = request(&text);
        assert_eq!(request.id(), Some(&id), "{spelt}");

        let value: Value = serde_json::from_str(spelt).unwrap();
        for answer in [
            request.succeed(RawJson::NULL),
            request.fail(ErrorObject::standard(ErrorCode::INTERNAL_ERROR)),
        ] {
            assert_eq!(answer.id(), Some(&id));
            let sent: Value = serde_json::from_slice(&answer.to_vec()).unwrap();
            assert_eq!(sent["id"], value, "{spelt}");
        }
        assert_eq!(request.into_owned().id(), Some(&id));
        assert_eq!(serde_json::from_str::<RequestId>(spelt).unwrap(), id);
        assert_eq!(
            serde_json::from_value::<RequestId>(value.clone()).unwrap(),
            id
        );
        assert_eq!(serde_json::to_value(&id).unwrap(), value);
        assert_eq!(
            serde_json::from_str::<Value>(&id.to_string()).unwrap(),
            value
        );
        assert_eq!(id.borrowed(), id);
    }
}

#[test]
fn numeric_id_differs_from_string_id() {
    assert_ne!(RequestId::from(1), RequestId::from("1"));
    assert_eq!(RequestId::from(1).as_i64(), Some(1));
    assert_eq!(RequestId::from(1).as_str(), None);
    assert_eq!(RequestId::from("1").as_str(), Some("1"));
    assert_eq!(RequestId::from("1").as_i64(), None);
    assert_eq!(RequestId::from(1).to_string(), "1");
    assert_eq!(RequestId::from("1").to_string(), "\"1\"");
    assert_eq!(RequestId::from(1), RequestId::from(1_i64));
    assert_eq!(RequestId::from(u32::MAX).as_i64(), Some(4_294_967_295));
    let ids = spellings();
    assert_eq!(
        ids.iter().map(|(_, id)| id).collect::<HashSet<_>>().len(),
        ids.len()
    );
    assert_eq!(
        ids.iter().map(|(_, id)| id).collect::<BTreeSet<_>>().len(),
        ids.len()
    );
}

#[test]
fn unescaped_id_is_borrowed() {
    use std::borrow::Cow;
    let text = envelope(r#""id":"plain é","method":"a""#);
    let request = request(&text);
    assert!(matches!(
        request.id(),
        Some(RequestId::String(Cow::Borrowed("plain é")))
    ));
}

#[derive(Debug, serde::Deserialize, serde::Serialize)]
struct IdList {
    ids: Vec<RequestId<'static>>,
    last: Option<RequestId<'static>>,
}

#[test]
fn ids_deserialize_from_any_source_and_in_structs() {
    let text = r#"{"ids":[1,"1","\u00e9"],"last":null}"#;
    let cancel = Request::new(1, MethodName::new("cancel").unwrap())
        .with_params(RawJson::parse(text).unwrap());
    for ledger in [
        serde_json::from_str::<IdList>(text).unwrap(),
        serde_json::from_reader(text.as_bytes()).unwrap(),
        serde_json::from_value(serde_json::from_str(text).unwrap()).unwrap(),
        cancel.decode_params().unwrap(),
    ] {
        assert_eq!(
            ledger.ids,
            [
                RequestId::from(1),
                RequestId::from("1"),
                RequestId::from("é")
            ]
        );
        assert_eq!(ledger.last, None);
        assert_eq!(
            serde_json::to_value(&ledger).unwrap(),
            json!({"ids": [1, "1", "é"], "last": null})
        );
    }
    assert!(serde_json::from_str::<IdList>(r#"{"ids":[1.5],"last":null}"#).is_err());
}
