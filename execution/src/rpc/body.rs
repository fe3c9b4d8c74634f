//! Response bodies. Large file contents are not copied into the JSON; a placeholder is written and replaced by the
//! shared bytes when the body is sent.

use super::reply::CallResult;
use bytes::Bytes;
use interzone_edge::budget::{MemoryBudget, Reservation, ShareKey};
use interzone_hub::BlobContent;
use interzone_jsonrpc::{Parsed, Request, Response, ResponseWriter};

/// Largest text in bytes that is written inline; longer text gets a placeholder.
pub(crate) const MAX_INLINE_BYTES: usize = 16 * 1024;

/// Maximum size of a chunk in bytes, which bounds copies by the transport.
const CHUNK_SIZE: usize = 64 * 1024;

/// A long text for a JSON string that needs no escaping, with its placeholder.
#[derive(Clone, Debug)]
pub(crate) struct SplicedText {
    placeholder: String,
    text: Bytes,
}

impl SplicedText {
    /// Creates it from `text` without `trim` bytes at either end. It must need no JSON escapes.
    pub(crate) fn new(text: BlobContent, trim: usize) -> Self {
        let end = text.len().saturating_sub(trim).max(trim);
        let bytes = Bytes::from_owner(text);
        let text = if bytes.len() >= end {
            bytes.slice(trim..end)
        } else {
            Bytes::new()
        };
        // Random, so content cannot contain it.
        let placeholder = format!("[{}]", uuid::Uuid::new_v4());
        Self { placeholder, text }
    }

    pub(crate) fn placeholder(&self) -> &str {
        &self.placeholder
    }
}

/// Builder of a response body.
pub(super) struct ResponseBuilder {
    writer: ResponseWriter,
    spliced: Vec<SplicedText>,
    /// Response memory reserved so far.
    reserved: Option<Reservation>,
}

impl ResponseBuilder {
    pub(super) fn for_parsed(parsed: &Parsed<'_>) -> Self {
        Self {
            writer: ResponseWriter::for_parsed(parsed),
            spliced: Vec::new(),
            reserved: None,
        }
    }

    /// Adds the reservation of the response that is written next.
    pub(super) fn add_reservation(&mut self, reserved: Option<Reservation>) {
        match (&mut self.reserved, reserved) {
            (Some(before), Some(more)) => before.merge(more),
            (None, more) => self.reserved = more,
            (_, None) => {}
        }
    }

    /// Shrinks the reservation to the size written: the source content has been freed.
    pub(super) fn shrink_reservation(&mut self) {
        let size = self.size();
        if let Some(reserved) = &mut self.reserved {
            reserved.shrink_to(size);
        }
    }

    /// Reserves response memory for what is written and `more` bytes. Returns false if the total or the caller's share
    /// is used up.
    pub(super) fn reserve_more(
        &mut self,
        more: usize,
        budget: &MemoryBudget,
        key: &ShareKey,
    ) -> bool {
        let size = self.size().saturating_add(more);
        match &mut self.reserved {
            Some(reserved) => reserved.grow_to(size),
            None => {
                self.reserved = budget.reserve(key, size);
                self.reserved.is_some()
            }
        }
    }

    pub(super) fn push(&mut self, response: &Response<'_>) {
        self.writer.push(response);
    }

    pub(super) fn result(&mut self, request: &Request<'_>, result: &dyn CallResult) {
        if let Some(text) = result.cached_json() {
            return self.writer.result_preserialized(request, text);
        }
        if let Err(error) = result.write_to(&mut self.writer, request) {
            tracing::error!(%error, "result serialization failed");
        }
        self.spliced.extend_from_slice(result.spliced());
    }

    /// Returns the number of bytes so far.
    pub(super) fn size(&self) -> usize {
        let large: usize = self.spliced.iter().map(|large| large.text.len()).sum();
        self.writer.bytes_written().saturating_add(large)
    }

    /// Returns the body; `None` if no response is due.
    pub(super) fn finish(self) -> Option<ResponseBody> {
        let json = self.writer.finish()?;
        Some(ResponseBody {
            json,
            spliced: self.spliced,
            reserved: self.reserved,
        })
    }
}

/// Body of a response.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    json: Vec<u8>,
    spliced: Vec<SplicedText>,
    reserved: Option<Reservation>,
}

impl ResponseBody {
    pub(crate) fn new(json: Vec<u8>, spliced: Vec<SplicedText>) -> Self {
        Self {
            json,
            spliced,
            reserved: None,
        }
    }

    /// Attaches a reservation of response memory.
    pub(crate) fn with_reservation(mut self, reserved: Option<Reservation>) -> Self {
        self.reserved = reserved;
        self
    }

    /// Takes the reservation of response memory.
    pub(crate) fn take_reservation(&mut self) -> Option<Reservation> {
        self.reserved.take()
    }

    /// Returns the bytes as one buffer, or the body if it has spliced texts.
    pub(crate) fn into_single(self) -> Result<Vec<u8>, Self> {
        if self.spliced.is_empty() {
            Ok(self.json)
        } else {
            Err(self)
        }
    }

    /// Concatenates the body into one buffer.
    pub(crate) fn concat(self) -> Vec<u8> {
        match self.into_single() {
            Ok(json) => json,
            Err(content) => content.into_chunks().concat(),
        }
    }

    /// Splits the body into chunks in the order of sending.
    pub(crate) fn into_chunks(self) -> Vec<Bytes> {
        let json = Bytes::from(self.json);
        let text = std::str::from_utf8(&json).unwrap_or_default();
        let mut offsets: Vec<(usize, &SplicedText)> = Vec::new();
        for spliced in &self.spliced {
            let found = text.match_indices(spliced.placeholder());
            offsets.extend(found.map(|(offset, _)| (offset, spliced)));
        }
        offsets.sort_unstable_by_key(|(place, _)| *place);
        let mut chunks = Vec::new();
        let mut from = 0;
        for (offset, spliced) in offsets {
            push_chunks(json.slice(from..offset), &mut chunks);
            push_chunks(spliced.text.clone(), &mut chunks);
            from = offset + spliced.placeholder.len();
        }
        push_chunks(json.slice(from..), &mut chunks);
        chunks
    }
}

fn push_chunks(mut bytes: Bytes, chunks: &mut Vec<Bytes>) {
    while bytes.len() > CHUNK_SIZE {
        chunks.push(bytes.split_to(CHUNK_SIZE));
    }
    if !bytes.is_empty() {
        chunks.push(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spliced_text_replaces_placeholder_without_copying() {
        let file: BlobContent = format!("\"{}\"", "A".repeat(3 * CHUNK_SIZE)).into();
        let start = file.as_ptr();
        let (one, two) = (SplicedText::new(file, 1), SplicedText::new("bb".into(), 0));
        let json = format!(
            r#"{{"a":"{m}","b":"{}","c":"{m}"}}"#,
            two.placeholder(),
            m = one.placeholder()
        );
        let body = ResponseBody::new(json.into_bytes(), vec![one, two]);
        let chunks = body.into_chunks();
        assert!(chunks.iter().all(|piece| piece.len() <= CHUNK_SIZE));
        let inside = chunks.iter().filter(|piece| {
            let address = piece.as_ptr().addr();
            (start.addr()..start.addr() + 3 * CHUNK_SIZE + 2).contains(&address)
        });
        assert_eq!(inside.count(), 6, "both occurrences share the file's bytes");
        let sent = String::from_utf8(chunks.concat()).unwrap();
        let large = "A".repeat(3 * CHUNK_SIZE);
        assert_eq!(sent, format!(r#"{{"a":"{large}","b":"bb","c":"{large}"}}"#));
    }

    #[test]
    fn small_body_is_one_buffer() {
        let body = ResponseBody::new(b"{}".to_vec(), Vec::new());
        assert_eq!(body.into_single().unwrap(), b"{}");
        assert_eq!(
            ResponseBody::new(b"{}".to_vec(), Vec::new()).concat(),
            b"{}"
        );
    }
}
