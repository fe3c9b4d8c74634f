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
    ///
    /// ```
    /// use interzone_jsonrpc::{Error, ErrorCode};
    ///
    /// let error = Error::new(ErrorCode::INVALID_PARAMS, "taskId is missing");
    /// assert_eq!(error.to_string(), "taskId is missing (-32602)");
    /// assert_eq!(Error::new(7, "out of paper").code().get(), 7);
    /// ```
    pub fn new(code: impl Into<ErrorCode>, message: impl Into<Cow<'a, str>>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            data: None,
        }
    }

    /// An error with the words of the specification, or `Server error` for a code it leaves open.
    ///
    /// ```
    /// use interzone_jsonrpc::{Error, ErrorCode};
    ///
    /// assert_eq!(Error::standard(ErrorCode::INVALID_PARAMS).message(), "Invalid params");
    /// assert_eq!(Error::standard(ErrorCode::new(-32000)).message(), "Server error");
    /// ```
    pub fn standard(code: ErrorCode) -> Self {
        Self::new(code, code.standard_message().unwrap_or("Server error"))
    }

    /// Adds `data`. `null` counts as none, so it is never sent.
    ///
    /// ```
    /// use interzone_jsonrpc::{Error, RawJson};
    ///
    /// let error = Error::new(1, "out of paper").with_data(RawJson::of(&["tray 2"])?);
    /// assert_eq!(serde_json::to_string(&error)?, r#"{"code":1,"message":"out of paper","data":["tray 2"]}"#);
    /// assert_eq!(error.with_data(RawJson::NULL).data(), None);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn with_data(mut self, data: RawJson<'a>) -> Self {
        self.data = Some(data).filter(|data| data.kind() != crate::Kind::Null);
        self
    }

    /// The code.
    ///
    /// ```
    /// use interzone_jsonrpc::{Error, ErrorCode};
    ///
    /// let error: Error = serde_json::from_str(r#"{"code":-32601,"message":"no such method"}"#)?;
    /// assert_eq!(error.code(), ErrorCode::METHOD_NOT_FOUND);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The words.
    ///
    /// ```
    /// use interzone_jsonrpc::Error;
    ///
    /// let error: Error = serde_json::from_str(r#"{"code":1,"message":"out of paper"}"#)?;
    /// assert_eq!(error.message(), "out of paper");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What else was said.
    ///
    /// ```
    /// use interzone_jsonrpc::Error;
    ///
    /// let error: Error = serde_json::from_str(r#"{"code":1,"message":"busy","data":{"retry":5}}"#)?;
    /// assert_eq!(error.data().map(|data| data.as_str()), Some(r#"{"retry":5}"#));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn data(&self) -> Option<&RawJson<'a>> {
        self.data.as_ref()
    }

    /// The same error, free of the buffer it was read from.
    ///
    /// ```
    /// use interzone_jsonrpc::Error;
    ///
    /// let owned: Error<'static> = {
    ///     let words = String::from("out of paper");
    ///     Error::new(1, words.as_str()).into_owned()
    /// };
    /// assert_eq!(owned.message(), "out of paper");
    /// ```
    pub fn into_owned(self) -> Error<'static> {
        Error {
            code: self.code,
            message: Cow::Owned(self.message.into_owned()),
            data: self.data.map(RawJson::into_owned),
        }
    }

    /// Appends the error object as JSON.
    ///
    /// ```
    /// use interzone_jsonrpc::Error;
    ///
    /// let mut out = b"error: ".to_vec();
    /// Error::new(1, "out of paper").write_to(&mut out);
    /// assert_eq!(out, br#"error: {"code":1,"message":"out of paper"}"#);
    /// ```
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"code":"#);
        write::integer(self.code.get().into(), out);
        out.extend_from_slice(br#","message":"#);
        write::write_string(&self.message, out);
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
