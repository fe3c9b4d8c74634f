//! Messages through serde: as themselves and inside other types, by the same rules as `parse`.

use crate::verdict::{check_members, envelope};
use interzone_jsonrpc::{
    Error, Message, MethodName, Notification, Policy, RawJson, Request, Response, Version,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Valid messages, each in the spelling that is written.
fn valid() -> Vec<String> {
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

/// Reads by every way that serde_json has, and finds that all agree.
fn every_way<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(
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
fn every_message_both_ways() {
    for text in valid() {
        let message: Message = every_way(&text).unwrap();
        assert_eq!(message.to_string(), text);
        let (request, notification, response) = match message {
            Message::Request(_) => (true, false, false),
            Message::Notification(_) => (false, true, false),
            Message::Response(_) => (false, false, true),
        };
        assert_eq!(every_way::<Request>(&text).is_some(), request, "{text}");
        assert_eq!(
            every_way::<Notification>(&text).is_some(),
            notification,
            "{text}"
        );
        assert_eq!(every_way::<Response>(&text).is_some(), response, "{text}");
    }
}

#[test]
fn what_parse_refuses_serde_refuses() {
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
        assert_eq!(every_way::<Message>(&envelope(members)), None, "{members}");
    }
    for text in [r#"{"id":1,"method":"a"}"#, "[]", "1", "null", "{}", "\"a\""] {
        assert_eq!(every_way::<Message>(text), None, "{text}");
        assert_eq!(every_way::<Error>(text), None, "{text}");
    }
    let reserved = envelope(r#""id":1,"method":"rpc.a""#);
    assert_eq!(every_way::<Message>(&reserved), None, "it cannot be built");
    // What a `Value` cannot hold, text can.
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
fn an_error_tells_which_kind_of_message_was_due() {
    for (text, of_request, of_notification, of_response) in [
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
        fn complaint<T: DeserializeOwned>(text: &str) -> Option<String> {
            serde_json::from_str::<T>(text)
                .err()
                .map(|error| error.to_string())
        }
        for (told, expected) in [
            (complaint::<Request>(&text), of_request),
            (complaint::<Notification>(&text), of_notification),
            (complaint::<Response>(&text), of_response),
        ] {
            assert_eq!(told.is_some(), expected.is_some(), "{text}: {told:?}");
            let told = told.unwrap_or_default();
            assert!(
                told.contains(expected.unwrap_or_default()),
                "{text}: {told}"
            );
        }
    }
}

#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Frame {
    seq: u32,
    message: Message<'static>,
    reply: Option<Response<'static>>,
    error: Error<'static>,
    extra: RawJson<'static>,
    many: Vec<Message<'static>>,
}

#[test]
fn messages_within_another_type() {
    let call = envelope(r#""id":1,"method":"a","params":[ 1.0 ]"#);
    let note = envelope(r#""method":"a""#);
    let error = r#"{"code":1,"message":"m","data":{"x":1}}"#;
    let text = format!(
        r#"{{"seq":7,"message":{call},"reply":null,"error":{error},"extra":[ 1e2 ],"many":[{call},{note}]}}"#
    );
    let frame: Frame = serde_json::from_str(&text).unwrap();
    assert_eq!(frame.message.to_string(), call);
    assert_eq!(frame.extra.as_str(), "[ 1e2 ]");
    assert_eq!(frame.many.len(), 2);
    assert_eq!(
        serde_json::to_string(&frame).unwrap(),
        text,
        "nothing is lost on the way"
    );
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_value(&frame).unwrap(), value);
    let from_value: Frame = serde_json::from_value(value).unwrap();
    assert_eq!(from_value.seq, frame.seq);
    assert_eq!(from_value.many.last(), frame.many.last());

    let broken = text.replacen(r#""method":"a""#, r#""method":"""#, 1);
    assert!(serde_json::from_str::<Frame>(&broken).is_err());
}

#[test]
fn where_serde_looks_twice_a_message_is_refused_and_not_misread() {
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
    // The way round it is to take the value raw, and to decide afterwards.
    let raw: RawJson = serde_json::from_str(&text).unwrap();
    assert!(raw.decode::<Message>().is_ok());
}

#[test]
fn the_version_alone() {
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
fn params_are_decoded_by_name_and_absent_ones_as_an_empty_object() {
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
