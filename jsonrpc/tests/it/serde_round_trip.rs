//! Messages through serde, alone and inside other types, by the same rules as `parse`.

use crate::classify::{check_members, envelope};
use interzone_jsonrpc::{
    ErrorObject, Message, MethodName, Notification, Policy, RawJson, Request, Response, Version,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Valid messages, exactly as they are written.
fn valid_messages() -> Vec<String> {
    [
        r#""id":1,"method":"a""#,
        r#""id":"","method":"a\n","params":{"x":[1.50,"é"]}"#,
        r#""id":-9223372036854775808,"method":"rpca","params":"scalar""#,
        r#""method":"a""#,
        r#""method":"a","params":[]"#,
        r#""id":1,"result":null"#,
        r#""id":"x","result":{"a":1}"#,
        r#""id":null,"error":{"code":-32700,"message":"Parse error"}"#,
        r#""id":1,"error":{"code":1,"message":"m","data":[{}]}"#,
    ]
    .map(envelope)
    .to_vec()
}

/// Deserializes by every API of serde_json, and checks that all agree.
fn deserialize_every_way<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(
    text: &str,
) -> Option<T> {
    let read: Option<T> = serde_json::from_str(text).ok();
    assert_eq!(serde_json::from_slice(text.as_bytes()).ok(), read, "{text}");
    assert_eq!(
        serde_json::from_reader(text.as_bytes()).ok(),
        read,
        "{text}"
    );
    let value: Value = serde_json::from_str(text).unwrap();
    let from_value: Option<T> = serde_json::from_value(value.clone()).ok();
    assert_eq!(from_value.is_some(), read.is_some(), "{text}");
    assert_eq!(T::deserialize(&value).is_ok(), read.is_some(), "{text}");
    if let Some(read) = &read {
        assert_eq!(serde_json::to_string(read).unwrap(), text);
        assert_eq!(serde_json::to_vec(read).unwrap(), text.as_bytes());
        assert_eq!(serde_json::to_value(read).unwrap(), value);
        let again = serde_json::to_string_pretty(read).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&again).unwrap(), value);
    }
    read
}

#[test]
fn every_message_type_round_trips() {
    for text in valid_messages() {
        let message: Message = deserialize_every_way(&text).unwrap();
        assert_eq!(message.to_string(), text);
        let (request, notification, response) = match message {
            Message::Request(_) => (true, false, false),
            Message::Notification(_) => (false, true, false),
            Message::Response(_) => (false, false, true),
        };
        assert_eq!(
            deserialize_every_way::<Request>(&text).is_some(),
            request,
            "{text}"
        );
        assert_eq!(
            deserialize_every_way::<Notification>(&text).is_some(),
            notification,
            "{text}"
        );
        assert_eq!(
            deserialize_every_way::<Response>(&text).is_some(),
            response,
            "{text}"
        );
    }
}

#[test]
fn serde_rejects_what_parse_rejects() {
    for members in [
        r#""id":null,"method":"a""#,
        r#""id":1.5,"method":"a""#,
        r#""id":9223372036854775808,"method":"a""#,
        r#""id":true,"method":"a""#,
        r#""id":1,"method":"""#,
        r#""id":1,"method":1"#,
        r#""id":1"#,
        r#""id":1,"result":1,"error":null"#,
        r#""result":1"#,
        r#""id":null,"result":1"#,
        r#""error":{"code":1,"message":"m"}"#,
        r#""id":1,"error":{"code":1}"#,
        r#""id":1,"error":{"code":2147483648,"message":"m"}"#,
        r#""id":1,"method":"a","result":1"#,
    ] {
        assert_eq!(
            deserialize_every_way::<Message>(&envelope(members)),
            None,
            "{members}"
        );
    }
    for text in [r#"{"id":1,"method":"a"}"#, "[]", "1", "null", "{}", "\"a\""] {
        assert_eq!(deserialize_every_way::<Message>(text), None, "{text}");
        assert_eq!(deserialize_every_way::<ErrorObject>(text), None, "{text}");
    }
    let reserved = envelope(r#""id":1,"method":"rpc.a""#);
    assert_eq!(
        deserialize_every_way::<Message>(&reserved),
        None,
        "it cannot be built"
    );
    // Only text can contain these, not a `Value`.
    let lone = envelope(r#""method":"a","params":["\ud800"]"#);
    let twice = envelope(r#""id":1,"id":1,"method":"a""#);
    let deep = envelope(&format!(
        r#""method":"a","params":{}{}"#,
        "[".repeat(126),
        "]".repeat(126)
    ));
    for text in [lone, twice, deep] {
        assert!(serde_json::from_str::<Message>(&text).is_err());
        assert!(serde_json::from_reader::<_, Message>(text.as_bytes()).is_err());
    }
    assert!(serde_json::from_str::<RawJson>(r#"["\ud800"]"#).is_err());
    assert!(
        serde_json::from_slice::<Message>(b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}").is_err()
    );
}

#[test]
fn error_text_names_the_expected_message_type() {
    for (text, request_error, notification_error, response_error) in [
        (
            envelope(r#""id":1,"method":"a""#),
            None,
            Some("no `id`"),
            Some("`result` and `error`"),
        ),
        (
            envelope(r#""method":"a""#),
            Some("`id` is missing"),
            None,
            Some("`result` and `error`"),
        ),
        (
            envelope(r#""id":1,"result":1"#),
            Some("`method`"),
            Some("`method`"),
            None,
        ),
    ] {
        fn error_text<T: DeserializeOwned>(text: &str) -> Option<String> {
            serde_json::from_str::<T>(text)
                .err()
                .map(|error| error.to_string())
        }
        for (error, expected) in [
            (error_text::<Request>(&text), request_error),
            (error_text::<Notification>(&text), notification_error),
            (error_text::<Response>(&text), response_error),
        ] {
            assert_eq!(error.is_some(), expected.is_some(), "{text}: {error:?}");
            let error = error.unwrap_or_default();
            assert!(
                error.contains(expected.unwrap_or_default()),
                "{text}: {error}"
            );
        }
    }
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct MessageFrame {
    seq: u32,
    message: Message<'static>,
    reply: Option<Response<'static>>,
    error: ErrorObject<'static>,
    extra: RawJson<'static>,
    many: Vec<Message<'static>>,
}

#[test]
fn messages_round_trip_inside_a_struct() {
    let call = envelope(r#""id":1,"method":"a","params":[ 1.0 ]"#);
    let note = envelope(r#""method":"a""#);
    let error = r#"{"code":1,"message":"m","data":{"x":1}}"#;
    let text = format!(
        r#"{{"seq":7,"message":{call},"reply":null,"error":{error},"extra":[ 1e2 ],"many":[{call},{note}]}}"#
    );
    let frame: MessageFrame = serde_json::from_str(&text).unwrap();
    assert_eq!(frame.message.to_string(), call);
    assert_eq!(frame.extra.as_str(), "[ 1e2 ]");
    assert_eq!(frame.many.len(), 2);
    assert_eq!(
        serde_json::to_string(&frame).unwrap(),
        text,
        "nothing is lost"
    );
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_value(&frame).unwrap(), value);
    let from_value: MessageFrame = serde_json::from_value(value).unwrap();
    assert_eq!(from_value.seq, frame.seq);
    assert_eq!(from_value.many.last(), frame.many.last());

    let broken = text.replacen(r#""method":"a""#, r#""method":"""#, 1);
    assert!(serde_json::from_str::<MessageFrame>(&broken).is_err());
}

#[test]
fn untagged_and_flattened_messages_are_rejected() {
    #[derive(Debug, Deserialize)]
    #[serde(untagged)]
    enum Untagged {
        #[expect(dead_code, reason = "only whether it is read counts")]
        Message(Message<'static>),
    }
    #[derive(Debug, Deserialize)]
    struct Flat {
        #[serde(flatten)]
        #[expect(dead_code, reason = "only whether it is read counts")]
        message: Message<'static>,
    }
    let text = envelope(r#""id":1,"method":"a""#);
    assert!(serde_json::from_str::<Untagged>(&text).is_err());
    assert!(serde_json::from_str::<Flat>(&text).is_err());
    // The workaround is to read the value raw, and to decode it afterwards.
    let raw: RawJson = serde_json::from_str(&text).unwrap();
    assert!(raw.decode::<Message>().is_ok());
}

#[test]
fn version_accepts_only_the_string_2_0() {
    assert_eq!(serde_json::to_value(Version).unwrap(), json!("2.0"));
    for text in ["\"2.0\"", r#""2\u002e0""#] {
        assert!(serde_json::from_str::<Version>(text).is_ok(), "{text}");
        assert!(
            serde_json::from_reader::<_, Version>(text.as_bytes()).is_ok(),
            "{text}"
        );
    }
    for text in ["2.0", "\"2.0 \"", "\"\"", "null", "[]", "[\"2.0\"]"] {
        assert!(serde_json::from_str::<Version>(text).is_err(), "{text}");
    }
}

#[test]
fn absent_params_decode_as_an_empty_object() {
    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default)]
    struct Start {
        participants: Vec<String>,
    }
    let start = Request::new(1, MethodName::new("stream.start").unwrap());
    assert_eq!(start.decode_params::<Start>().unwrap(), Start::default());
    let null = start.clone().with_params(RawJson::NULL);
    assert_eq!(null, start);
    let given = start.with_params(RawJson::parse(r#"{"participants":["a"],"x":1}"#).unwrap());
    assert_eq!(given.decode_params::<Start>().unwrap().participants, ["a"]);
    check_members(
        &Policy::SERVER,
        &[(r#""method":"a","params":null"#, "notification")],
    );
}
