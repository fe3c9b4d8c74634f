//! Tests of the conversion of text deltas to chunks.

use super::{ChunkDraft, RESTART_NOTICE, new_text_chunks};

#[test]
fn duplicate_delta_is_delivered_once() {
    let chunk = |text| vec![ChunkDraft::text(text, false)];
    assert_eq!(new_text_chunks(None, 7, 0, "hello"), chunk("hello"));
    assert_eq!(
        new_text_chunks(Some((7, 5)), 7, 5, " world"),
        chunk(" world")
    );
    assert_eq!(
        new_text_chunks(Some((7, 5)), 7, 0, "hello world"),
        chunk(" world")
    );
    assert_eq!(new_text_chunks(Some((7, 5)), 7, 0, "hello"), []);
    assert_eq!(new_text_chunks(Some((7, 9)), 7, 0, "hello"), []);
}

#[test]
fn new_run_posts_restart_notice() {
    let expected = [
        ChunkDraft::text(RESTART_NOTICE, false),
        ChunkDraft::text("hello", false),
    ];
    assert_eq!(new_text_chunks(Some((7, 5)), 8, 0, "hello"), expected);
}
