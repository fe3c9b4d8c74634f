//! Rejected messages and their error responses.
//!
//! An [`InvalidMessage`] contains no byte of the input except a readable id that is echoed in the response, so it is
//! safe to log and to send to any peer.

use crate::invalid_message_kind::InvalidMessageKind;
use crate::position::Position;
use crate::{ErrorObject, Message, RawJson, RequestId, Response};
use std::fmt;

/// Bytes that are not a valid message: the violation, its position, and the response to send.
///
/// ```
/// use interzone_jsonrpc::{parse, Parsed, Policy};
///
/// let Parsed::One(Err(rejection)) = parse(br#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, &Policy::STANDARD)
/// else { unreachable!() };
/// assert_eq!(rejection.kind().name(), "id_not_integer");
/// assert_eq!(rejection.position().column, 23);
/// assert!(rejection.response().is_some());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidMessage<'a> {
    kind: InvalidMessageKind,
    position: Position,
    reply_to: ReplyTo<'a>,
}

/// Recipient of the error response.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ReplyTo<'a> {
    /// The sender, with this id or `null`.
    Sender(Option<RequestId<'a>>),
    /// No response: the message was a notification or a response.
    NoReply,
}

impl<'a> InvalidMessage<'a> {
    /// Creates an error answered with a null id, as for every message whose id cannot be trusted.
    pub(crate) fn new(kind: InvalidMessageKind, position: Position) -> Self {
        Self {
            kind,
            position,
            reply_to: ReplyTo::Sender(None),
        }
    }

    /// Creates the error of a broken response, which is not answered: two peers would reject each other's rejections
    /// forever.
    pub(crate) fn silent(kind: InvalidMessageKind, position: Position) -> Self {
        Self {
            kind,
            position,
            reply_to: ReplyTo::NoReply,
        }
    }

    /// Creates the error of a well-formed call to a reserved method.
    pub(crate) fn for_call(
        kind: InvalidMessageKind,
        position: Position,
        call: Message<'a>,
    ) -> Self {
        let reply_to = match call {
            Message::Request(request) => ReplyTo::Sender(request.into_id()),
            Message::Notification(_) | Message::Response(_) => ReplyTo::NoReply,
        };
        Self {
            kind,
            position,
            reply_to,
        }
    }

    /// The rule that the message violates.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Parsed, Policy, InvalidMessageKind};
    ///
    /// let Parsed::One(Err(rejection)) = parse(b"[]", &Policy::SERVER) else { unreachable!() };
    /// assert_eq!(rejection.kind(), InvalidMessageKind::EmptyBatch);
    /// ```
    pub fn kind(&self) -> InvalidMessageKind {
        self.kind
    }

    /// Position of the violation.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Parsed, Policy};
    ///
    /// let Parsed::One(Err(rejection)) = parse(b"{} {}", &Policy::SERVER) else { unreachable!() };
    /// assert_eq!(rejection.position().to_string(), "line 1, column 4");
    /// ```
    pub fn position(&self) -> Position {
        self.position
    }

    /// The error object for the response, with the position and the remedy in its `data`.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Parsed, Policy};
    ///
    /// let Parsed::One(Err(rejection)) = parse(b"[]", &Policy::STANDARD) else { unreachable!() };
    /// assert_eq!(
    ///     serde_json::to_string(&rejection.error())?,
    ///     r#"{"code":-32600,"message":"Invalid Request","data":{"reason":"empty_batch","details":"the batch is empty; put at least one message into it","line":1,"column":1}}"#
    /// );
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn error(&self) -> ErrorObject<'static> {
        #[derive(serde::Serialize)]
        struct ErrorData {
            reason: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            field: Option<&'static str>,
            details: String,
            line: usize,
            column: usize,
        }
        let data = ErrorData {
            reason: self.kind.name(),
            field: self.kind.field(),
            details: self.kind.to_string(),
            line: self.position.line,
            column: self.position.column,
        };
        let error = ErrorObject::standard(self.kind.code());
        match RawJson::from_value(&data) {
            Ok(data) => error.with_data(data),
            Err(_) => error,
        }
    }

    /// Returns true if the sender expects a response.
    pub(crate) fn expects_response(&self) -> bool {
        matches!(self.reply_to, ReplyTo::Sender(_))
    }

    /// Returns the response to send. `None` if the message was a notification, or a broken response where the policy
    /// accepts responses: two peers that answered each other's broken responses would never stop.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Parsed, Policy};
    ///
    /// let broken_response = br#"{"jsonrpc":"2.0","id":1.5,"result":true}"#;
    /// for (policy, answered) in [(Policy::SERVER, true), (Policy::CLIENT, false)] {
    ///     let Parsed::One(Err(rejection)) = parse(broken_response, &policy) else { unreachable!() };
    ///     assert_eq!(rejection.response().is_some(), answered);
    /// }
    /// ```
    pub fn response(&self) -> Option<Response<'a>> {
        match &self.reply_to {
            ReplyTo::Sender(id) => Some(Response::failure(id.clone(), self.error())),
            ReplyTo::NoReply => None,
        }
    }
}

impl fmt::Display for InvalidMessage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.kind, self.position)
    }
}

impl std::error::Error for InvalidMessage<'_> {}
