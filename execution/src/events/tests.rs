//! Notifications as text.

use super::sse;
use super::*;
use interzone_edge::budget::ShareKey;
use interzone_edge::limits::HttpLimits;
use interzone_protocol::vocab::TaskId;

fn notice(json: &'static str) -> Notice {
    Notice {
        method: "task.notification",
        event: None,
        json: Bytes::from_static(json.as_bytes()),
        params: Bytes::new(),
    }
}

fn text_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn only_the_last_notification_of_an_event_has_its_number() {
    let frames = sse::frames(&[notice("{1}"), notice("{2}")], 7);
    assert_eq!(
        text_of(&frames.text),
        "event: task.notification\ndata: {1}\n\nid: 7\nevent: task.notification\ndata: {2}\n\n"
    );
}

#[test]
fn line_breaks_in_what_callers_attached_do_not_end_an_event() {
    let frames = sse::frames(&[notice("{\"a\":\n1,\r\"b\":2}")], 1);
    assert_eq!(
        text_of(&frames.text),
        "id: 1\nevent: task.notification\ndata: {\"a\":\ndata: 1,\ndata: \"b\":2}\n\n"
    );
}

#[test]
fn an_event_without_a_notification_moves_the_place_in_the_log() {
    assert_eq!(text_of(&sse::frames(&[], 9).text), "id: 9\n\n");
}

#[test]
fn live_text_has_no_number() {
    let id = TaskId::new("t-1").unwrap();
    let told = Told::early(
        text(&id, 3, 5, "a\nb").unwrap(),
        &HttpLimits::default(),
        &ShareKey::Unattributed,
    )
    .unwrap();
    assert_eq!(
        text_of(&told.sse),
        "event: interzone.task.text\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"interzone.task.text\",\"params\":{\"taskId\":\"t-1\",\"run\":3,\"offset\":5,\"delta\":\"a\\nb\"}}\n\n"
    );
}
