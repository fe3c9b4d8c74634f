//! Checks of any bytes under every policy, with `serde_json` as the reference.

use crate::oracle::{ReferenceResult, parse_reference};
use crate::{POLICIES, SERDE_POLICY};
use interzone_jsonrpc::{
    ErrorCode, InvalidMessage, Message, Parsed, Policy, RawJson, RequestId, Response, parse,
};
use serde_json::Value;

/// Checks all invariants for bytes received as one document.
pub fn check_document(bytes: &[u8]) {
    let reference = parse_reference(bytes);
    for policy in &POLICIES {
        check_with_policy(bytes, policy, &reference);
    }
    check_serde(bytes, &reference);
}

fn check_with_policy(bytes: &[u8], policy: &Policy, reference: &ReferenceResult) {
    let parsed = parse(bytes, policy);
    if let Parsed::One(Err(rejection)) = &parsed
        && rejection.kind().code() == ErrorCode::PARSE_ERROR
    {
        let is_depth_limit = rejection.kind().name() == "too_deep";
        let is_json = matches!(reference, ReferenceResult::Json(_));
        assert!(
            is_depth_limit || !is_json,
            "rejected as invalid JSON: {rejection}"
        );
        check_rejection(bytes, rejection);
        return;
    }
    assert!(
        !matches!(reference, ReferenceResult::NotJson),
        "accepted, but serde_json rejects it: {parsed:?}"
    );
    let value = match reference {
        ReferenceResult::Json(value) => Some(value),
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

/// Checks that a message matches its JSON text, and that it round-trips.
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

/// Checks that the position is correct and that the response is valid.
pub(crate) fn check_rejection(bytes: &[u8], rejection: &InvalidMessage<'_>) {
    let position = rejection.position();
    let before = &bytes[..position.offset];
    let (line, start) = before
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .fold((1, 0), |(line, _), (at, _)| (line + 1, at + 1));
    let column = 1 + String::from_utf8_lossy(&before[start..]).chars().count();
    assert_eq!(
        (position.line, position.column),
        (line, column),
        "{rejection}"
    );

    let Some(response) = rejection.response() else {
        // A notification, or a broken response where responses are accepted; never invalid JSON.
        assert_ne!(rejection.kind().code(), ErrorCode::PARSE_ERROR);
        return;
    };
    let written = response.to_vec();
    let read = parse(&written, &Policy::STANDARD);
    assert_eq!(read, Parsed::One(Ok(Message::Response(response.clone()))));
    let value: Value = serde_json::from_slice(&written).expect("a response is JSON");
    assert_eq!(value.as_object().map(serde_json::Map::len), Some(3));
    assert_eq!(value["error"]["code"], rejection.kind().code().get());
    assert_eq!(value["error"]["data"]["reason"], rejection.kind().name());
    let echoes_id = rejection.kind().code() == ErrorCode::METHOD_NOT_FOUND;
    assert!(echoes_id || response.id().is_none());
}

/// Checks that serde accepts a message exactly if `parse` does.
fn check_serde(bytes: &[u8], reference: &ReferenceResult) {
    let by_serde = serde_json::from_slice::<Message>(bytes).ok();
    let by_parse = match parse(bytes, &SERDE_POLICY) {
        Parsed::One(item) => item.ok(),
        Parsed::Batch(_) => None,
    };
    assert_eq!(by_serde, by_parse);
    if let (Some(message), ReferenceResult::Json(_)) = (&by_serde, reference) {
        let value = serde_json::to_value(message).expect("a message serializes");
        let back: Message = serde_json::from_value(value.clone()).expect("the value is a message");
        assert_eq!(serde_json::to_value(&back).ok(), Some(value));
    }
}

fn id_value(id: Option<&RequestId<'_>>) -> Value {
    id.map_or(Value::Null, |id| {
        serde_json::to_value(id).expect("an id serializes")
    })
}

fn raw_value(raw: Option<&RawJson<'_>>) -> Value {
    raw.map_or(Value::Null, |raw| raw.decode().expect("raw JSON decodes"))
}
