//! Checks of batches: an item is classified as if it were alone, and each gets one response.

use crate::document::{check_document, check_rejection};
use interzone_jsonrpc::{
    Batches, ErrorCode, InvalidMessageKind, Item, JsonKind, Message, Parsed, Policy,
    ResponseWriter, parse,
};
use serde_json::Value;

/// Builds a batch with one item per line and checks all invariants.
pub fn check_batch(bytes: &[u8]) {
    let lines: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
    let batch = [b"[", lines.join(&b',').as_slice(), b"]"].concat();
    for policy in [Policy::STANDARD, Policy::SERVER, Policy::CLIENT] {
        let items: Vec<_> = lines.iter().map(|line| parse_item(line, &policy)).collect();
        if items.iter().all(|item| !is_parse_error(item)) {
            check_items(&batch, &items, &policy);
        }
    }
    check_document(&batch);
}

/// Parses a line as one batch item.
fn parse_item<'a>(line: &'a [u8], policy: &Policy) -> Result<Item<'a>, InvalidMessageKind> {
    match parse(line, policy) {
        Parsed::One(Err(rejection)) if line.trim_ascii_start().starts_with(b"[") => {
            // Alone it is a batch, empty or too large; inside a batch it is not an object.
            match rejection.kind().code() {
                ErrorCode::PARSE_ERROR => Ok(Err(rejection)),
                _ => Err(InvalidMessageKind::NotAnObject(JsonKind::Array)),
            }
        }
        Parsed::One(item) => Ok(item),
        Parsed::Batch(_) => Err(InvalidMessageKind::NotAnObject(JsonKind::Array)),
    }
}

fn is_parse_error(item: &Result<Item<'_>, InvalidMessageKind>) -> bool {
    matches!(item, Ok(Err(rejection)) if rejection.kind().code() == ErrorCode::PARSE_ERROR)
}

fn check_items(batch: &[u8], alone: &[Result<Item<'_>, InvalidMessageKind>], policy: &Policy) {
    let with = |batches| Policy { batches, ..*policy };
    let exact = with(Batches::UpTo(alone.len()));
    let parsed = parse(batch, &exact);
    let Parsed::Batch(items) = &parsed else {
        panic!("not a batch: {parsed:?}")
    };
    assert_eq!(items.len(), alone.len());
    for (item, alone) in items.iter().zip(alone) {
        match (item, alone) {
            (Ok(message), Ok(Ok(alone))) => assert_eq!(message, alone),
            (Err(rejection), Ok(Err(alone))) => {
                assert_eq!(rejection.kind(), alone.kind());
                assert_eq!(
                    rejection.response().map(|response| response.id().cloned()),
                    alone.response().map(|response| response.id().cloned())
                );
                check_rejection(batch, rejection);
            }
            (Err(rejection), Err(kind)) => assert_eq!(rejection.kind(), *kind),
            _ => panic!("{item:?} in the batch, {alone:?} alone"),
        }
    }
    check_responses(&parsed, items);

    for (batches, name) in [
        (Batches::UpTo(alone.len() - 1), "batch_too_large"),
        (Batches::Refuse, "batch_refused"),
    ] {
        match parse(batch, &with(batches)) {
            Parsed::One(Err(rejection)) => assert_eq!(rejection.kind().name(), name),
            other => panic!("{batches:?} accepted {other:?}"),
        }
    }
}

/// Checks that every item but notifications and responses gets exactly one response.
fn check_responses(parsed: &Parsed<'_>, items: &[Item<'_>]) {
    let mut writer = ResponseWriter::for_parsed(parsed);
    let mut expected_ids = Vec::new();
    for item in items {
        match item {
            Ok(Message::Request(request)) => {
                writer.result(request, &[1]).expect("a list is valid JSON");
                expected_ids.push(request.id().cloned());
            }
            Ok(Message::Notification(_) | Message::Response(_)) => {}
            Err(rejection) => {
                let response = rejection.response();
                writer.extend(response.as_ref());
                expected_ids.extend(response.map(|response| response.id().cloned()));
            }
        }
    }
    let Some(sent) = writer.finish() else {
        assert!(expected_ids.is_empty());
        return;
    };
    let value: Value = serde_json::from_slice(&sent).expect("responses are JSON");
    assert_eq!(value.as_array().map(Vec::len), Some(expected_ids.len()));
    let reader = Policy {
        batches: Batches::UpTo(usize::MAX),
        ..Policy::CLIENT
    };
    let Parsed::Batch(read) = parse(&sent, &reader) else {
        panic!("responses are a batch")
    };
    for (item, id) in read.iter().zip(expected_ids) {
        match item {
            Ok(Message::Response(response)) => assert_eq!(response.id(), id.as_ref()),
            other => panic!("not a response: {other:?}"),
        }
    }
}
