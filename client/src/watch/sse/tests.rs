//! Server-sent events in every spelling, cut at every place.

use super::{Event, Parser, TooLarge};
use std::collections::VecDeque;
use std::time::Duration;

fn event(id: Option<&str>, name: &str, data: &str) -> Event {
    Event {
        id: id.map(str::to_owned),
        name: name.to_owned(),
        data: data.as_bytes().to_vec(),
    }
}

fn read(pieces: &[&[u8]]) -> Vec<Event> {
    let mut parser = Parser::new(1000);
    let mut out = VecDeque::new();
    for piece in pieces {
        parser.push(piece, &mut out).unwrap();
    }
    out.into()
}

fn table() -> Vec<(&'static str, Vec<Event>)> {
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
fn every_spelling() {
    for (text, expected) in table() {
        assert_eq!(read(&[text.as_bytes()]), expected, "{text:?}");
    }
}

#[test]
fn cut_at_every_place() {
    for (text, expected) in table() {
        let bytes = text.as_bytes();
        for first in 0..=bytes.len() {
            for second in first..=bytes.len() {
                let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
                assert_eq!(read(&pieces), expected, "{text:?} at {first} and {second}");
            }
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(&single), expected, "{text:?} byte by byte");
    }
}

#[test]
fn large_events_are_refused_however_they_are_written() {
    let long = "x".repeat(2000);
    let many = "data: xxxxxxxxxx\n".repeat(200);
    for text in [format!("data: {long}\n\n"), format!(": {long}"), many] {
        let mut parser = Parser::new(1000);
        let mut out = VecDeque::new();
        let outcome = text
            .as_bytes()
            .chunks(7)
            .try_for_each(|piece| parser.push(piece, &mut out));
        assert_eq!(outcome, Err(TooLarge));
        assert!(out.is_empty());
    }
    let short = "data: xxxxxxxxxx\n\n".repeat(200);
    assert_eq!(
        read(&[short.as_bytes()]).len(),
        200,
        "many small ones are fine"
    );
}

#[test]
fn the_server_says_how_long_to_wait() {
    let mut parser = Parser::new(1000);
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
