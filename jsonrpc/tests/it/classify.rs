//! Labels for parse results, so that an input and its expected result fit on one line of a table.

use interzone_jsonrpc::{
    InvalidMessage, Item, Message, Parsed, PolicyResolver, ResponseWriter, parse,
};
use serde_json::Value;

/// Parses bytes and returns `request`, `notification`, `success`, `failure`, or the name of the error; for a batch,
/// the labels of its items in brackets.
pub(crate) fn classify<R: PolicyResolver + ?Sized>(
    bytes: impl AsRef<[u8]>,
    policies: &R,
) -> String {
    match parse(bytes.as_ref(), policies) {
        Parsed::One(item) => label(&item).to_owned(),
        Parsed::Batch(items) => {
            let labels: Vec<_> = items.iter().map(label).collect();
            format!("[{}]", labels.join(" "))
        }
    }
}

/// Returns the label of one item.
pub(crate) fn label(item: &Item<'_>) -> &'static str {
    match item {
        Ok(Message::Request(_)) => "request",
        Ok(Message::Notification(_)) => "notification",
        Ok(Message::Response(response)) if response.error().is_some() => "failure",
        Ok(Message::Response(_)) => "success",
        Err(rejection) => rejection.kind().name(),
    }
}

/// Checks that every row's input has the label beside it, and reports all that differ.
pub(crate) fn check_labels<R: PolicyResolver + ?Sized>(policies: &R, rows: &[(&str, &str)]) {
    let wrong: Vec<_> = rows
        .iter()
        .filter_map(|(text, expected)| {
            let got = classify(text, policies);
            (got != *expected).then(|| format!("{text}\n  is {got}, expected {expected}"))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// [`check_labels`] for rows that leave out `{"jsonrpc":"2.0",` and the closing brace.
pub(crate) fn check_members<R: PolicyResolver + ?Sized>(policies: &R, rows: &[(&str, &str)]) {
    let messages: Vec<_> = rows.iter().map(|(members, _)| envelope(members)).collect();
    let rows: Vec<_> = messages
        .iter()
        .zip(rows)
        .map(|(text, (_, expected))| (text.as_str(), *expected))
        .collect();
    check_labels(policies, &rows);
}

/// Returns a message with the version and these members.
pub(crate) fn envelope(members: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0",{members}}}"#)
}

/// Parses a text that must be one valid message.
pub(crate) fn expect_message<'a, R: PolicyResolver + ?Sized>(
    text: &'a str,
    policies: &R,
) -> Message<'a> {
    match parse(text.as_bytes(), policies) {
        Parsed::One(Ok(message)) => message,
        other => panic!("{text} is not a message: {other:?}"),
    }
}

/// Parses bytes that must be rejected with a single error.
pub(crate) fn expect_rejection<'a, R: PolicyResolver + ?Sized>(
    bytes: &'a [u8],
    policies: &R,
) -> InvalidMessage<'a> {
    match parse(bytes, policies) {
        Parsed::One(Err(rejection)) => rejection,
        other => panic!("{} was accepted: {other:?}", String::from_utf8_lossy(bytes)),
    }
}

/// Returns the error responses to the invalid items; valid ones are ignored.
pub(crate) fn error_responses<R: PolicyResolver + ?Sized>(
    bytes: &[u8],
    policies: &R,
) -> Option<Value> {
    let parsed = parse(bytes, policies);
    let mut writer = ResponseWriter::for_parsed(&parsed);
    let items = match parsed {
        Parsed::One(item) => vec![item],
        Parsed::Batch(items) => items,
    };
    for rejection in items.iter().filter_map(|item| item.as_ref().err()) {
        writer.extend(rejection.response().as_ref());
    }
    writer
        .finish()
        .map(|bytes| serde_json::from_slice(&bytes).unwrap())
}

/// Returns the code and the id of the only error response to `bytes`.
pub(crate) fn code_and_id<R: PolicyResolver + ?Sized>(bytes: &[u8], policies: &R) -> (i64, Value) {
    let response = error_responses(bytes, policies).unwrap();
    assert_eq!(response["jsonrpc"], "2.0");
    (
        response["error"]["code"].as_i64().unwrap(),
        response["id"].clone(),
    )
}
