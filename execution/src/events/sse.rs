//! The text of server-sent events.

use super::Notice;
use std::ops::Range;

/// Server-sent events as text, and where in it the JSON of each notification is.
#[derive(Debug, Default)]
pub(super) struct Frames {
    pub(super) text: Vec<u8>,
    /// None for JSON with line breaks, which the text holds line by line.
    pub(super) json: Vec<Option<Range<usize>>>,
}

/// An event's notifications. Only the last carries the number: whoever is cut off before it gets all of
/// them again.
pub(super) fn frames(notices: &[Notice], seq: u64) -> Frames {
    let size: usize = notices.iter().map(|notice| notice.json.len() + 96).sum();
    let mut frames = Frames {
        text: Vec::with_capacity(size),
        json: Vec::with_capacity(notices.len()),
    };
    for (index, notice) in notices.iter().enumerate() {
        if index + 1 == notices.len() {
            number(seq, &mut frames.text);
        }
        let place = body(notice, &mut frames.text);
        frames.json.push(place);
    }
    if notices.is_empty() {
        // Nothing to say, but the place in the log is one further.
        number(seq, &mut frames.text);
        frames.text.push(b'\n');
    }
    frames
}

/// A notification that has no number.
pub(super) fn unnumbered(notice: &Notice) -> Frames {
    let mut text = Vec::with_capacity(notice.json.len() + 96);
    let place = body(notice, &mut text);
    Frames {
        text,
        json: vec![place],
    }
}

fn number(seq: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"id: ");
    out.extend_from_slice(seq.to_string().as_bytes());
    out.push(b'\n');
}

/// Writes one notification. Says where its JSON is, if it is in one piece.
fn body(notice: &Notice, out: &mut Vec<u8>) -> Option<Range<usize>> {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(notice.method.as_bytes());
    // What callers attach is kept letter for letter, line breaks between its members included. Readers
    // join the lines again.
    let mut begin = 0;
    for line in notice.json.split(|byte| matches!(byte, b'\n' | b'\r')) {
        out.extend_from_slice(b"\ndata: ");
        begin = out.len();
        out.extend_from_slice(line);
    }
    let place = begin..out.len();
    out.extend_from_slice(b"\n\n");
    (place.len() == notice.json.len()).then_some(place)
}
