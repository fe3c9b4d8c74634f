//! Batches: each item is validated by itself, unless the text as a whole is not JSON.

use crate::classify::{check_labels, classify, code_and_id, envelope, error_responses, label};
use interzone_jsonrpc::{
    Batch, Batches, ErrorCode, ErrorObject, Message, MethodName, Notification, Parsed, Policy,
    RawJson, Request, Response, ResponseWriter, parse,
};
use serde_json::{Value, json};

fn limited(limit: usize) -> Policy {
    Policy {
        batches: Batches::UpTo(limit),
        ..Policy::STANDARD
    }
}

#[test]
fn batch_items_are_classified_one_by_one() {
    let rows = [
        (envelope(r#""method":"a","id":1"#), "request"),
        (envelope(r#""method":"a""#), "notification"),
        (envelope(r#""result":1,"id":1"#), "success"),
        (
            envelope(r#""error":{"code":1,"message":"m"},"id":1"#),
            "failure",
        ),
        ("1".to_owned(), "not_an_object"),
        ("null".to_owned(), "not_an_object"),
        ("\"a\"".to_owned(), "not_an_object"),
        ("[]".to_owned(), "not_an_object"),
        (
            format!("[{}]", envelope(r#""method":"a","id":1"#)),
            "not_an_object",
        ),
        ("{}".to_owned(), "version_missing"),
        (envelope(r#""method":"a","id":1"#), "request"),
    ];
    let texts: Vec<_> = rows.iter().map(|(text, _)| text.as_str()).collect();
    let labels: Vec<_> = rows.iter().map(|(_, word)| *word).collect();
    for separator in [",", " , ", "\n,\n"] {
        let batch = format!("[{}]", texts.join(separator));
        let expected = format!("[{}]", labels.join(" "));
        assert_eq!(classify(&batch, &Policy::STANDARD), expected);
    }
    for (text, word) in rows {
        assert_eq!(
            classify(format!(" [ {text} ] "), &Policy::STANDARD),
            format!("[{word}]")
        );
    }
}

#[test]
fn empty_batch_is_a_single_invalid_request() {
    for text in ["[]", "[ ]", "\n[\n]\n"] {
        for policy in [Policy::STANDARD, Policy::SERVER, limited(0)] {
            assert_eq!(classify(text, &policy), "empty_batch");
            let answer = error_responses(text.as_bytes(), &policy).unwrap();
            assert!(answer.is_object(), "one response, not an array of one");
            assert_eq!(code_and_id(text.as_bytes(), &policy), (-32600, Value::Null));
        }
    }
}

#[test]
fn batch_limit_is_exact() {
    let item = envelope(r#""method":"a","id":1"#);
    for limit in [1, 2, 16, 17, 1000] {
        let policy = limited(limit);
        for (count, fits) in [(limit, true), (limit + 1, false), (limit * 3, false)] {
            for item in [item.as_str(), "1", "{}"] {
                let batch = format!("[{}]", vec![item; count].join(","));
                match parse(batch.as_bytes(), &policy) {
                    Parsed::Batch(items) => {
                        assert!(fits, "{count} of {limit}");
                        assert_eq!(items.len(), count);
                    }
                    Parsed::One(one) => {
                        assert!(!fits, "{count} of {limit}");
                        assert_eq!(label(&one), "batch_too_large");
                        let answer = error_responses(batch.as_bytes(), &policy).unwrap();
                        assert!(answer.is_object());
                        assert_eq!(answer["error"]["code"], -32600);
                        assert_eq!(answer["id"], Value::Null);
                    }
                }
            }
        }
    }
    assert_eq!(
        Policy::STANDARD.batches,
        Batches::UpTo(Policy::DEFAULT_BATCH_LIMIT)
    );
}

#[test]
fn oversized_batch_must_still_be_json() {
    check_labels(
        &limited(2),
        &[
            ("[1,2,3]", "batch_too_large"),
            ("[1,2,3", "unexpected_end"),
            ("[1,2,3,", "unexpected_end"),
            ("[1,2,3,]", "unexpected_character"),
            ("[1,2,3 4]", "unexpected_character"),
            ("[1,2,3,{\"a\":}]", "unexpected_character"),
            ("[1,2,3,NaN]", "unexpected_character"),
            ("[1,2,3,01]", "bad_number"),
            (r#"[1,2,3,"\ud800"]"#, "lone_surrogate"),
            ("[1,2,3]x", "trailing_bytes"),
        ],
    );
    assert_eq!(
        code_and_id(b"[1,2,3,NaN]", &limited(2)),
        (-32700, Value::Null)
    );
    for (levels, expected) in [(127, "batch_too_large"), (128, "too_deep")] {
        let deep = format!("[1,2,{}{}]", "[".repeat(levels), "]".repeat(levels));
        assert_eq!(classify(deep, &limited(2)), expected, "{levels}");
    }
}

#[test]
fn item_with_invalid_json_is_a_parse_error_of_the_batch() {
    let good = envelope(r#""method":"a","id":1"#);
    for broken in [r#"{"jsonrpc""#, "{", "nul", r#"{"a":1,}"#, "", "{} {}"] {
        for batch in [format!("[{good},{broken}]"), format!("[{broken},{good}]")] {
            let code = code_and_id(batch.as_bytes(), &Policy::SERVER);
            assert_eq!(code, (-32700, Value::Null), "{batch}");
        }
    }
}

#[test]
fn batch_errors_have_their_own_positions() {
    let text = "[1,\n  2, \"é\", {},\n3,{\n\"id\":1,\"id\":\n1},4]";
    let Parsed::Batch(items) = parse(text.as_bytes(), &Policy::SERVER) else {
        panic!("{text}")
    };
    let positions: Vec<_> = items
        .iter()
        .map(|item| item.as_ref().unwrap_err().position())
        .map(|place| (place.line, place.column))
        .collect();
    assert_eq!(
        positions,
        [(1, 2), (2, 3), (2, 6), (2, 11), (3, 1), (4, 8), (5, 4)]
    );
}

#[test]
fn nested_batch_is_rejected() {
    check_labels(
        &Policy::STANDARD,
        &[
            ("[[]]", "[not_an_object]"),
            ("[[],[]]", "[not_an_object not_an_object]"),
            ("[[[1]]]", "[not_an_object]"),
            (r#"[["2.0",1,"a",null]]"#, "[not_an_object]"),
        ],
    );
}

#[test]
fn batch_without_requests_gets_no_response() {
    let note = envelope(r#""method":"a""#);
    let response = envelope(r#""result":1,"id":1"#);
    let reserved = envelope(r#""method":"rpc.a""#);
    for (text, policy) in [
        (note.clone(), Policy::SERVER),
        (format!("[{note}]"), Policy::SERVER),
        (format!("[{note},{note},{reserved}]"), Policy::SERVER),
        (format!("[{note},{response}]"), Policy::STANDARD),
    ] {
        let parsed = parse(text.as_bytes(), &policy);
        assert_eq!(ResponseWriter::for_parsed(&parsed).finish(), None);
        assert_eq!(error_responses(text.as_bytes(), &policy), None, "{text}");
    }
}

#[test]
fn responses_are_written_in_the_order_added() {
    let text =
        br#"[{"jsonrpc":"2.0","method":"a","id":"x"},2,{"jsonrpc":"2.0","method":"a","id":3}]"#;
    let parsed = parse(text, &Policy::SERVER);
    let mut writer = ResponseWriter::for_parsed(&parsed);
    let Parsed::Batch(items) = parsed else {
        panic!()
    };
    for item in items.iter().rev() {
        match item {
            Ok(Message::Request(request)) => writer.result(request, &"done").unwrap(),
            Ok(_) => panic!("{item:?}"),
            Err(rejection) => writer.extend(rejection.response().as_ref()),
        }
    }
    let sent = writer.finish().unwrap();
    let sent: Value = serde_json::from_slice(&sent).unwrap();
    let ids: Vec<_> = sent
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["id"])
        .collect();
    assert_eq!(ids, [&json!(3), &Value::Null, &json!("x")]);
}

#[test]
fn unserializable_result_becomes_internal_error() {
    struct Unwritable;
    impl serde::Serialize for Unwritable {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            use serde::ser::{Error as _, SerializeSeq as _};
            let mut half = serializer.serialize_seq(None)?;
            half.serialize_element("secret")?;
            Err(S::Error::custom("no more"))
        }
    }
    for text in [
        r#"{"jsonrpc":"2.0","method":"a","id":1}"#,
        r#"[{"jsonrpc":"2.0","method":"a","id":1},{"jsonrpc":"2.0","method":"a","id":2}]"#,
    ] {
        let parsed = parse(text.as_bytes(), &Policy::SERVER);
        let mut writer = ResponseWriter::for_parsed(&parsed);
        let items = match parsed {
            Parsed::One(item) => vec![item],
            Parsed::Batch(items) => items,
        };
        for item in &items {
            let Ok(Message::Request(request)) = item else {
                panic!()
            };
            assert!(writer.result(request, &Unwritable).is_err());
        }
        let sent = String::from_utf8(writer.finish().unwrap()).unwrap();
        assert!(!sent.contains("secret"), "{sent}");
        let sent: Value = serde_json::from_str(&sent).unwrap();
        let responses = sent.as_array().cloned().unwrap_or_else(|| vec![sent]);
        assert_eq!(responses.len(), items.len());
        assert!(responses.iter().all(|one| one["error"]["code"] == -32603));
        assert_eq!(responses[0]["id"], 1);
    }
}

#[test]
fn built_batch_is_parsed_back() {
    let name = |name: &'static str| MethodName::new(name).unwrap();
    let batch =
        Batch::new(Request::new(1, name("a")).with_params(RawJson::from_value(&[1]).unwrap()))
            .with_message(Notification::new(name("b")))
            .with_message(Response::success("x", RawJson::NULL))
            .with_message(Response::failure(
                None,
                ErrorObject::standard(ErrorCode::INTERNAL_ERROR),
            ));
    let bytes = batch.to_vec();
    let Parsed::Batch(items) = parse(&bytes, &Policy::STANDARD) else {
        panic!()
    };
    let read: Vec<_> = items.into_iter().map(Result::unwrap).collect();
    assert_eq!(
        read.iter().collect::<Vec<_>>(),
        batch.messages().collect::<Vec<_>>()
    );
}
