//! Where the mark stands, whatever the line is made of.

use super::{BEFORE, Excerpt, REACH, WIDTH};
use interzone_jsonrpc::Position;
use unicode_width::UnicodeWidthStr;

fn around(bytes: &[u8], offset: usize) -> Option<Excerpt> {
    let line = 1 + bytes[..offset].iter().filter(|&&b| b == b'\n').count();
    let column = 1;
    Excerpt::around(
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
    let excerpt = around(bytes, offset).unwrap();
    assert_eq!((excerpt.text.as_str(), excerpt.indent), (text, indent));
}

#[test]
fn shows_the_line_and_only_the_line() {
    check(b"one\ntwo\nthree", 5, "two", 1);
    check(b"one\r\ntwo\r\nthree", 6, "two", 1);
    check(b"one", 3, "one", 3);
    check(b"one\ntwo", 3, "one", 3);
    assert_eq!(around(b"", 0), None);
    assert_eq!(around(b"{\n", 2), None);
}

#[test]
fn counts_columns_not_bytes() {
    check("日本 x".as_bytes(), 7, "日本 x", 5);
    check("e\u{301}x".as_bytes(), 3, "e\u{301}x", 1);
    check(b"\t\tx", 2, "  x", 2);
    check(b"a\tb", 1, "a\\tb", 1);
    check(b"\x1b[2Jx", 4, "\\u{1b}[2Jx", 9);
    check(b"ab\xff\xfe", 2, "ab\\xff\\xfe", 2);
}

#[test]
fn long_lines_are_cut_on_both_sides() {
    let line = "x".repeat(1000);
    let excerpt = around(line.as_bytes(), 500).unwrap();
    assert_eq!(excerpt.indent, BEFORE + 1);
    assert_eq!(excerpt.text, format!("…{}…", "x".repeat(WIDTH)));

    let excerpt = around(line.as_bytes(), 10).unwrap();
    assert_eq!(excerpt.indent, 10);
    assert_eq!(excerpt.text, format!("{}…", "x".repeat(WIDTH)));

    let excerpt = around(line.as_bytes(), 1000).unwrap();
    assert_eq!(excerpt.text, format!("…{}", "x".repeat(BEFORE)));
}

#[test]
fn wherever_the_line_is_cut_characters_stay_whole() {
    for c in [
        "é",
        "日",
        "😀",
        "e\u{301}\u{301}\u{301}",
        "\u{202e}",
        "\u{301}",
    ] {
        let line = c.repeat(2 * REACH);
        for (offset, _) in line.char_indices().step_by(7) {
            let excerpt = around(line.as_bytes(), offset).unwrap();
            assert!(!excerpt.text.contains("\\x"), "{c:?} at {offset}");
            assert!(excerpt.text.width() <= WIDTH + 2, "{c:?} at {offset}");
        }
    }
}
