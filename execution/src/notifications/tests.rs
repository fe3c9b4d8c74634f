//! Tests of notification encoding.

use super::sse;
use super::*;
use interzone_edge::budget::ShareKey;
use interzone_edge::limits::HttpLimits;
use interzone_protocol::vocab::TaskId;

/// Renders every event as its sequence number.
pub(super) struct ToyRenderer;

#[async_trait]
impl EventRenderer for ToyRenderer {
    async fn render_event(
        &self,
        _: &Hub,
        event: &Event,
        _: Option<&dyn ReadMemory>,
    ) -> Result<Vec<RenderedNotification>, HubError> {
        Ok(RenderedNotification::new("toy", None, &[event.seq])
            .into_iter()
            .collect())
    }

    fn render_text_delta(
        &self,
        _: &TaskId,
        _: u64,
        _: u64,
        _: &str,
    ) -> Option<RenderedNotification> {
        None
    }
}

fn notification(json: &'static str) -> RenderedNotification {
    RenderedNotification {
        method: "task.notification",
        event: None,
        json: Bytes::from_static(json.as_bytes()),
        params: Bytes::new(),
    }
}

fn utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn only_last_notification_of_event_has_sse_id() {
    let frames = sse::encode_event(&[notification("{1}"), notification("{2}")], 7);
    assert_eq!(
        utf8(&frames.text),
        "event: task.notification\ndata: {1}\n\nid: 7\nevent: task.notification\ndata: {2}\n\n"
    );
}

#[test]
fn line_breaks_in_caller_json_do_not_end_sse_event() {
    let frames = sse::encode_event(&[notification("{\"a\":\n1,\r\"b\":2}")], 1);
    assert_eq!(
        utf8(&frames.text),
        "id: 1\nevent: task.notification\ndata: {\"a\":\ndata: 1,\ndata: \"b\":2}\n\n"
    );
}

#[test]
fn event_without_notification_still_sends_id() {
    assert_eq!(utf8(&sse::encode_event(&[], 9).text), "id: 9\n\n");
}

#[test]
fn live_text_has_no_sse_id() {
    let id = TaskId::new("t-1").unwrap();
    let event = RenderedEvent::unsequenced(
        Format::Acp
            .renderer()
            .render_text_delta(&id, 3, 5, "a\nb")
            .unwrap(),
        &HttpLimits::default(),
        &ShareKey::Unattributed,
    )
    .unwrap();
    assert_eq!(
        utf8(&event.sse),
        "event: interzone.task.text\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"interzone.task.text\",\"params\":{\"taskId\":\"t-1\",\"run\":3,\"offset\":5,\"delta\":\"a\\nb\"}}\n\n"
    );
}
