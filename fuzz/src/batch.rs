//! Arrays of anything: an item means in a batch what it means alone, and each is answered once.

use crate::document::{check_document, check_rejection};
use interzone_jsonrpc::{
    Answers, Batches, ErrorCode, Item, Kind, Message, Parsed, Policy, Problem, parse,
};
use serde_json::Value;

/// Takes each line as an item, puts them into an array, and checks all that must hold for it.
pub fn check_batch(bytes: &[u8]) {
    let lines: Vec<_> = bytes.split(|byte| *byte == b'\n').collect();
    let batch = [b"[", lines.join(&b',').as_slice(), b"]"].concat();
    for policy in [Policy::STANDARD, Policy::SERVER, Policy::CLIENT] {
        let items: Vec<_> = lines
            .iter()
            .map(|line| parse_alone(line, &policy))
            .collect();
        if items.iter().all(|item| !is_parse_error(item)) {
            check_items(&batch, &items, &policy);
        }
    }
    check_document(&batch);
}

/// What a text comes to where a message belongs.
fn parse_alone<'a>(line: &'a [u8], policy: &Policy) -> Result<Item<'a>, Problem> {
    match parse(line, policy) {
        Parsed::One(Err(rejection)) if line.trim_ascii_start().starts_with(b"[") => {
            // Alone it is a batch, empty or too large; in a batch it is merely no object.
            match rejection.problem().code() {
                ErrorCode::PARSE_ERROR => Ok(Err(rejection)),
                _ => Err(Problem::NotAnObject(Kind::Array)),
            }
        }
        Parsed::One(item) => Ok(item),
        Parsed::Batch(_) => Err(Problem::NotAnObject(Kind::Array)),
    }
}

fn is_parse_error(item: &Result<Item<'_>, Problem>) -> bool {
    matches!(item, Ok(Err(rejection)) if rejection.problem().code() == ErrorCode::PARSE_ERROR)
}

fn check_items(batch: &[u8], alone: &[Result<Item<'_>, Problem>], policy: &Policy) {
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
                assert_eq!(rejection.problem(), alone.problem());
                assert_eq!(
                    rejection.answer().map(|answer| answer.id().cloned()),
                    alone.answer().map(|answer| answer.id().cloned())
                );
                check_rejection(batch, rejection);
            }
            (Err(rejection), Err(problem)) => assert_eq!(rejection.problem(), *problem),
            _ => panic!("{item:?} in the batch, {alone:?} alone"),
        }
    }
    check_answers(&parsed, items);

    for (batches, name) in [
        (Batches::UpTo(alone.len() - 1), "batch_too_large"),
        (Batches::Refuse, "batch_refused"),
    ] {
        match parse(batch, &with(batches)) {
            Parsed::One(Err(rejection)) => assert_eq!(rejection.problem().name(), name),
            other => panic!("{batches:?} took {other:?}"),
        }
    }
}

/// Every item but a notification and a response is answered, once.
fn check_answers(parsed: &Parsed<'_>, items: &[Item<'_>]) {
    let mut answers = Answers::to(parsed);
    let mut due = Vec::new();
    for item in items {
        match item {
            Ok(Message::Request(request)) => {
                answers
                    .result(request, &[1])
                    .expect("a list has a JSON form");
                due.push(request.id().cloned());
            }
            Ok(Message::Notification(_) | Message::Response(_)) => {}
            Err(rejection) => {
                let answer = rejection.answer();
                answers.extend(answer.as_ref());
                due.extend(answer.map(|answer| answer.id().cloned()));
            }
        }
    }
    let Some(sent) = answers.finish() else {
        assert!(due.is_empty());
        return;
    };
    let value: Value = serde_json::from_slice(&sent).expect("answers are JSON");
    assert_eq!(value.as_array().map(Vec::len), Some(due.len()));
    let reader = Policy {
        batches: Batches::UpTo(usize::MAX),
        ..Policy::CLIENT
    };
    let Parsed::Batch(read) = parse(&sent, &reader) else {
        panic!("answers are a batch")
    };
    for (item, due) in read.iter().zip(due) {
        match item {
            Ok(Message::Response(response)) => assert_eq!(response.id(), due.as_ref()),
            other => panic!("no answer: {other:?}"),
        }
    }
}
