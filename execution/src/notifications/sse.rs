//! Encoding of notifications as server-sent events.

use super::RenderedNotification;
use std::ops::Range;

/// Encoded server-sent events, and the range of each notification's JSON.
#[derive(Debug, Default)]
pub(super) struct SseFrames {
    pub(super) text: Vec<u8>,
    /// `None` for JSON with line breaks, which becomes several `data:` lines.
    pub(super) json: Vec<Option<Range<usize>>>,
}

/// Encodes an event's notifications. Only the last has the `id`: a client that is disconnected before it
/// receives all of them again.
pub(super) fn encode_event(notifications: &[RenderedNotification], seq: u64) -> SseFrames {
    let size: usize = notifications
        .iter()
        .map(|notification| notification.json.len() + 96)
        .sum();
    let mut frames = SseFrames {
        text: Vec::with_capacity(size),
        json: Vec::with_capacity(notifications.len()),
    };
    for (index, notification) in notifications.iter().enumerate() {
        if index + 1 == notifications.len() {
            write_id(seq, &mut frames.text);
        }
        let range = write_notification(notification, &mut frames.text);
        frames.json.push(range);
    }
    if notifications.is_empty() {
        // No notification, but the client's position in the log advances.
        write_id(seq, &mut frames.text);
        frames.text.push(b'\n');
    }
    frames
}

/// Encodes a notification without `id`.
pub(super) fn encode_without_id(notification: &RenderedNotification) -> SseFrames {
    let mut text = Vec::with_capacity(notification.json.len() + 96);
    let range = write_notification(notification, &mut text);
    SseFrames {
        text,
        json: vec![range],
    }
}

fn write_id(seq: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"id: ");
    out.extend_from_slice(seq.to_string().as_bytes());
    out.push(b'\n');
}

/// Writes one notification. Returns the range of its JSON if that is contiguous.
fn write_notification(
    notification: &RenderedNotification,
    out: &mut Vec<u8>,
) -> Option<Range<usize>> {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(notification.method.as_bytes());
    // Caller-provided JSON is kept byte for byte, including line breaks between its members. Clients join
    // the lines again.
    let mut begin = 0;
    for line in notification
        .json
        .split(|byte| matches!(byte, b'\n' | b'\r'))
    {
        out.extend_from_slice(b"\ndata: ");
        begin = out.len();
        out.extend_from_slice(line);
    }
    let range = begin..out.len();
    out.extend_from_slice(b"\n\n");
    (range.len() == notification.json.len()).then_some(range)
}
