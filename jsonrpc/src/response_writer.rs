//! Writes responses into one buffer, and builds batches to send.

use crate::parse::{Item, Parsed};
use crate::raw;
use crate::response::{RESULT_KEY, write_response_start};
use crate::scan::MAX_DEPTH;
use crate::{ErrorCode, ErrorObject, Message, Request, Response};
use serde::Serialize;

/// Collects the responses to one message or batch as the bytes to send back.
///
/// Responses may be added in any order. If none is expected, because there were only notifications, there are no
/// bytes, not even `[]`. Responses beyond the expected number are dropped.
///
/// ```
/// use interzone_jsonrpc::{parse, ResponseWriter, Message, Parsed, Policy};
///
/// let bytes = br#"[{"jsonrpc":"2.0","method":"sum","params":[1,2],"id":1},{"foo":"boo"},
///                  {"jsonrpc":"2.0","method":"note"}]"#;
/// let parsed = parse(bytes, &Policy::SERVER);
/// let mut writer = ResponseWriter::for_parsed(&parsed);
/// let Parsed::Batch(items) = parsed else { unreachable!() };
/// for item in items {
///     match item {
///         Ok(Message::Request(request)) => {
///             let sum: u32 = request.decode_params::<Vec<u32>>()?.iter().sum();
///             writer.result(&request, &sum)?;
///         }
///         Ok(Message::Notification(_) | Message::Response(_)) => {}
///         Err(rejection) => writer.extend(rejection.response().as_ref()),
///     }
/// }
/// let sent = String::from_utf8(writer.finish().unwrap_or_default())?;
/// assert!(sent.starts_with(r#"[{"jsonrpc":"2.0","id":1,"result":3},{"jsonrpc":"2.0","id":null,"error""#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ResponseWriter {
    out: Vec<u8>,
    is_batch: bool,
    /// Number of responses that may still be added.
    remaining: usize,
}

/// Bytes reserved for an envelope.
const ENVELOPE_BYTES: usize = 128;
/// Bytes reserved for a response of unknown size: an envelope and a task with a short text.
const TYPICAL_RESPONSE_BYTES: usize = 640;
/// Upper bound of the bytes reserved up front for a batch.
const MAX_RESERVED_BYTES: usize = 64 * 1024;

impl ResponseWriter {
    /// Creates a writer for the responses to `parsed`: an array for a batch, else a single response.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, ResponseWriter, Policy, RawJson, Response};
    ///
    /// let batch = parse(br#"[{"jsonrpc":"2.0","method":"ping","id":1}]"#, &Policy::SERVER);
    /// let mut writer = ResponseWriter::for_parsed(&batch);
    /// writer.push(&Response::success(1, RawJson::NULL));
    /// assert_eq!(writer.finish(), Some(br#"[{"jsonrpc":"2.0","id":1,"result":null}]"#.to_vec()));
    /// ```
    pub fn for_parsed(parsed: &Parsed<'_>) -> Self {
        let remaining = match parsed {
            Parsed::One(item) => usize::from(expects_response(item)),
            Parsed::Batch(items) => items.iter().filter(|item| expects_response(item)).count(),
        };
        Self {
            out: Vec::new(),
            is_batch: matches!(parsed, Parsed::Batch(_)),
            remaining,
        }
    }

    /// Adds a response, unless all expected ones are there.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, ResponseWriter, Policy, RawJson, Response};
    ///
    /// let parsed = parse(br#"{"jsonrpc":"2.0","method":"ping","id":1}"#, &Policy::SERVER);
    /// let mut writer = ResponseWriter::for_parsed(&parsed);
    /// writer.push(&Response::success(1, RawJson::NULL));
    /// writer.push(&Response::success(2, RawJson::NULL)); // not expected, dropped
    /// assert_eq!(writer.finish(), Some(br#"{"jsonrpc":"2.0","id":1,"result":null}"#.to_vec()));
    /// ```
    pub fn push(&mut self, response: &Response<'_>) {
        if self.begin_response(TYPICAL_RESPONSE_BYTES) {
            response.write_to(&mut self.out);
        }
    }

    /// Adds a response if there is one: see [`InvalidMessage::response`](crate::InvalidMessage::response).
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, ResponseWriter, Parsed, Policy};
    ///
    /// let parsed = parse(b"no JSON", &Policy::SERVER);
    /// let mut writer = ResponseWriter::for_parsed(&parsed);
    /// let Parsed::One(Err(rejection)) = parsed else { unreachable!() };
    /// writer.extend(rejection.response().as_ref());
    /// assert!(writer.finish().is_some());
    /// ```
    pub fn extend(&mut self, response: Option<&Response<'_>>) {
        if let Some(response) = response {
            self.push(response);
        }
    }

    /// Serializes the result of a request straight into the buffer, unless all expected responses are there.
    ///
    /// # Errors
    /// The value has no JSON form that a peer could read: see [`RawJson::from_value`](crate::RawJson::from_value). The
    /// request is then answered with `Internal error`, so that the caller is not left waiting, and the error is
    /// returned for the log.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, ResponseWriter, Message, Parsed, Policy};
    ///
    /// let parsed = parse(br#"{"jsonrpc":"2.0","method":"ping","id":1}"#, &Policy::SERVER);
    /// let mut writer = ResponseWriter::for_parsed(&parsed);
    /// let Parsed::One(Ok(Message::Request(request))) = parsed else { unreachable!() };
    /// writer.result(&request, "pong")?;
    /// assert_eq!(writer.finish(), Some(br#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#.to_vec()));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn result<T: Serialize + ?Sized>(
        &mut self,
        request: &Request<'_>,
        value: &T,
    ) -> Result<(), serde_json::Error> {
        if !self.begin_response(TYPICAL_RESPONSE_BYTES) {
            return Ok(());
        }
        let mark = self.out.len();
        write_response_start(request.id(), &mut self.out);
        self.out.extend_from_slice(RESULT_KEY);
        let result_start = self.out.len();
        let written = serde_json::to_writer(&mut self.out, value);
        match written
            .and_then(|()| check_readable(self.out.get(result_start..).unwrap_or_default()))
        {
            Ok(()) => {
                self.out.push(b'}');
                Ok(())
            }
            Err(error) => {
                self.out.truncate(mark);
                request
                    .fail(ErrorObject::standard(ErrorCode::INTERNAL_ERROR))
                    .write_to(&mut self.out);
                Err(error)
            }
        }
    }

    /// Adds a result that is already serialized and was validated by [`RawJson`](crate::RawJson). The text is not
    /// checked again, so that a cached result is checked only once.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, ResponseWriter, Message, Parsed, Policy, RawJson};
    ///
    /// let parsed = parse(br#"{"jsonrpc":"2.0","method":"ping","id":1}"#, &Policy::SERVER);
    /// let mut writer = ResponseWriter::for_parsed(&parsed);
    /// let Parsed::One(Ok(Message::Request(request))) = parsed else { unreachable!() };
    /// let cached = RawJson::from_value("pong")?;
    /// writer.result_preserialized(&request, cached.as_str());
    /// assert_eq!(writer.finish(), Some(br#"{"jsonrpc":"2.0","id":1,"result":"pong"}"#.to_vec()));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn result_preserialized(&mut self, request: &Request<'_>, text: &str) {
        if self.begin_response(ENVELOPE_BYTES + text.len()) {
            write_response_start(request.id(), &mut self.out);
            self.out.extend_from_slice(RESULT_KEY);
            self.out.extend_from_slice(text.as_bytes());
            self.out.push(b'}');
        }
    }

    /// Number of bytes written so far.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, ResponseWriter, Policy, RawJson, Response};
    ///
    /// let parsed = parse(br#"{"jsonrpc":"2.0","method":"ping","id":1}"#, &Policy::SERVER);
    /// let mut writer = ResponseWriter::for_parsed(&parsed);
    /// assert_eq!(writer.bytes_written(), 0);
    /// writer.push(&Response::success(1, RawJson::NULL));
    /// assert_eq!(writer.bytes_written(), writer.finish().map_or(0, |bytes| bytes.len()));
    /// ```
    pub fn bytes_written(&self) -> usize {
        self.out.len()
    }

    /// Returns the bytes to send, or `None` if no response is expected.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, ResponseWriter, Policy};
    ///
    /// let notes = parse(br#"[{"jsonrpc":"2.0","method":"note"}]"#, &Policy::SERVER);
    /// assert_eq!(ResponseWriter::for_parsed(&notes).finish(), None, "not even `[]`");
    /// ```
    pub fn finish(mut self) -> Option<Vec<u8>> {
        if self.out.is_empty() {
            return None;
        }
        if self.is_batch {
            self.out.push(b']');
        }
        Some(self.out)
    }

    /// Writes the separator before the next response, of about `size` bytes. Returns false if no more is expected.
    fn begin_response(&mut self, size: usize) -> bool {
        let Some(remaining) = self.remaining.checked_sub(1) else {
            return false;
        };
        let first = self.out.is_empty();
        if first {
            let typical_size = self.remaining.saturating_mul(TYPICAL_RESPONSE_BYTES);
            self.out
                .reserve(MAX_RESERVED_BYTES.min(typical_size).max(size));
        }
        self.remaining = remaining;
        if self.is_batch {
            self.out.push(if first { b'[' } else { b',' });
        }
        true
    }
}

/// Returns true if the sender expects a response to this item.
fn expects_response(item: &Item<'_>) -> bool {
    match item {
        Ok(message) => matches!(message, Message::Request(_)),
        Err(rejection) => rejection.expects_response(),
    }
}

/// Checks that the receiver can parse a serialized result.
///
/// serde_json writes valid JSON, except that a raw value may nest too deep or contain a lone surrogate escape.
/// With no more opening brackets than allowed levels and no escapes, neither is possible and parsing is skipped.
fn check_readable(result: &[u8]) -> Result<(), serde_json::Error> {
    let check = || {
        let text = std::str::from_utf8(result).map_err(serde::ser::Error::custom)?;
        raw::validate(text)
    };
    if is_shallow_without_escapes(result) {
        debug_assert!(
            check().is_ok(),
            "shallow JSON without escapes can be parsed"
        );
        return Ok(());
    }
    check()
}

/// Returns true if JSON cannot be too deep and has no escape, judging by its bytes alone.
fn is_shallow_without_escapes(json: &[u8]) -> bool {
    let (mut opening_brackets, mut escapes) = (0, 0);
    // Counted per block in a `u8`, so that the compiler can vectorize the loop.
    for block in json.chunks(128) {
        let mut block_brackets = 0_u8;
        for byte in block {
            // `[` and `{` differ only in this bit.
            block_brackets += u8::from(byte | 0x20 == b'{');
            escapes |= u8::from(*byte == b'\\');
        }
        opening_brackets += u32::from(block_brackets);
    }
    opening_brackets <= MAX_DEPTH && escapes == 0
}

/// A batch of messages to send: never empty.
///
/// ```
/// use interzone_jsonrpc::{Batch, MethodName, Notification, Request};
///
/// let batch = Batch::new(Request::new(1, MethodName::new("a")?))
///     .with_message(Notification::new(MethodName::new("b")?));
/// assert_eq!(
///     String::from_utf8(batch.to_vec())?,
///     r#"[{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","method":"b"}]"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    first: Message<'a>,
    others: Vec<Message<'a>>,
}

impl<'a> Batch<'a> {
    /// Creates a batch of one message.
    ///
    /// ```
    /// use interzone_jsonrpc::{Batch, MethodName, Notification};
    ///
    /// let batch = Batch::new(Notification::new(MethodName::new("note")?));
    /// assert_eq!(batch.messages().count(), 1);
    /// # Ok::<(), interzone_jsonrpc::InvalidMethod>(())
    /// ```
    pub fn new(first: impl Into<Message<'a>>) -> Self {
        Self {
            first: first.into(),
            others: Vec::new(),
        }
    }

    /// Appends a message.
    ///
    /// ```
    /// use interzone_jsonrpc::{Batch, MethodName, Request};
    ///
    /// let calls = ["b", "c"].map(MethodName::new);
    /// let mut batch = Batch::new(Request::new(0, MethodName::new("a")?));
    /// for (id, method) in (1..).zip(calls) {
    ///     batch = batch.with_message(Request::new(id, method?));
    /// }
    /// assert_eq!(batch.messages().count(), 3);
    /// # Ok::<(), interzone_jsonrpc::InvalidMethod>(())
    /// ```
    #[must_use]
    pub fn with_message(mut self, next: impl Into<Message<'a>>) -> Self {
        self.others.push(next.into());
        self
    }

    /// Returns the messages, in order.
    ///
    /// ```
    /// use interzone_jsonrpc::{Batch, Message, MethodName, Notification, Request};
    ///
    /// let batch = Batch::new(Request::new(1, MethodName::new("ping")?))
    ///     .with_message(Notification::new(MethodName::new("note")?));
    /// let requests = batch.messages().filter(|message| matches!(message, Message::Request(_))).count();
    /// assert_eq!(requests, 1, "responses to wait for");
    /// # Ok::<(), interzone_jsonrpc::InvalidMethod>(())
    /// ```
    pub fn messages(&self) -> impl Iterator<Item = &Message<'a>> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Serializes the batch as JSON.
    ///
    /// ```
    /// use interzone_jsonrpc::{Batch, MethodName, Notification};
    ///
    /// let batch = Batch::new(Notification::new(MethodName::new("note")?));
    /// assert_eq!(batch.to_vec(), br#"[{"jsonrpc":"2.0","method":"note"}]"#);
    /// # Ok::<(), interzone_jsonrpc::InvalidMethod>(())
    /// ```
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = vec![b'['];
        self.first.write_to(&mut out);
        for message in &self.others {
            out.push(b',');
            message.write_to(&mut out);
        }
        out.push(b']');
        out
    }
}
