//! How deep a message may nest, and that nothing depends on the call stack.

use crate::verdict::{envelope, message, rejection, verdict};
use interzone_jsonrpc::{Batches, Message, Policy, RawJson};
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

/// Where a value of a caller's own may stand in a message, and how deep it stands there.
fn places(value: &str) -> [(String, usize); 5] {
    [
        (
            envelope(&format!(r#""method":"a","id":1,"params":{value}"#)),
            1,
        ),
        (envelope(&format!(r#""method":"a","x":{value}"#)), 1),
        (envelope(&format!(r#""id":1,"result":{value}"#)), 1),
        (
            envelope(&format!(
                r#""id":1,"error":{{"code":1,"message":"m","data":{value}}}"#
            )),
            2,
        ),
        (
            envelope(&format!(
                r#""id":1,"error":{{"code":1,"message":"m","x":{value}}}"#
            )),
            2,
        ),
    ]
}

#[test]
fn the_limit_counts_the_message_and_its_batch() {
    for max_depth in [3, 4, 10, 64, 127, 128] {
        let policy = Policy {
            max_depth,
            ..Policy::STANDARD
        };
        let limit = usize::try_from(max_depth).unwrap();
        for style in 0..3 {
            for (slack, fits) in [(0, true), (1, false)] {
                for place in 0..5 {
                    let depth = places("1")[place].1;
                    let (text, _) = &places(&nested(limit - depth + slack, style))[place];
                    let good = verdict(text, &policy) != "too_deep";
                    assert_eq!(good, fits, "{max_depth} {style} {text}");

                    let (text, _) = &places(&nested(limit - depth - 1 + slack, style))[place];
                    let batch = format!("[1,{text}]");
                    let good = verdict(&batch, &policy) != "too_deep";
                    assert_eq!(good, fits, "{max_depth} {style} {batch}");
                }
            }
        }
    }
}

#[test]
fn the_smallest_limits_hold_too() {
    let call = r#"{"jsonrpc":"2.0","method":"a","id":1}"#;
    let batch = format!("[{call}]");
    for (max_depth, of_call, of_batch) in [
        (0, "too_deep", "too_deep"),
        (1, "request", "too_deep"),
        (2, "request", "[request]"),
    ] {
        let policy = Policy {
            max_depth,
            ..Policy::STANDARD
        };
        assert_eq!(verdict(call, &policy), of_call);
        assert_eq!(verdict(&batch, &policy), of_batch);
        assert_eq!(verdict("1", &policy), "not_an_object");
        let refusing = Policy {
            batches: Batches::Refuse,
            ..policy
        };
        let word = if max_depth < 2 {
            "too_deep"
        } else {
            "batch_refused"
        };
        assert_eq!(verdict(&batch, &refusing), word);
    }
}

#[test]
fn no_policy_goes_deeper_than_128() {
    for max_depth in [128, 129, 1000, u32::MAX] {
        let policy = Policy {
            max_depth,
            ..Policy::STANDARD
        };
        for style in 0..3 {
            let at = envelope(&format!(r#""method":"a","params":{}"#, nested(127, style)));
            let over = envelope(&format!(r#""method":"a","params":{}"#, nested(128, style)));
            assert_eq!(verdict(at, &policy), "notification");
            assert_eq!(verdict(over, &policy), "too_deep");
        }
    }
}

#[test]
fn what_was_let_in_can_be_decoded_and_sent_on() {
    for style in 0..3 {
        let deep = nested(127, style);
        let text = envelope(&format!(r#""id":1,"method":"a","params":{deep}"#));
        let Message::Request(request) = message(&text, &Policy::STANDARD) else {
            panic!("{text}")
        };
        assert!(request.decode_params::<Value>().is_ok());
        assert_eq!(
            RawJson::parse(&deep).as_ref(),
            Ok(request.params().unwrap())
        );
        assert_eq!(request.to_string(), text);
        assert_eq!(
            verdict(
                request
                    .succeed(request.params().unwrap().borrowed())
                    .to_string(),
                &Policy::STANDARD
            ),
            "success"
        );
        assert!(RawJson::parse(&nested(128, style)).is_err());
    }
}

#[test]
fn siblings_do_not_add_up() {
    let wide = format!("[{}[]]", "[[]],{\"a\":{}},".repeat(10_000));
    let text = envelope(&format!(r#""method":"a","params":{wide}"#));
    let policy = Policy {
        max_depth: 4,
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
