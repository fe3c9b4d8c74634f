//! Linear run time on ten megabytes of adversarial input.
//!
//! No clock is read. Quadratic time would be some 10^12 steps here: the tests would hit the timeout of the runner.

use crate::classify::{classify, expect_rejection};
use interzone_jsonrpc::{Batches, Item, Parsed, Policy, parse};

const INPUT_BYTES: usize = 10_000_000;

const NO_LIMIT: Policy = Policy {
    batches: Batches::UpTo(usize::MAX),
    ..Policy::SERVER
};

/// Returns a batch on one line that repeats `item` up to [`INPUT_BYTES`].
fn batch_of(item: &str) -> String {
    let count = INPUT_BYTES / (item.len() + 1);
    format!("[{}{item}]", format!("{item},").repeat(count))
}

#[test]
fn invalid_batch_on_one_line_takes_linear_time() {
    // Errors have line and column: locating each from the start would be quadratic.
    for item in [
        r#"{"jsonrpc":"2.0","id":1.5,"method":"somewhat longer than a digit"}"#,
        r#"{"id":1,"method":"no version","params":["é","日本語","🦀"]}"#,
        r#""no object at all, and a string of some length, so that few enough fit""#,
    ] {
        let text = batch_of(item);
        let Parsed::Batch(items) = parse(text.as_bytes(), &NO_LIMIT) else {
            panic!("{item}")
        };
        assert!(items.len() > INPUT_BYTES / 100);
        let positions: Vec<_> = items
            .iter()
            .map(|item: &Item| item.as_ref().unwrap_err().position())
            .collect();
        assert!(
            positions
                .windows(2)
                .all(|pair| pair[0].column < pair[1].column)
        );
        let last = positions.last().unwrap();
        assert_eq!(last.line, 1);
        assert_eq!(last.column, 1 + text[..last.offset].chars().count());
    }
}

#[test]
fn invalid_batch_with_a_line_each_takes_linear_time() {
    let text = batch_of("\n\n\"a string of some length, so that few enough of them fit in\"");
    let Parsed::Batch(items) = parse(text.as_bytes(), &NO_LIMIT) else {
        panic!()
    };
    let last = items.last().unwrap().as_ref().unwrap_err().position();
    assert_eq!((last.line, last.column), (1 + 2 * items.len(), 1));
}

#[test]
fn oversized_batch_is_rejected_without_storing_items() {
    let text = batch_of("1");
    assert_eq!(classify(&text, &Policy::SERVER), "batch_too_large");
    let broken = format!("{}x", text.trim_end_matches(']'));
    assert_eq!(
        expect_rejection(broken.as_bytes(), &Policy::SERVER)
            .position()
            .offset,
        broken.len() - 1
    );
}

#[test]
fn repeated_deep_nesting_takes_linear_time() {
    for piece in ["[", r#"{"a":"#, r#"{"params":"#, r#"{"error":"#] {
        let deep = piece.repeat(100_000);
        let text = batch_of(&deep);
        assert_eq!(classify(&text, &NO_LIMIT), "too_deep", "{piece}");
    }
    let at_the_limit = format!("{}{}", "[".repeat(125), "]".repeat(125));
    let text = batch_of(&at_the_limit);
    let Parsed::Batch(items) = parse(text.as_bytes(), &NO_LIMIT) else {
        panic!()
    };
    assert!(items.iter().all(Result::is_err));
}

#[test]
fn single_huge_member_takes_linear_time() {
    let escapes = r"\u0041".repeat(INPUT_BYTES / 6);
    let digits = "7".repeat(INPUT_BYTES);
    let spaces = " ".repeat(INPUT_BYTES);
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
        assert_eq!(classify(&text, &Policy::SERVER), expected);
    }
}

#[test]
fn many_members_take_linear_time() {
    let duplicates = r#""id":1,"#.repeat(INPUT_BYTES / 7);
    let extra = r#""\u0069d2":1,"#.repeat(INPUT_BYTES / 13);
    assert_eq!(
        classify(
            format!(r#"{{{duplicates}"jsonrpc":"2.0","method":"a"}}"#),
            &Policy::SERVER
        ),
        "duplicate_member"
    );
    assert_eq!(
        classify(
            format!(r#"{{{extra}"jsonrpc":"2.0","method":"a"}}"#),
            &Policy::SERVER
        ),
        "notification"
    );
}

#[test]
fn parsed_item_is_at_most_96_bytes() {
    // The memory of a two-byte item bounds how much a peer can make the server allocate.
    assert!(size_of::<Item>() <= 96, "{} bytes", size_of::<Item>());
}
