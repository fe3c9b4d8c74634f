//! Pieces of an answer: what is new in each, and where it begins anew.

use super::{BEGUN_ANEW, Piece, grown};

#[test]
fn a_delta_that_was_written_twice_is_said_once() {
    let piece = |text| vec![Piece::text(text, false)];
    assert_eq!(grown(None, 7, 0, "hello"), piece("hello"));
    assert_eq!(grown(Some((7, 5)), 7, 5, " world"), piece(" world"));
    assert_eq!(grown(Some((7, 5)), 7, 0, "hello world"), piece(" world"));
    assert_eq!(grown(Some((7, 5)), 7, 0, "hello"), []);
    assert_eq!(grown(Some((7, 9)), 7, 0, "hello"), []);
}

#[test]
fn another_run_begins_anew_and_says_so() {
    let said = [Piece::text(BEGUN_ANEW, false), Piece::text("hello", false)];
    assert_eq!(grown(Some((7, 5)), 8, 0, "hello"), said);
}
