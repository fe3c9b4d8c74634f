//! Nesting limits, and independence from the call stack.

use crate::classify::{classify, envelope, expect_message, expect_rejection};
use interzone_jsonrpc::{Batch, Batches, ErrorObject, Message, Policy, RawJson};
use serde_json::Value;

/// Returns `levels` nested containers: arrays, objects, or both alternating.
fn nested(levels: usize, style: usize) -> String {
    let open = |level: usize| match style {
        0 => "[",
        1 => r#"{"a":"#,
        _ if level.is_multiple_of(2) => "[",
        _ => r#"{"a":"#,
    };
    let close = |level: usize| if open(level) == "[" { "]" } else { "}" };
    let opening: String = (0..levels).map(open).collect();
    let closing: String = (0..levels).rev().map(close).collect();
    format!("{opening}1{closing}")
}

/// Returns messages with `value` in each place that a caller controls.
fn messages_with(value: &str) -> [String; 5] {
    [
        envelope(&format!(r#""method":"a","id":1,"params":{value}"#)),
        envelope(&format!(r#""method":"a","x":{value}"#)),
        envelope(&format!(r#""id":1,"result":{value}"#)),
        envelope(&format!(
            r#""id":1,"error":{{"code":1,"message":"m","data":{value}}}"#
        )),
        envelope(&format!(
            r#""id":1,"error":{{"code":1,"message":"m","x":{value}}}"#
        )),
    ]
}

#[test]
fn depth_limit_counts_only_the_value() {
    for (max_depth, limit) in [
        (0, 0),
        (1, 1),
        (10, 10),
        (125, 125),
        (126, 125),
        (u32::MAX, 125),
    ] {
        let policy = Policy {
            max_depth,
            ..Policy::STANDARD
        };
        let refusing = Policy {
            batches: Batches::Refuse,
            ..policy
        };
        let too_small = Policy {
            batches: Batches::UpTo(0),
            ..policy
        };
        for style in 0..3 {
            for (slack, fits) in [(0, true), (1, false)] {
                for text in messages_with(&nested(limit + slack, style)) {
                    let batch = format!("[1,{text}]");
                    for (text, policy, batch_error) in [
                        (&text, &policy, ""),
                        (&batch, &policy, ""),
                        (&batch, &refusing, "batch_refused"),
                        (&batch, &too_small, "batch_too_large"),
                    ] {
                        let label = classify(text, policy);
                        assert!(
                            batch_error.is_empty() || !fits || label == batch_error,
                            "{label} {max_depth} {text}"
                        );
                        // Where messages are skipped unread, envelope levels are not distinguished from values.
                        if batch_error.is_empty() || text.contains("error") {
                            assert_eq!(label != "too_deep", fits, "{max_depth} {style} {text}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn accepted_depth_can_be_decoded_and_sent_on() {
    for style in 0..3 {
        let deep = nested(125, style);
        let text = envelope(&format!(r#""id":1,"method":"a","params":{deep}"#));
        let Message::Request(request) = expect_message(&text, &Policy::STANDARD) else {
            panic!("{text}")
        };
        assert!(request.decode_params::<Value>().is_ok());
        let value = request.params().unwrap();
        assert_eq!(RawJson::parse(&deep).as_ref(), Ok(value));
        let error = ErrorObject::new(1, "m").with_data(value.borrowed());
        let messages = [
            Message::from(request.clone()),
            Message::from(request.succeed(value.borrowed())),
            Message::from(request.fail(error.clone())),
        ];
        for sent in messages {
            let alone = sent.to_string();
            assert_ne!(classify(&alone, &Policy::STANDARD), "too_deep");
            assert_eq!(serde_json::from_str::<Message>(&alone).unwrap(), sent);
            let batch = Batch::new(sent.clone()).with_message(sent).to_vec();
            let label = classify(&batch, &Policy::STANDARD);
            assert!(label.starts_with('['), "{label}");
        }
        let text = serde_json::to_string(&error).unwrap();
        assert_eq!(serde_json::from_str::<ErrorObject>(&text).unwrap(), error);
        assert!(RawJson::parse(&nested(126, style)).is_err());
    }
}

#[test]
fn siblings_do_not_add_to_depth() {
    let wide = format!("[{}[]]", "[[]],{\"a\":{}},".repeat(10_000));
    let text = envelope(&format!(r#""method":"a","params":{wide}"#));
    let policy = Policy {
        max_depth: 3,
        ..Policy::STANDARD
    };
    assert_eq!(classify(text, &policy), "notification");
}

#[test]
fn depth_error_points_at_the_first_level_beyond_limit() {
    for style in 0..3 {
        for text in [
            nested(100_000, style),
            "[".repeat(100_000),
            r#"{"a":"#.repeat(100_000),
            envelope(&format!(r#""params":{}"#, nested(100_000, style))),
        ] {
            let rejection = expect_rejection(text.as_bytes(), &Policy::SERVER);
            assert_eq!(rejection.kind().name(), "too_deep");
            assert!(rejection.position().offset < 1000);
        }
    }
}
