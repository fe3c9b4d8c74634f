//! The parser: turns bytes into classified messages or error responses, in one pass.

use crate::envelope::{Envelope, EnvelopeError, RawErrorObject};
use crate::invalid_message::InvalidMessage;
use crate::invalid_message_kind::InvalidMessageKind;
use crate::policy::{Batches, Policy, PolicyResolver, ReservedNames};
use crate::position::{Position, PositionTracker};
use crate::scan::{ENVELOPE_DEPTH, ScanResult, Scanner};
use crate::{ErrorObject, Message, Notification, Request, Response};

/// A valid message, or the error of what was received in its place.
///
/// ```
/// use interzone_jsonrpc::{parse, Item, Parsed, Policy};
///
/// fn label(item: &Item) -> &'static str {
///     item.as_ref().map_or_else(|rejection| rejection.kind().name(), |_| "ok")
/// }
/// let Parsed::Batch(items) = parse(br#"[{"jsonrpc":"2.0","method":"note"},1]"#, &Policy::SERVER)
/// else { unreachable!() };
/// assert_eq!(items.iter().map(label).collect::<Vec<_>>(), ["ok", "not_an_object"]);
/// ```
pub type Item<'a> = Result<Message<'a>, InvalidMessage<'a>>;

/// Result of [`parse`]: one message or a batch.
///
/// ```
/// use interzone_jsonrpc::{parse, Parsed, Policy};
///
/// let items = match parse(br#"{"jsonrpc":"2.0","method":"note"}"#, &Policy::SERVER) {
///     Parsed::One(item) => vec![item],
///     Parsed::Batch(items) => items,
/// };
/// assert!(items.iter().all(|item| item.is_ok()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// One message, or the error of the whole text.
    One(Item<'a>),
    /// A batch of at least one item, each validated by itself, in the order received.
    Batch(Vec<Item<'a>>),
}

/// Parses bytes into classified messages or error responses.
///
/// Every byte is visited once. Ids, method names and parameters are borrowed from `bytes`, and parameters stay raw
/// until [`Request::decode_params`]. No input makes it panic, recurse or allocate more than in proportion to its
/// size; the transport limits the size.
///
/// * Text that is not JSON is answered with -32700 and JSON that is not a valid message with -32600, both with a
///   null id; in a batch, each item has its own error, unless the text as a whole is not JSON.
/// * Members that the envelope defines may appear once; a second one is answered with -32600, also if it is
///   escaped (`"\u0069d"` is `"id"`). The [`Policy`] decides about members that the envelope does not define.
///   Within `params`, `result` and `data` only JSON syntax is checked.
/// * A value that nests beyond [`Policy::max_depth`] is answered with -32700.
///
/// ```
/// use interzone_jsonrpc::{parse, Message, Parsed, Policy};
///
/// let bytes = br#"{"jsonrpc":"2.0","method":"tasks.get","params":{"taskId":"t-1"},"id":"req-1"}"#;
/// match parse(bytes, &Policy::SERVER) {
///     Parsed::One(Ok(Message::Request(request))) => {
///         assert_eq!(request.method(), "tasks.get");
///         assert_eq!(request.id().and_then(|id| id.as_str()), Some("req-1"));
///         assert_eq!(request.params().map(|p| p.as_str()), Some(r#"{"taskId":"t-1"}"#));
///     }
///     other => panic!("{other:?}"),
/// }
/// ```
pub fn parse<'a, R: PolicyResolver + ?Sized>(bytes: &'a [u8], policies: &R) -> Parsed<'a> {
    let mut positions = PositionTracker::new(bytes);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let position = positions.locate(error.valid_up_to());
            return Parsed::One(Err(InvalidMessage::new(
                InvalidMessageKind::NotUtf8,
                position,
            )));
        }
    };
    let default_policy = policies.default_policy();
    let mut reader = DocumentReader {
        scanner: Scanner::new(text, default_policy.max_depth),
        positions,
        default_policy,
        policies,
    };
    match reader.read_document() {
        Ok(parsed) => parsed,
        Err(error) => {
            // The tracker may have moved on while reading a batch that turns out not to be JSON.
            let position = PositionTracker::new(bytes).locate(error.offset);
            Parsed::One(Err(InvalidMessage::new(error.kind, position)))
        }
    }
}

struct DocumentReader<'a, 'r, R: ?Sized> {
    scanner: Scanner<'a>,
    positions: PositionTracker<'a>,
    default_policy: Policy,
    policies: &'r R,
}

impl<'a, R: PolicyResolver + ?Sized> DocumentReader<'a, '_, R> {
    fn read_document(&mut self) -> ScanResult<Parsed<'a>> {
        let first = self.scanner.peek_token();
        if self.scanner.is_at_end() {
            return self.scanner.error(InvalidMessageKind::EmptyBody);
        }
        let start = self.scanner.offset;
        let parsed = if first == b'[' {
            self.read_batch(start)?
        } else {
            Parsed::One(self.read_item()?)
        };
        if self.scanner.is_at_end() {
            Ok(parsed)
        } else {
            self.scanner.error(InvalidMessageKind::TrailingBytes)
        }
    }

    fn read_batch(&mut self, start: usize) -> ScanResult<Parsed<'a>> {
        let Batches::UpTo(limit) = self.default_policy.batches else {
            self.scanner.skip_value(ENVELOPE_DEPTH)?;
            return Ok(self.reject_document(InvalidMessageKind::BatchRefused, start));
        };
        self.scanner.offset += 1;
        if self.scanner.peek_token() == b']' {
            self.scanner.offset += 1;
            return Ok(self.reject_document(InvalidMessageKind::EmptyBatch, start));
        }
        let mut items = Vec::with_capacity(limit.min(16));
        let mut count = 0_usize;
        loop {
            count += 1;
            if count <= limit {
                items.push(self.read_item()?);
            } else {
                // Over the limit: skip the item, but -32600 is only right if the remaining text is JSON.
                self.scanner.skip_value(ENVELOPE_DEPTH - 1)?;
            }
            match self.scanner.peek_token() {
                b',' => self.scanner.offset += 1,
                b']' => break self.scanner.offset += 1,
                _ => return self.scanner.unexpected(),
            }
        }
        if count > limit {
            return Ok(self.reject_document(InvalidMessageKind::BatchTooLarge(limit), start));
        }
        Ok(Parsed::Batch(items))
    }

    /// Rejects the document, which begins at `start`, with a single error.
    fn reject_document(&self, kind: InvalidMessageKind, start: usize) -> Parsed<'a> {
        Parsed::One(Err(InvalidMessage::new(
            kind,
            self.positions.at_start().locate(start),
        )))
    }

    /// Reads and validates one message.
    fn read_item(&mut self) -> ScanResult<Item<'a>> {
        if self.scanner.peek_token() != b'{' {
            let value = self.scanner.scan_value()?;
            let position = self.positions.locate(value.offset);
            return Ok(Err(InvalidMessage::new(
                InvalidMessageKind::NotAnObject(value.kind),
                position,
            )));
        }
        let mut envelope = Envelope::default();
        envelope.read(&mut self.scanner)?;
        Ok(envelope
            .classify(self.policies, &self.default_policy)
            .map_err(|error| {
                let EnvelopeError {
                    kind: problem,
                    offset: at,
                    call,
                } = error;
                let position = self.positions.locate(at);
                match call {
                    Some(call) => InvalidMessage::for_call(problem, position, *call),
                    None if envelope.is_accepted_response(&self.default_policy) => {
                        InvalidMessage::silent(problem, position)
                    }
                    None => InvalidMessage::new(problem, position),
                }
            }))
    }
}

/// Policy for deserialization: one message, and no reserved method name, as such a message cannot be built.
const SERDE_POLICY: Policy = Policy {
    batches: Batches::Refuse,
    reserved_names: ReservedNames::Unknown,
    ..Policy::STANDARD
};

/// Parses any message, for serde.
pub(crate) fn parse_message(text: &str) -> Result<Message<'_>, InvalidMessage<'_>> {
    match parse(text.as_bytes(), &SERDE_POLICY) {
        Parsed::One(item) => item,
        Parsed::Batch(_) => Err(wrong_message_type(InvalidMessageKind::BatchRefused)),
    }
}

/// Parses a request, for serde.
pub(crate) fn parse_request(text: &str) -> Result<Request<'_>, InvalidMessage<'_>> {
    match parse_message(text)? {
        Message::Request(request) => Ok(request),
        Message::Notification(_) => Err(wrong_message_type(InvalidMessageKind::IdMissing)),
        Message::Response(_) => Err(wrong_message_type(InvalidMessageKind::MethodMissing)),
    }
}

/// Parses a notification, for serde.
pub(crate) fn parse_notification(text: &str) -> Result<Notification<'_>, InvalidMessage<'_>> {
    match parse_message(text)? {
        Message::Notification(notification) => Ok(notification),
        Message::Request(_) => Err(wrong_message_type(InvalidMessageKind::IdPresent)),
        Message::Response(_) => Err(wrong_message_type(InvalidMessageKind::MethodMissing)),
    }
}

/// Parses a response, for serde.
pub(crate) fn parse_response(text: &str) -> Result<Response<'_>, InvalidMessage<'_>> {
    match parse_message(text)? {
        Message::Response(response) => Ok(response),
        Message::Request(_) | Message::Notification(_) => {
            Err(wrong_message_type(InvalidMessageKind::OutcomeMissing))
        }
    }
}

/// Parses a standalone error object, for serde.
pub(crate) fn parse_error_object(text: &str) -> Result<ErrorObject<'_>, InvalidMessage<'_>> {
    let reject = |problem, at| {
        InvalidMessage::new(problem, PositionTracker::new(text.as_bytes()).locate(at))
    };
    let mut scanner = Scanner::new(text, Policy::STANDARD.max_depth);
    let first = scanner.peek_token();
    let start = scanner.offset;
    let outcome = if first == b'{' {
        RawErrorObject::read(&mut scanner).map(|members| members.validate(start, &Policy::STANDARD))
    } else {
        scanner.scan_value().map(|value| {
            Err(EnvelopeError::new(
                InvalidMessageKind::ErrorKind(value.kind),
                value.offset,
            ))
        })
    };
    match outcome {
        Ok(Ok(error)) => Ok(error),
        Ok(Err(refusal)) => Err(reject(refusal.kind, refusal.offset)),
        Err(fault) => Err(reject(fault.kind, fault.offset)),
    }
}

/// Error for a valid message of another type than expected.
fn wrong_message_type(kind: InvalidMessageKind) -> InvalidMessage<'static> {
    InvalidMessage::new(kind, Position::START)
}
