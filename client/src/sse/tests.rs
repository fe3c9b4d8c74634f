//! SSE syntax variants, split at every position.

use super::{EventTooLarge, SseEvent, SseParser};
use std::collections::VecDeque;
use std::time::Duration;

fn event(id: Option<&str>, name: &str, data: &str) -> SseEvent {
    SseEvent {
        id: id.map(str::to_owned),
        name: name.to_owned(),
        data: data.as_bytes().to_vec(),
    }
}

fn parse_pieces(pieces: &[&[u8]]) -> Vec<SseEvent> {
    let mut parser = SseParser::new(1000);
    let mut out = VecDeque::new();
    for piece in pieces {
        parser.push(piece, &mut out).unwrap();
    }
    out.into()
}

fn cases() -> Vec<(&'static str, Vec<SseEvent>)> {
    vec![
        ("", vec![]),
        ("data: a\n\n", vec![event(None, "", "a")]),
        ("data:a\r\n\r\n", vec![event(None, "", "a")]),
        ("data:  a\r\r", vec![event(None, "", " a")]),
        ("\u{feff}data: a\n\n", vec![event(None, "", "a")]),
        ("\n\u{feff}data: a\n\n", vec![]),
        (
            "data: a\ndata: b\ndata:\n\n",
            vec![event(None, "", "a\nb\n")],
        ),
        ("data\n\n", vec![event(None, "", "")]),
        ("data\ndata\n\n", vec![event(None, "", "\n")]),
        (
            "id: 7\nevent: x\ndata: {}\n\n",
            vec![event(Some("7"), "x", "{}")],
        ),
        (
            "id: 7\ndata: a\n\ndata: b\n\n",
            vec![event(Some("7"), "", "a"), event(None, "", "b")],
        ),
        ("id: 7\nevent: x\n\ndata: b\n\n", vec![event(None, "", "b")]),
        ("id: 1\0\ndata: b\n\n", vec![event(None, "", "b")]),
        (
            ": keep-alive\n\n: again\n\ndata: a\n\n",
            vec![event(None, "", "a")],
        ),
        (
            "unknown: x\ndatax: y\n data: z\ndata: a\n\n",
            vec![event(None, "", "a")],
        ),
        ("data: cut off", vec![]),
        ("data: cut off\n", vec![]),
        (
            "data: ünï\u{1f980}\n\n",
            vec![event(None, "", "ünï\u{1f980}")],
        ),
        (
            "data: a\r\n\ndata: b\n\r\ndata: c\r\r\n",
            vec![
                event(None, "", "a"),
                event(None, "", "b"),
                event(None, "", "c"),
            ],
        ),
        ("data: a:b: c\n\n", vec![event(None, "", "a:b: c")]),
    ]
}

#[test]
fn parser_accepts_all_syntax_variants() {
    for (text, expected) in cases() {
        assert_eq!(parse_pieces(&[text.as_bytes()]), expected, "{text:?}");
    }
}

#[test]
fn parser_accepts_input_split_at_any_position() {
    for (text, expected) in cases() {
        let bytes = text.as_bytes();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(
                    parse_pieces(&pieces),
                    expected,
                    "{text:?} at {first} and {second}"
                );
            }
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(parse_pieces(&single), expected, "{text:?} byte by byte");
    }
}

#[test]
fn events_above_the_limit_are_rejected() {
    let long = "x".repeat(2000);
    let many = "data: xxxxxxxxxx\n".repeat(200);
    for text in [format!("data: {long}\n\n"), format!(": {long}"), many] {
        let mut parser = SseParser::new(1000);
        let mut out = VecDeque::new();
        let outcome = text
            .as_bytes()
            .chunks(7)
            .try_for_each(|piece| parser.push(piece, &mut out));
        assert_eq!(outcome, Err(EventTooLarge));
        assert!(out.is_empty());
    }
    let short = "data: xxxxxxxxxx\n\n".repeat(200);
    assert_eq!(
        parse_pieces(&[short.as_bytes()]).len(),
        200,
        "many small events are accepted"
    );
}

#[test]
fn retry_field_sets_the_reconnect_delay() {
    let mut parser = SseParser::new(1000);
    let mut out = VecDeque::new();
    for (line, expected) in [
        ("retry: 1500\n", Some(1500)),
        ("retry: soon\n", Some(1500)),
        ("retry: -1\n", Some(1500)),
        ("retry: 20\n", Some(20)),
        ("retry: 99999999999\n", Some(300_000)),
    ] {
        parser.push(line.as_bytes(), &mut out).unwrap();
        assert_eq!(
            parser.retry(),
            expected.map(Duration::from_millis),
            "{line:?}"
        );
    }
}
