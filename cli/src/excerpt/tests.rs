//! Tests of the marker position.

use super::{Excerpt, MAX_BYTES, MAX_WIDTH, MAX_WIDTH_BEFORE};
use interzone_jsonrpc::Position;
use unicode_width::UnicodeWidthStr;

fn excerpt_at(bytes: &[u8], offset: usize) -> Option<Excerpt> {
    let line = 1 + bytes[..offset].iter().filter(|&&b| b == b'\n').count();
    let column = 1;
    Excerpt::at_position(
        bytes,
        Position {
            offset,
            line,
            column,
        },
    )
}

#[track_caller]
fn check(bytes: &[u8], offset: usize, text: &str, indent: usize) {
    let excerpt = excerpt_at(bytes, offset).unwrap();
    assert_eq!((excerpt.text.as_str(), excerpt.indent), (text, indent));
}

#[test]
fn excerpt_contains_only_the_line() {
    check(b"one\ntwo\nthree", 5, "two", 1);
    check(b"one\r\ntwo\r\nthree", 6, "two", 1);
    check(b"one", 3, "one", 3);
    check(b"one\ntwo", 3, "one", 3);
    assert_eq!(excerpt_at(b"", 0), None);
    assert_eq!(excerpt_at(b"{\n", 2), None);
    let blank = " \t".repeat(1000);
    for offset in [0, 1000, 2000] {
        assert_eq!(excerpt_at(blank.as_bytes(), offset), None, "{offset}");
    }
}

#[test]
fn marker_column_is_display_width() {
    check("日本 x".as_bytes(), 7, "日本 x", 5);
    check("e\u{301}x".as_bytes(), 3, "e\u{301}x", 1);
    check(b"\t\tx", 2, "  x", 2);
    check(b"a\tb", 1, "a\\tb", 1);
    check(b"\x1b[2Jx", 4, "\\u{1b}[2Jx", 9);
    check(b"ab\xff\xfe", 2, "ab\\xff\\xfe", 2);
}

#[test]
fn long_lines_are_truncated_on_both_sides() {
    let line = "x".repeat(1000);
    let excerpt = excerpt_at(line.as_bytes(), 500).unwrap();
    assert_eq!(excerpt.indent, MAX_WIDTH_BEFORE + 1);
    assert_eq!(excerpt.text, format!("…{}…", "x".repeat(MAX_WIDTH)));

    let excerpt = excerpt_at(line.as_bytes(), 10).unwrap();
    assert_eq!(excerpt.indent, 10);
    assert_eq!(excerpt.text, format!("{}…", "x".repeat(MAX_WIDTH)));

    let excerpt = excerpt_at(line.as_bytes(), 1000).unwrap();
    assert_eq!(excerpt.text, format!("…{}", "x".repeat(MAX_WIDTH_BEFORE)));
}

#[test]
fn truncation_does_not_split_characters() {
    for c in [
        "é",
        "日",
        "😀",
        "e\u{301}\u{301}\u{301}",
        "\u{202e}",
        "\u{301}",
    ] {
        let line = c.repeat(2 * MAX_BYTES);
        for (offset, _) in line.char_indices().step_by(7) {
            let excerpt = excerpt_at(line.as_bytes(), offset).unwrap();
            assert!(!excerpt.text.contains("\\x"), "{c:?} at {offset}");
            assert!(excerpt.text.width() <= MAX_WIDTH + 2, "{c:?} at {offset}");
        }
    }
}
