//! Ten megabytes of the worst kind. The cost must grow with the size and not with its square.
//!
//! No clock is read. A cost of the square would be some 10^12 steps here: these tests would not
//! come to an end, and the runner would say so.

use crate::verdict::{rejection, verdict};
use interzone_jsonrpc::{Batches, Item, Parsed, Policy, parse};

const SIZE: usize = 10_000_000;

const NO_LIMIT: Policy = Policy {
    batches: Batches::UpTo(usize::MAX),
    ..Policy::SERVER
};

/// `item` as often as fits into [`SIZE`], in one batch on one line.
fn batch_of(item: &str) -> String {
    let count = SIZE / (item.len() + 1);
    format!("[{}{item}]", format!("{item},").repeat(count))
}

#[test]
fn a_batch_of_rubbish_on_one_line() {
    // A rejection tells its line and column: finding each from the start would be the square.
    for item in [
        r#"{"jsonrpc":"2.0","id":1.5,"method":"somewhat longer than a digit"}"#,
        r#"{"id":1,"method":"no version","params":["é","日本語","🦀"]}"#,
        r#""no object at all, and a string of some length, so that few enough fit""#,
    ] {
        let text = batch_of(item);
        let Parsed::Batch(items) = parse(text.as_bytes(), &NO_LIMIT) else {
            panic!("{item}")
        };
        assert!(items.len() > SIZE / 100);
        let places: Vec<_> = items
            .iter()
            .map(|item: &Item| item.as_ref().unwrap_err().position())
            .collect();
        assert!(
            places
                .windows(2)
                .all(|pair| pair[0].column < pair[1].column)
        );
        let last = places.last().unwrap();
        assert_eq!(last.line, 1);
        assert_eq!(last.column, 1 + text[..last.offset].chars().count());
    }
}

#[test]
fn a_batch_of_rubbish_with_a_line_each() {
    let text = batch_of("\n\n\"a string of some length, so that few enough of them fit in\"");
    let Parsed::Batch(items) = parse(text.as_bytes(), &NO_LIMIT) else {
        panic!()
    };
    let last = items.last().unwrap().as_ref().unwrap_err().position();
    assert_eq!((last.line, last.column), (1 + 2 * items.len(), 1));
}

#[test]
fn a_batch_beyond_the_limit_keeps_nothing() {
    let text = batch_of("1");
    assert_eq!(verdict(&text, &Policy::SERVER), "batch_too_large");
    let broken = format!("{}x", text.trim_end_matches(']'));
    assert_eq!(
        rejection(broken.as_bytes(), &Policy::SERVER)
            .position()
            .offset,
        broken.len() - 1
    );
}

#[test]
fn nesting_a_hundred_thousand_deep_again_and_again() {
    for piece in ["[", r#"{"a":"#, r#"{"params":"#, r#"{"error":"#] {
        let deep = piece.repeat(100_000);
        let text = batch_of(&deep);
        assert_eq!(verdict(&text, &NO_LIMIT), "too_deep", "{piece}");
    }
    let at_the_limit = format!("{}{}", "[".repeat(125), "]".repeat(125));
    let text = batch_of(&at_the_limit);
    let Parsed::Batch(items) = parse(text.as_bytes(), &NO_LIMIT) else {
        panic!()
    };
    assert!(items.iter().all(Result::is_err));
}

#[test]
fn one_member_that_fills_the_text() {
    let escapes = r"\u0041".repeat(SIZE / 6);
    let digits = "7".repeat(SIZE);
    let spaces = " ".repeat(SIZE);
    for (text, expected) in [
        (
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{escapes}"}}"#),
            "request",
        ),
        (
            format!(r#"{{"jsonrpc":"2.0","method":"a","{escapes}":1}}"#),
            "notification",
        ),
        (
            format!(r#"{{"jsonrpc":"2.0","id":{digits},"method":"a"}}"#),
            "id_not_integer",
        ),
        (
            format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":{digits}}}}}"#),
            "response_refused",
        ),
        (
            format!("[1,{spaces}2{spaces},3]"),
            "[not_an_object not_an_object not_an_object]",
        ),
        (
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{escapes}\ud800"}}"#),
            "lone_surrogate",
        ),
    ] {
        assert_eq!(verdict(&text, &Policy::SERVER), expected);
    }
}

#[test]
fn many_members() {
    let known = r#""id":1,"#.repeat(SIZE / 7);
    let unknown = r#""\u0069d2":1,"#.repeat(SIZE / 13);
    assert_eq!(
        verdict(
            format!(r#"{{{known}"jsonrpc":"2.0","method":"a"}}"#),
            &Policy::SERVER
        ),
        "duplicate_member"
    );
    assert_eq!(
        verdict(
            format!(r#"{{{unknown}"jsonrpc":"2.0","method":"a"}}"#),
            &Policy::SERVER
        ),
        "notification"
    );
}

#[test]
fn a_kept_item_is_small() {
    // What an item of two bytes costs in memory bounds how far a peer can make us swell.
    assert!(size_of::<Item>() <= 96, "{} bytes", size_of::<Item>());
}
