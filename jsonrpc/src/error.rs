//! The error object: a code, words, and whatever more helps.

use crate::serde_form;
use crate::write;
use crate::{ErrorCode, RawJson};
use std::borrow::Cow;
use std::fmt;

/// The `error` member of a response that failed.
///
/// ```
/// use interzone_jsonrpc::{Error, ErrorCode, RawJson};
/// use serde_json::json;
///
/// let error = Error::new(ErrorCode::new(-40001), "Task not found")
///     .with_data(RawJson::of(&json!({"taskId": "t-1"}))?);
/// assert_eq!(
///     serde_json::to_string(&error)?,
///     r#"{"code":-40001,"message":"Task not found","data":{"taskId":"t-1"}}"#
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Error<'a> {
    code: ErrorCode,
    message: Cow<'a, str>,
    data: Option<RawJson<'a>>,
}

impl<'a> Error<'a> {
    /// An error with words of your own.
    pub fn new(code: impl Into<ErrorCode>, message: impl Into<Cow<'a, str>>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            data: None,
        }
    }

    /// An error with the words of the specification, or `Server error` for a code it leaves open.
    pub fn standard(code: ErrorCode) -> Self {
        Self::new(code, code.standard_message().unwrap_or("Server error"))
    }

    /// Adds `data`. `null` counts as none, so it is never sent.
    #[must_use]
    pub fn with_data(mut self, data: RawJson<'a>) -> Self {
        self.data = Some(data).filter(|data| data.kind() != crate::Kind::Null);
        self
    }

    /// The code.
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The words.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What else was said.
    pub fn data(&self) -> Option<&RawJson<'a>> {
        self.data.as_ref()
    }

    /// The same error, free of the buffer it was read from.
    pub fn into_owned(self) -> Error<'static> {
        Error {
            code: self.code,
            message: Cow::Owned(self.message.into_owned()),
            data: self.data.map(RawJson::into_owned),
        }
    }

    /// Appends the error object as JSON.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"code":"#);
        write::integer(self.code.get().into(), out);
        out.extend_from_slice(br#","message":"#);
        write::string(&self.message, out);
        if let Some(data) = &self.data {
            out.extend_from_slice(br#","data":"#);
            data.write_to(out);
        }
        out.push(b'}');
    }
}

impl fmt::Display for Error<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for Error<'_> {}

serde_form::via_text!(Error, crate::parse::error_object);
