//! The bytes of an answer. What is large in it, a file, is written nowhere: where it belongs stands a
//! mark, and when the answer is sent the file itself goes out in its place, as often as it is mentioned.

use super::Reply;
use bytes::Bytes;
use interzone_edge::budget::Reservation;
use interzone_hub::BlobText;
use interzone_jsonrpc::{Answers, Parsed, Request, Response};

/// What is longer than this, in bytes, is worth a mark.
pub(crate) const INLINE: usize = 16 * 1024;

/// The most bytes that are handed on at once, so that nobody copies much.
const PIECE: usize = 64 * 1024;

/// A long text, fit to stand between the quotes of a JSON string, and the mark that stands for it.
#[derive(Clone, Debug)]
pub(crate) struct Large {
    mark: String,
    text: Bytes,
}

impl Large {
    /// `text` without so many bytes at either end. It must need no escapes in JSON.
    pub(crate) fn new(text: BlobText, trim: usize) -> Self {
        let end = text.len().saturating_sub(trim).max(trim);
        let whole = Bytes::from_owner(text);
        let text = if whole.len() >= end {
            whole.slice(trim..end)
        } else {
            Bytes::new()
        };
        // Nobody can guess it, so nobody can have written it.
        let mark = format!("[{}]", uuid::Uuid::new_v4());
        Self { mark, text }
    }

    pub(crate) fn mark(&self) -> &str {
        &self.mark
    }
}

/// Answers while they are written.
pub(super) struct Writing {
    answers: Answers,
    large: Vec<Large>,
    /// The memory that was reserved for them.
    reserved: Option<Reservation>,
}

impl Writing {
    pub(super) fn to(parsed: &Parsed<'_>) -> Self {
        Self {
            answers: Answers::to(parsed),
            large: Vec::new(),
            reserved: None,
        }
    }

    /// Takes over the memory that was reserved for an answer which is written next.
    pub(super) fn reserve(&mut self, reserved: Option<Reservation>) {
        match (&mut self.reserved, reserved) {
            (Some(before), Some(more)) => before.merge(more),
            (None, more) => self.reserved = more,
            (_, None) => {}
        }
    }

    /// Gives back what is reserved beyond what is written: what it was made of is gone.
    pub(super) fn settle(&mut self) {
        let size = self.size();
        if let Some(reserved) = &mut self.reserved {
            reserved.shrink_to(size);
        }
    }

    pub(super) fn push(&mut self, response: &Response<'_>) {
        self.answers.push(response);
    }

    pub(super) fn result(&mut self, request: &Request<'_>, reply: &Reply) {
        if let Reply::Shown(shown) = reply
            && let Some(text) = shown.written()
        {
            return self.answers.written(request, text);
        }
        let answered = match reply {
            Reply::Acp(result) => self.answers.result_by(request, |out| result.write_to(out)),
            reply => self.answers.result(request, reply),
        };
        if let Err(error) = answered {
            tracing::error!(%error, "a result could not be written");
        }
        if let Reply::Zone(said) = reply {
            self.large.extend_from_slice(&said.large);
        }
    }

    /// How many bytes there are so far.
    pub(super) fn size(&self) -> usize {
        let large: usize = self.large.iter().map(|large| large.text.len()).sum();
        self.answers.size().saturating_add(large)
    }

    /// The bytes to send, or nothing where nothing is due.
    pub(super) fn finish(self) -> Option<Content> {
        let json = self.answers.finish()?;
        Some(Content {
            json,
            large: self.large,
            reserved: self.reserved,
        })
    }
}

/// The bytes of an answer.
#[derive(Debug)]
pub(crate) struct Content {
    json: Vec<u8>,
    large: Vec<Large>,
    reserved: Option<Reservation>,
}

impl Content {
    pub(crate) fn new(json: Vec<u8>, large: Vec<Large>) -> Self {
        Self {
            json,
            large,
            reserved: None,
        }
    }

    /// The same with the memory that was reserved for it.
    pub(crate) fn with_reservation(mut self, reserved: Option<Reservation>) -> Self {
        self.reserved = reserved;
        self
    }

    /// The memory that was reserved for it.
    pub(crate) fn take_reservation(&mut self) -> Option<Reservation> {
        self.reserved.take()
    }

    /// All of it as one, if nothing in it is large.
    pub(crate) fn into_one(self) -> Result<Vec<u8>, Self> {
        if self.large.is_empty() {
            Ok(self.json)
        } else {
            Err(self)
        }
    }

    /// All of it as one, however large.
    pub(crate) fn joined(self) -> Vec<u8> {
        match self.into_one() {
            Ok(json) => json,
            Err(content) => content.pieces().concat(),
        }
    }

    /// All of it, piece by piece, in the order of sending.
    pub(crate) fn pieces(self) -> Vec<Bytes> {
        let json = Bytes::from(self.json);
        let text = std::str::from_utf8(&json).unwrap_or_default();
        let mut places: Vec<(usize, &Large)> = Vec::new();
        for large in &self.large {
            let found = text.match_indices(large.mark());
            places.extend(found.map(|(place, _)| (place, large)));
        }
        places.sort_unstable_by_key(|(place, _)| *place);
        let mut pieces = Vec::new();
        let mut from = 0;
        for (place, large) in places {
            cut(json.slice(from..place), &mut pieces);
            cut(large.text.clone(), &mut pieces);
            from = place + large.mark.len();
        }
        cut(json.slice(from..), &mut pieces);
        pieces
    }
}

fn cut(mut bytes: Bytes, into: &mut Vec<Bytes>) {
    while bytes.len() > PIECE {
        into.push(bytes.split_to(PIECE));
    }
    if !bytes.is_empty() {
        into.push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_goes_out_where_its_mark_stands_without_a_copy() {
        let file: BlobText = format!("\"{}\"", "A".repeat(3 * PIECE)).into();
        let at = file.as_ptr();
        let (one, two) = (Large::new(file, 1), Large::new("bb".into(), 0));
        let json = format!(
            r#"{{"a":"{m}","b":"{}","c":"{m}"}}"#,
            two.mark(),
            m = one.mark()
        );
        let content = Content::new(json.into_bytes(), vec![one, two]);
        let pieces = content.pieces();
        assert!(pieces.iter().all(|piece| piece.len() <= PIECE));
        let inside = pieces.iter().filter(|piece| {
            let address = piece.as_ptr().addr();
            (at.addr()..at.addr() + 3 * PIECE + 2).contains(&address)
        });
        assert_eq!(inside.count(), 6, "both mentions are the file itself");
        let sent = String::from_utf8(pieces.concat()).unwrap();
        let large = "A".repeat(3 * PIECE);
        assert_eq!(sent, format!(r#"{{"a":"{large}","b":"bb","c":"{large}"}}"#));
    }

    #[test]
    fn small_answers_are_one_piece() {
        let content = Content::new(b"{}".to_vec(), Vec::new());
        assert_eq!(content.into_one().unwrap(), b"{}");
        assert_eq!(Content::new(b"{}".to_vec(), Vec::new()).joined(), b"{}");
    }
}
