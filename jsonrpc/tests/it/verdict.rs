//! One word per outcome, so that an input and what it must come to fit on one line of a table.

use interzone_jsonrpc::{Answers, Item, Message, Parsed, Rejection, Rulebook, parse};
use serde_json::Value;

/// What bytes come to: `request`, `notification`, `success`, `failure`, or the name of the problem;
/// for a batch the words of its items, in brackets.
pub(crate) fn verdict<R: Rulebook + ?Sized>(bytes: impl AsRef<[u8]>, rules: &R) -> String {
    match parse(bytes.as_ref(), rules) {
        Parsed::One(item) => word(&item).to_owned(),
        Parsed::Batch(items) => {
            let words: Vec<_> = items.iter().map(word).collect();
            format!("[{}]", words.join(" "))
        }
    }
}

/// What one item comes to.
pub(crate) fn word(item: &Item<'_>) -> &'static str {
    match item {
        Ok(Message::Request(_)) => "request",
        Ok(Message::Notification(_)) => "notification",
        Ok(Message::Response(response)) if response.error().is_some() => "failure",
        Ok(Message::Response(_)) => "success",
        Err(rejection) => rejection.problem().name(),
    }
}

/// Holds every row's input against the word beside it, and tells all that differ.
pub(crate) fn check<R: Rulebook + ?Sized>(rules: &R, rows: &[(&str, &str)]) {
    let wrong: Vec<_> = rows
        .iter()
        .filter_map(|(text, expected)| {
            let got = verdict(text, rules);
            (got != *expected).then(|| format!("{text}\n  gave {got}, and {expected} is right"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The same for rows that leave out `{"jsonrpc":"2.0",` and the closing brace.
pub(crate) fn check_members<R: Rulebook + ?Sized>(rules: &R, rows: &[(&str, &str)]) {
    let whole: Vec<_> = rows.iter().map(|(members, _)| envelope(members)).collect();
    let rows: Vec<_> = whole
        .iter()
        .zip(rows)
        .map(|(text, (_, expected))| (text.as_str(), *expected))
        .collect();
    check(rules, &rows);
}

/// A message of these members and the version.
pub(crate) fn envelope(members: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0",{members}}}"#)
}

/// The one valid message that the text is.
pub(crate) fn message<'a, R: Rulebook + ?Sized>(text: &'a str, rules: &R) -> Message<'a> {
    match parse(text.as_bytes(), rules) {
        Parsed::One(Ok(message)) => message,
        other => panic!("{text} is no message: {other:?}"),
    }
}

/// Why the bytes are rejected as a whole.
pub(crate) fn rejection<'a, R: Rulebook + ?Sized>(bytes: &'a [u8], rules: &R) -> Rejection<'a> {
    match parse(bytes, rules) {
        Parsed::One(Err(rejection)) => rejection,
        other => panic!("{} was taken: {other:?}", String::from_utf8_lossy(bytes)),
    }
}

/// What a server sends back that serves nothing: only the answers to what it turns away.
pub(crate) fn reply<R: Rulebook + ?Sized>(bytes: &[u8], rules: &R) -> Option<Value> {
    let parsed = parse(bytes, rules);
    let mut answers = Answers::to(&parsed);
    let items = match parsed {
        Parsed::One(item) => vec![item],
        Parsed::Batch(items) => items,
    };
    for rejection in items.iter().filter_map(|item| item.as_ref().err()) {
        answers.extend(rejection.answer().as_ref());
    }
    answers
        .finish()
        .map(|bytes| serde_json::from_slice(&bytes).unwrap())
}

/// The code and the id of the one answer that bytes earn.
pub(crate) fn code_and_id<R: Rulebook + ?Sized>(bytes: &[u8], rules: &R) -> (i64, Value) {
    let answer = reply(bytes, rules).unwrap();
    assert_eq!(answer["jsonrpc"], "2.0");
    (
        answer["error"]["code"].as_i64().unwrap(),
        answer["id"].clone(),
    )
}
