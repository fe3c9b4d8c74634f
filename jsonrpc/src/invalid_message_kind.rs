//! The rules a message can violate: a stable name for programs, and a sentence with the remedy for people. Neither may
//! contain any part of the input.

use crate::{ErrorCode, JsonKind};
use std::fmt;

/// The rule that an invalid message violates.
///
/// [`InvalidMessageKind::name`] is a stable identifier for programs; `Display` is a sentence for people.
///
/// ```
/// use interzone_jsonrpc::{ErrorCode, InvalidMessageKind};
///
/// assert_eq!(InvalidMessageKind::EmptyBatch.code(), ErrorCode::INVALID_REQUEST);
/// assert_eq!(InvalidMessageKind::EmptyBatch.name(), "empty_batch");
/// assert_eq!(InvalidMessageKind::MethodEmpty.field(), Some("method"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidMessageKind {
    /// The body is empty or only white space.
    EmptyBody,
    /// The bytes are not UTF-8.
    NotUtf8,
    /// The text ends inside a value.
    UnexpectedEnd,
    /// JSON does not allow this character here.
    UnexpectedCharacter,
    /// A string contains an unescaped control character.
    ControlCharacter,
    /// A backslash is not followed by a valid JSON escape.
    BadEscape,
    /// A `\u` escape is a lone surrogate.
    LoneSurrogate,
    /// A number is not valid JSON.
    BadNumber,
    /// Arrays and objects nest too deep.
    TooDeep,
    /// More bytes follow the message.
    TrailingBytes,

    /// The message is not an object.
    NotAnObject(JsonKind),
    /// The batch has no messages.
    EmptyBatch,
    /// The batch has more messages than are allowed.
    BatchTooLarge(usize),
    /// Batches are not accepted here.
    BatchRefused,
    /// A member appears twice.
    DuplicateMember(&'static str),
    /// A member is not part of the envelope, where the dialect forbids it.
    ExtraMember,
    /// `jsonrpc` is missing.
    VersionMissing,
    /// `jsonrpc` is not the string `"2.0"`.
    VersionWrong,
    /// The message has neither a `method` nor a `result` nor an `error`.
    NotAMessage,
    /// A call was expected, and there is no `method`.
    MethodMissing,
    /// A response was expected, and there is neither a `result` nor an `error`.
    OutcomeMissing,
    /// `method` is combined with `result` or `error`.
    RequestAndResponse,
    /// `method` is not a string.
    MethodKind(JsonKind),
    /// `method` is the empty string.
    MethodEmpty,
    /// `method` begins with `rpc.`, which is reserved.
    MethodReserved,
    /// `params` is neither an object nor an array, where the dialect forbids it.
    ParamsScalar(JsonKind),
    /// `id` is missing where one is needed.
    IdMissing,
    /// A notification was expected, and there is an `id`.
    IdPresent,
    /// `id` is null where that is not allowed.
    IdNull,
    /// `id` is a boolean, an array or an object.
    IdKind(JsonKind),
    /// `id` is a number that is not a plain 64-bit integer.
    IdNotInteger,
    /// `result` and `error` are both present.
    ResultAndError,
    /// `error` is not an object.
    ErrorKind(JsonKind),
    /// `error` has no `code`.
    ErrorCodeMissing,
    /// `error.code` is not a plain 32-bit integer.
    ErrorCodeWrong,
    /// `error` has no `message`.
    ErrorMessageMissing,
    /// `error.message` is not a string.
    ErrorMessageKind(JsonKind),
    /// A response, where only requests are accepted.
    ResponseRefused,
}

impl InvalidMessageKind {
    /// The error code of the response.
    ///
    /// ```
    /// use interzone_jsonrpc::{ErrorCode, InvalidMessageKind};
    ///
    /// assert_eq!(InvalidMessageKind::UnexpectedEnd.code(), ErrorCode::PARSE_ERROR);
    /// assert_eq!(InvalidMessageKind::MethodReserved.code(), ErrorCode::METHOD_NOT_FOUND);
    /// ```
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::EmptyBody
            | Self::NotUtf8
            | Self::UnexpectedEnd
            | Self::UnexpectedCharacter
            | Self::ControlCharacter
            | Self::BadEscape
            | Self::LoneSurrogate
            | Self::BadNumber
            | Self::TooDeep
            | Self::TrailingBytes => ErrorCode::PARSE_ERROR,
            Self::MethodReserved => ErrorCode::METHOD_NOT_FOUND,
            Self::NotAnObject(_)
            | Self::EmptyBatch
            | Self::BatchTooLarge(_)
            | Self::BatchRefused
            | Self::DuplicateMember(_)
            | Self::ExtraMember
            | Self::VersionMissing
            | Self::VersionWrong
            | Self::NotAMessage
            | Self::MethodMissing
            | Self::OutcomeMissing
            | Self::RequestAndResponse
            | Self::MethodKind(_)
            | Self::MethodEmpty
            | Self::ParamsScalar(_)
            | Self::IdMissing
            | Self::IdPresent
            | Self::IdNull
            | Self::IdKind(_)
            | Self::IdNotInteger
            | Self::ResultAndError
            | Self::ErrorKind(_)
            | Self::ErrorCodeMissing
            | Self::ErrorCodeWrong
            | Self::ErrorMessageMissing
            | Self::ErrorMessageKind(_)
            | Self::ResponseRefused => ErrorCode::INVALID_REQUEST,
        }
    }

    /// A stable name for programs.
    ///
    /// ```
    /// use interzone_jsonrpc::{JsonKind, InvalidMessageKind};
    ///
    /// assert_eq!(InvalidMessageKind::IdKind(JsonKind::Array).name(), "id_kind");
    /// assert_eq!(
    ///     InvalidMessageKind::IdKind(JsonKind::Array).to_string(),
    ///     "`id` must be a string or an integer, and this is an array"
    /// );
    /// ```
    pub const fn name(&self) -> &'static str {
        match self {
            Self::EmptyBody => "empty_body",
            Self::NotUtf8 => "not_utf8",
            Self::UnexpectedEnd => "unexpected_end",
            Self::UnexpectedCharacter => "unexpected_character",
            Self::ControlCharacter => "control_character",
            Self::BadEscape => "bad_escape",
            Self::LoneSurrogate => "lone_surrogate",
            Self::BadNumber => "bad_number",
            Self::TooDeep => "too_deep",
            Self::TrailingBytes => "trailing_bytes",
            Self::NotAnObject(_) => "not_an_object",
            Self::EmptyBatch => "empty_batch",
            Self::BatchTooLarge(_) => "batch_too_large",
            Self::BatchRefused => "batch_refused",
            Self::DuplicateMember(_) => "duplicate_member",
            Self::ExtraMember => "extra_member",
            Self::VersionMissing => "version_missing",
            Self::VersionWrong => "version_wrong",
            Self::NotAMessage => "not_a_message",
            Self::MethodMissing => "method_missing",
            Self::OutcomeMissing => "outcome_missing",
            Self::RequestAndResponse => "request_and_response",
            Self::MethodKind(_) => "method_kind",
            Self::MethodEmpty => "method_empty",
            Self::MethodReserved => "method_reserved",
            Self::ParamsScalar(_) => "params_scalar",
            Self::IdMissing => "id_missing",
            Self::IdPresent => "id_present",
            Self::IdNull => "id_null",
            Self::IdKind(_) => "id_kind",
            Self::IdNotInteger => "id_not_integer",
            Self::ResultAndError => "result_and_error",
            Self::ErrorKind(_) => "error_kind",
            Self::ErrorCodeMissing => "error_code_missing",
            Self::ErrorCodeWrong => "error_code_wrong",
            Self::ErrorMessageMissing => "error_message_missing",
            Self::ErrorMessageKind(_) => "error_message_kind",
            Self::ResponseRefused => "response_refused",
        }
    }

    /// The member that violates the rule, if there is one.
    ///
    /// ```
    /// use interzone_jsonrpc::InvalidMessageKind;
    ///
    /// assert_eq!(InvalidMessageKind::ErrorCodeMissing.field(), Some("error.code"));
    /// assert_eq!(InvalidMessageKind::TrailingBytes.field(), None);
    /// ```
    pub const fn field(&self) -> Option<&'static str> {
        match self {
            Self::DuplicateMember(member) => Some(member),
            Self::VersionMissing | Self::VersionWrong => Some("jsonrpc"),
            Self::NotAMessage
            | Self::MethodMissing
            | Self::RequestAndResponse
            | Self::MethodKind(_)
            | Self::MethodEmpty
            | Self::MethodReserved => Some("method"),
            Self::ParamsScalar(_) => Some("params"),
            Self::IdMissing
            | Self::IdPresent
            | Self::IdNull
            | Self::IdKind(_)
            | Self::IdNotInteger => Some("id"),
            Self::OutcomeMissing => Some("result"),
            Self::ResultAndError | Self::ErrorKind(_) => Some("error"),
            Self::ErrorCodeMissing | Self::ErrorCodeWrong => Some("error.code"),
            Self::ErrorMessageMissing | Self::ErrorMessageKind(_) => Some("error.message"),
            Self::EmptyBody
            | Self::NotUtf8
            | Self::UnexpectedEnd
            | Self::UnexpectedCharacter
            | Self::ControlCharacter
            | Self::BadEscape
            | Self::LoneSurrogate
            | Self::BadNumber
            | Self::TooDeep
            | Self::TrailingBytes
            | Self::NotAnObject(_)
            | Self::EmptyBatch
            | Self::BatchTooLarge(_)
            | Self::BatchRefused
            | Self::ExtraMember
            | Self::ResponseRefused => None,
        }
    }
}

impl fmt::Display for InvalidMessageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyBody => f.write_str("nothing was sent; send one JSON-RPC message or a batch"),
            Self::NotUtf8 => f.write_str("the text is not UTF-8; send JSON encoded as UTF-8"),
            Self::UnexpectedEnd => f.write_str("the text ends inside a value; send the complete text"),
            Self::UnexpectedCharacter => f.write_str("JSON does not allow this character here"),
            Self::ControlCharacter => {
                f.write_str("a control character inside a string must be written as an escape")
            }
            Self::BadEscape => f.write_str("this is not a valid JSON escape"),
            Self::LoneSurrogate => {
                f.write_str("this \\u escape is a lone surrogate; send both halves of the pair")
            }
            Self::BadNumber => f.write_str("this is not a valid JSON number"),
            Self::TooDeep => f.write_str("arrays and objects nest too deep; send a flatter value"),
            Self::TrailingBytes => {
                f.write_str("more bytes follow the message; send one message, or a batch in an array")
            }
            Self::NotAnObject(kind) => {
                write!(f, "a message must be an object, and this is {}", kind.with_article())
            }
            Self::EmptyBatch => f.write_str("the batch is empty; put at least one message into it"),
            Self::BatchTooLarge(most) => {
                write!(f, "the batch exceeds the limit of {most} messages; send several smaller ones")
            }
            Self::BatchRefused => f.write_str("batches are not accepted here; send one message at a time"),
            Self::DuplicateMember(member) => {
                write!(f, "`{member}` appears twice; send it once")
            }
            Self::ExtraMember => {
                f.write_str("this member is not part of the envelope; leave it out")
            }
            Self::VersionMissing => f.write_str("`jsonrpc` is missing; it must be \"2.0\""),
            Self::VersionWrong => f.write_str("`jsonrpc` must be the string \"2.0\""),
            Self::NotAMessage => f.write_str(
                "there is no `method` (a request) and no `result` or `error` (a response)",
            ),
            Self::MethodMissing => f.write_str("`method` is missing; name the method to call"),
            Self::OutcomeMissing => {
                f.write_str("`result` and `error` are missing; send exactly one of them")
            }
            Self::RequestAndResponse => f.write_str(
                "`method` makes this a request, `result` or `error` a response; send one of the two",
            ),
            Self::MethodKind(kind) => {
                write!(f, "`method` must be a string, and this is {}", kind.with_article())
            }
            Self::MethodEmpty => f.write_str("`method` is empty; name the method to call"),
            Self::MethodReserved => {
                f.write_str("names that begin with `rpc.` are reserved, so no such method exists")
            }
            Self::ParamsScalar(kind) => {
                write!(f, "`params` must be an object or an array, and this is {}", kind.with_article())
            }
            Self::IdMissing => f.write_str("`id` is missing; send a string or an integer"),
            Self::IdPresent => f.write_str("a notification has no `id`; leave it out"),
            Self::IdNull => f.write_str("`id` is null; send a string or an integer"),
            Self::IdKind(kind) => {
                write!(f, "`id` must be a string or an integer, and this is {}", kind.with_article())
            }
            Self::IdNotInteger => f.write_str(
                "`id` must be a string or an integer of 64 bits, with no fraction and no exponent",
            ),
            Self::ResultAndError => {
                f.write_str("`result` and `error` are both present; send exactly one of them")
            }
            Self::ErrorKind(kind) => {
                write!(f, "`error` must be an object, and this is {}", kind.with_article())
            }
            Self::ErrorCodeMissing => f.write_str("`error.code` is missing; it must be an integer"),
            Self::ErrorCodeWrong => f.write_str(
                "`error.code` must be an integer of 32 bits, with no fraction and no exponent",
            ),
            Self::ErrorMessageMissing => {
                f.write_str("`error.message` is missing; it must be a string")
            }
            Self::ErrorMessageKind(kind) => {
                write!(f, "`error.message` must be a string, and this is {}", kind.with_article())
            }
            Self::ResponseRefused => {
                f.write_str("this is a response, and only requests are accepted here")
            }
        }
    }
}
