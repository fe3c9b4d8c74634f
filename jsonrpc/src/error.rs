//! The error object: code, message and optional data.

use crate::json_writer;
use crate::serde_impls;
use crate::{ErrorCode, RawJson};
use std::borrow::Cow;
use std::fmt;

/// The `error` member of a response that failed.
///
/// ```
/// use interzone_jsonrpc::{ErrorObject, ErrorCode, RawJson};
/// use serde_json::json;
///
/// let error = ErrorObject::new(ErrorCode::new(-40001), "Task not found")
///     .with_data(RawJson::from_value(&json!({"taskId": "t-1"}))?);
/// assert_eq!(
///     serde_json::to_string(&error)?,
///     r#"{"code":-40001,"message":"Task not found","data":{"taskId":"t-1"}}"#
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ErrorObject<'a> {
    code: ErrorCode,
    message: Cow<'a, str>,
    data: Option<RawJson<'a>>,
}

impl<'a> ErrorObject<'a> {
    /// Creates an error with a custom message.
    ///
    /// ```
    /// use interzone_jsonrpc::{ErrorObject, ErrorCode};
    ///
    /// let error = ErrorObject::new(ErrorCode::INVALID_PARAMS, "taskId is missing");
    /// assert_eq!(error.to_string(), "taskId is missing (-32602)");
    /// assert_eq!(ErrorObject::new(7, "out of stock").code().get(), 7);
    /// ```
    pub fn new(code: impl Into<ErrorCode>, message: impl Into<Cow<'a, str>>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            data: None,
        }
    }

    /// Creates an error with the message of the specification, or `Server error` for a code it does not define.
    ///
    /// ```
    /// use interzone_jsonrpc::{ErrorObject, ErrorCode};
    ///
    /// assert_eq!(ErrorObject::standard(ErrorCode::INVALID_PARAMS).message(), "Invalid params");
    /// assert_eq!(ErrorObject::standard(ErrorCode::new(-32000)).message(), "Server error");
    /// ```
    pub fn standard(code: ErrorCode) -> Self {
        Self::new(code, code.standard_message().unwrap_or("Server error"))
    }

    /// Sets `data`. `null` counts as absent and is never sent.
    ///
    /// ```
    /// use interzone_jsonrpc::{ErrorObject, RawJson};
    ///
    /// let error = ErrorObject::new(1, "out of stock").with_data(RawJson::from_value(&["item 2"])?);
    /// assert_eq!(serde_json::to_string(&error)?, r#"{"code":1,"message":"out of stock","data":["item 2"]}"#);
    /// assert_eq!(error.with_data(RawJson::NULL).data(), None);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn with_data(mut self, data: RawJson<'a>) -> Self {
        self.data = Some(data).filter(|data| data.kind() != crate::JsonKind::Null);
        self
    }

    /// The code.
    ///
    /// ```
    /// use interzone_jsonrpc::{ErrorObject, ErrorCode};
    ///
    /// let error: ErrorObject = serde_json::from_str(r#"{"code":-32601,"message":"no such method"}"#)?;
    /// assert_eq!(error.code(), ErrorCode::METHOD_NOT_FOUND);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn code(&self) -> ErrorCode {
        self.code
    }

    /// The message.
    ///
    /// ```
    /// use interzone_jsonrpc::ErrorObject;
    ///
    /// let error: ErrorObject = serde_json::from_str(r#"{"code":1,"message":"out of stock"}"#)?;
    /// assert_eq!(error.message(), "out of stock");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The `data` member, if any.
    ///
    /// ```
    /// use interzone_jsonrpc::ErrorObject;
    ///
    /// let error: ErrorObject = serde_json::from_str(r#"{"code":1,"message":"busy","data":{"retry":5}}"#)?;
    /// assert_eq!(error.data().map(|data| data.as_str()), Some(r#"{"retry":5}"#));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn data(&self) -> Option<&RawJson<'a>> {
        self.data.as_ref()
    }

    /// Detaches the error from the buffer it was parsed from.
    ///
    /// ```
    /// use interzone_jsonrpc::ErrorObject;
    ///
    /// let owned: ErrorObject<'static> = {
    ///     let message = String::from("out of stock");
    ///     ErrorObject::new(1, message.as_str()).into_owned()
    /// };
    /// assert_eq!(owned.message(), "out of stock");
    /// ```
    pub fn into_owned(self) -> ErrorObject<'static> {
        ErrorObject {
            code: self.code,
            message: Cow::Owned(self.message.into_owned()),
            data: self.data.map(RawJson::into_owned),
        }
    }

    /// Appends the error object as JSON.
    ///
    /// ```
    /// use interzone_jsonrpc::ErrorObject;
    ///
    /// let mut out = b"error: ".to_vec();
    /// ErrorObject::new(1, "out of stock").write_to(&mut out);
    /// assert_eq!(out, br#"error: {"code":1,"message":"out of stock"}"#);
    /// ```
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"code":"#);
        json_writer::write_integer(self.code.get().into(), out);
        out.extend_from_slice(br#","message":"#);
        json_writer::write_string(&self.message, out);
        if let Some(data) = &self.data {
            out.extend_from_slice(br#","data":"#);
            data.write_to(out);
        }
        out.push(b'}');
    }
}

impl fmt::Display for ErrorObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for ErrorObject<'_> {}

serde_impls::via_text!(ErrorObject, crate::parse::parse_error_object);
