//! Any bytes under every policy, with `serde_json` as the second opinion.

use crate::oracle::{Opinion, ask};
use crate::{POLICIES, SINGLE};
use interzone_jsonrpc::{
    ErrorCode, Message, Parsed, Policy, RawJson, Rejection, RequestId, Response, parse,
};
use serde_json::Value;

/// Checks all that must hold for bytes that arrive as one document.
pub fn check_document(bytes: &[u8]) {
    let opinion = ask(bytes);
    for policy in &POLICIES {
        check_under(bytes, policy, &opinion);
    }
    check_serde(bytes, &opinion);
}

fn check_under(bytes: &[u8], policy: &Policy, opinion: &Opinion) {
    let parsed = parse(bytes, policy);
    if let Parsed::One(Err(rejection)) = &parsed
        && rejection.problem().code() == ErrorCode::PARSE_ERROR
    {
        let our_own = rejection.problem().name() == "too_deep";
        let json = matches!(opinion, Opinion::Json(_));
        assert!(our_own || !json, "refused as no JSON: {rejection}");
        check_rejection(bytes, rejection);
        return;
    }
    assert!(
        !matches!(opinion, Opinion::NotJson),
        "taken, and serde_json refuses it: {parsed:?}"
    );
    let value = match opinion {
        Opinion::Json(value) => Some(value),
        _ => None,
    };
    match &parsed {
        Parsed::One(Ok(message)) => check_message(message, value, policy),
        Parsed::One(Err(rejection)) => check_rejection(bytes, rejection),
        Parsed::Batch(items) => {
            let values = value.map(|value| value.as_array().expect("a batch is an array"));
            assert!(!items.is_empty());
            assert!(values.is_none_or(|values| values.len() == items.len()));
            for (nth, item) in items.iter().enumerate() {
                match item {
                    Ok(message) => {
                        check_message(message, values.map(|values| &values[nth]), policy);
                    }
                    Err(rejection) => check_rejection(bytes, rejection),
                }
            }
        }
    }
}

/// A message says what its text says, and means the same once it is written.
fn check_message(message: &Message<'_>, value: Option<&Value>, policy: &Policy) {
    let written = message.to_vec();
    let again = parse(&written, policy);
    assert_eq!(again, Parsed::One(Ok(message.clone())));
    assert_eq!(&message.clone().into_owned(), message);
    let Some(value) = value else { return };
    assert_eq!(value["jsonrpc"], "2.0");
    match message {
        Message::Request(request) => {
            assert_eq!(value["method"], request.method());
            assert_eq!(value["id"], id_value(request.id()));
            assert!(value.get("id").is_some());
            assert_eq!(value["params"], raw_value(request.params()));
        }
        Message::Notification(note) => {
            assert_eq!(value["method"], note.method());
            assert!(value.get("id").is_none());
            assert_eq!(value["params"], raw_value(note.params()));
        }
        Message::Response(response) => {
            assert!(value.get("method").is_none());
            assert_eq!(value["id"], id_value(response.id()));
            check_outcome(response, value);
        }
    }
}

fn check_outcome(response: &Response<'_>, value: &Value) {
    assert_eq!(value.get("result").is_some(), response.result().is_some());
    assert_eq!(value.get("error").is_some(), response.error().is_some());
    assert_eq!(value["result"], raw_value(response.result()));
    if let Some(error) = response.error() {
        assert_eq!(value["error"]["code"], error.code().get());
        assert_eq!(value["error"]["message"], error.message());
        assert_eq!(value["error"]["data"], raw_value(error.data()));
    }
}

/// A rejection points into the bytes, and its answer is a valid response.
pub(crate) fn check_rejection(bytes: &[u8], rejection: &Rejection<'_>) {
    let place = rejection.position();
    let passed = &bytes[..place.offset];
    let (line, start) = passed
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .fold((1, 0), |(line, _), (at, _)| (line + 1, at + 1));
    let column = 1 + String::from_utf8_lossy(&passed[start..]).chars().count();
    assert_eq!((place.line, place.column), (line, column), "{rejection}");

    let Some(answer) = rejection.answer() else {
        // A notification, or a broken response where responses come in; never text that is no JSON.
        assert_ne!(rejection.problem().code(), ErrorCode::PARSE_ERROR);
        return;
    };
    let written = answer.to_vec();
    let read = parse(&written, &Policy::STANDARD);
    assert_eq!(read, Parsed::One(Ok(Message::Response(answer.clone()))));
    let value: Value = serde_json::from_slice(&written).expect("an answer is JSON");
    assert_eq!(value.as_object().map(serde_json::Map::len), Some(3));
    assert_eq!(value["error"]["code"], rejection.problem().code().get());
    assert_eq!(value["error"]["data"]["reason"], rejection.problem().name());
    let echoes = rejection.problem().code() == ErrorCode::METHOD_NOT_FOUND;
    assert!(echoes || answer.id().is_none());
}

/// serde reads a message exactly where `parse` does.
fn check_serde(bytes: &[u8], opinion: &Opinion) {
    let by_serde = serde_json::from_slice::<Message>(bytes).ok();
    let by_parse = match parse(bytes, &SINGLE) {
        Parsed::One(item) => item.ok(),
        Parsed::Batch(_) => None,
    };
    assert_eq!(by_serde, by_parse);
    if let (Some(message), Opinion::Json(_)) = (&by_serde, opinion) {
        let value = serde_json::to_value(message).expect("a message has a value");
        let back: Message = serde_json::from_value(value.clone()).expect("and it is a message");
        assert_eq!(serde_json::to_value(&back).ok(), Some(value));
    }
}

fn id_value(id: Option<&RequestId<'_>>) -> Value {
    id.map_or(Value::Null, |id| {
        serde_json::to_value(id).expect("an id has a value")
    })
}

fn raw_value(raw: Option<&RawJson<'_>>) -> Value {
    raw.map_or(Value::Null, |raw| {
        raw.decode().expect("raw JSON has a value")
    })
}
