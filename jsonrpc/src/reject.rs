//! A message that is turned away, and the answer it earns.
//!
//! A rejection never carries a byte of what was sent except a readable id that is due an answer:
//! it may be logged and sent to anybody.

use crate::position::Position;
use crate::problem::Problem;
use crate::{Error, Message, RawJson, RequestId, Response};
use std::fmt;

/// Bytes that are no valid message: what is wrong, where, and the answer that is due.
///
/// ```
/// use interzone_jsonrpc::{parse, Parsed, Policy};
///
/// let Parsed::One(Err(rejection)) = parse(br#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, &Policy::STANDARD)
/// else { unreachable!() };
/// assert_eq!(rejection.problem().name(), "id_not_integer");
/// assert_eq!(rejection.position().column, 23);
/// assert!(rejection.answer().is_some());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection<'a> {
    problem: Problem,
    position: Position,
    due: Due<'a>,
}

/// Whom a rejection is told to.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Due<'a> {
    /// The sender, under this id or under `null`.
    Answer(Option<RequestId<'a>>),
    /// Nobody: it was a notification or an answer.
    Silence,
}

impl<'a> Rejection<'a> {
    /// A rejection answered with a null id, as every message is whose id cannot be trusted.
    pub(crate) fn new(problem: Problem, position: Position) -> Self {
        Self {
            problem,
            position,
            due: Due::Answer(None),
        }
    }

    /// The rejection of a broken response, which must not be answered: two peers would reject each
    /// other's rejections for ever.
    pub(crate) fn unanswered(problem: Problem, position: Position) -> Self {
        Self {
            problem,
            position,
            due: Due::Silence,
        }
    }

    /// The rejection of a well-formed call to a method that cannot exist.
    pub(crate) fn of_call(problem: Problem, position: Position, call: Message<'a>) -> Self {
        let due = match call {
            Message::Request(request) => Due::Answer(request.into_id()),
            Message::Notification(_) | Message::Response(_) => Due::Silence,
        };
        Self {
            problem,
            position,
            due,
        }
    }

    /// What is wrong.
    pub fn problem(&self) -> Problem {
        self.problem
    }

    /// Where it is wrong.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The error object for the problem, with the place and the way out in its `data`.
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
    pub fn error(&self) -> Error<'static> {
        #[derive(serde::Serialize)]
        struct Data {
            reason: &'static str,
            #[serde(skip_serializing_if = "Option::is_none")]
            field: Option<&'static str>,
            details: String,
            line: usize,
            column: usize,
        }
        let data = Data {
            reason: self.problem.name(),
            field: self.problem.field(),
            details: self.problem.to_string(),
            line: self.position.line,
            column: self.position.column,
        };
        let error = Error::standard(self.problem.code());
        match RawJson::of(&data) {
            Ok(data) => error.with_data(data),
            Err(_) => error,
        }
    }

    /// Whether somebody waits for an answer.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(self.due, Due::Answer(_))
    }

    /// The response to send back. Nothing where the message was a notification, nor where it was a
    /// broken response and the policy lets responses in: two peers that answered each other's broken
    /// answers would never end.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, Parsed, Policy};
    ///
    /// let broken_answer = br#"{"jsonrpc":"2.0","id":1.5,"result":true}"#;
    /// for (policy, answered) in [(Policy::SERVER, true), (Policy::CLIENT, false)] {
    ///     let Parsed::One(Err(rejection)) = parse(broken_answer, &policy) else { unreachable!() };
    ///     assert_eq!(rejection.answer().is_some(), answered);
    /// }
    /// ```
    pub fn answer(&self) -> Option<Response<'a>> {
        match &self.due {
            Due::Answer(id) => Some(Response::failure(id.clone(), self.error())),
            Due::Silence => None,
        }
    }
}

impl fmt::Display for Rejection<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.problem, self.position)
    }
}

impl std::error::Error for Rejection<'_> {}
