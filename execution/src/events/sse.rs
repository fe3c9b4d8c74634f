//! The text of server-sent events.

use super::Notice;
use bytes::Bytes;

/// An event's notifications. Only the last carries the number: whoever is cut off before it gets all of
/// them again.
pub(super) fn frames(notices: &[Notice], seq: u64) -> Bytes {
    let size: usize = notices.iter().map(|notice| notice.json.len() + 96).sum();
    let mut out = Vec::with_capacity(size);
    for (index, notice) in notices.iter().enumerate() {
        if index + 1 == notices.len() {
            number(seq, &mut out);
        }
        body(notice, &mut out);
    }
    if notices.is_empty() {
        // Nothing to say, but the place in the log is one further.
        number(seq, &mut out);
        out.push(b'\n');
    }
    out.into()
}

/// A notification that has no number.
pub(super) fn unnumbered(notice: &Notice) -> Bytes {
    let mut out = Vec::with_capacity(notice.json.len() + 96);
    body(notice, &mut out);
    out.into()
}

fn number(seq: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"id: ");
    out.extend_from_slice(seq.to_string().as_bytes());
    out.push(b'\n');
}

fn body(notice: &Notice, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(notice.method.as_bytes());
    // What callers attach is kept letter for letter, line breaks between its members included. Readers
    // join the lines again.
    for line in notice.json.split(|byte| matches!(byte, b'\n' | b'\r')) {
        out.extend_from_slice(b"\ndata: ");
        out.extend_from_slice(line);
    }
    out.extend_from_slice(b"\n\n");
}
