//! How deep a message may nest, and that nothing depends on the call stack.

use crate::verdict::{envelope, message, rejection, verdict};
use interzone_jsonrpc::{Batch, Batches, Error, Message, Policy, RawJson};
use serde_json::Value;

/// `levels` containers within each other, of arrays, of objects, or of both in turn.
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

/// Where a value of a caller's own may stand in a message.
fn places(value: &str) -> [String; 5] {
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
fn the_limit_counts_the_value_wherever_it_stands() {
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
        let none = Policy {
            batches: Batches::UpTo(0),
            ..policy
        };
        for style in 0..3 {
            for (slack, fits) in [(0, true), (1, false)] {
                for text in places(&nested(limit + slack, style)) {
                    let batch = format!("[1,{text}]");
                    for (text, policy, whole) in [
                        (&text, &policy, ""),
                        (&batch, &policy, ""),
                        (&batch, &refusing, "batch_refused"),
                        (&batch, &none, "batch_too_large"),
                    ] {
                        let word = verdict(text, policy);
                        assert!(
                            whole.is_empty() || !fits || word == whole,
                            "{word} {max_depth} {text}"
                        );
                        // Where nobody looks into messages, levels around values are not told apart.
                        if whole.is_empty() || text.contains("error") {
                            assert_eq!(word != "too_deep", fits, "{max_depth} {style} {text}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn what_was_let_in_can_be_decoded_and_sent_on_in_any_place() {
    for style in 0..3 {
        let deep = nested(125, style);
        let text = envelope(&format!(r#""id":1,"method":"a","params":{deep}"#));
        let Message::Request(request) = message(&text, &Policy::STANDARD) else {
            panic!("{text}")
        };
        assert!(request.decode_params::<Value>().is_ok());
        let value = request.params().unwrap();
        assert_eq!(RawJson::parse(&deep).as_ref(), Ok(value));
        let error = Error::new(1, "m").with_data(value.borrowed());
        let messages = [
            Message::from(request.clone()),
            Message::from(request.succeed(value.borrowed())),
            Message::from(request.fail(error.clone())),
        ];
        for sent in messages {
            let alone = sent.to_string();
            assert_ne!(verdict(&alone, &Policy::STANDARD), "too_deep");
            assert_eq!(serde_json::from_str::<Message>(&alone).unwrap(), sent);
            let batch = Batch::new(sent.clone()).with(sent).to_vec();
            let word = verdict(&batch, &Policy::STANDARD);
            assert!(word.starts_with('['), "{word}");
        }
        let text = serde_json::to_string(&error).unwrap();
        assert_eq!(serde_json::from_str::<Error>(&text).unwrap(), error);
        assert!(RawJson::parse(&nested(126, style)).is_err());
    }
}

#[test]
fn siblings_do_not_add_up() {
    let wide = format!("[{}[]]", "[[]],{\"a\":{}},".repeat(10_000));
    let text = envelope(&format!(r#""method":"a","params":{wide}"#));
    let policy = Policy {
        max_depth: 3,
        ..Policy::STANDARD
    };
    assert_eq!(verdict(text, &policy), "notification");
}

#[test]
fn a_hundred_thousand_levels_are_refused_where_the_limit_is_passed() {
    for style in 0..3 {
        for text in [
            nested(100_000, style),
            "[".repeat(100_000),
            r#"{"a":"#.repeat(100_000),
            envelope(&format!(r#""params":{}"#, nested(100_000, style))),
        ] {
            let rejection = rejection(text.as_bytes(), &Policy::SERVER);
            assert_eq!(rejection.problem().name(), "too_deep");
            assert!(rejection.position().offset < 1000);
        }
    }
}
