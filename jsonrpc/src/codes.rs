//! Error codes that JSON-RPC 2.0 defines, and the type of any error code.
//!
//! Codes of a dialect are in its own `codes.rs`; a code written anywhere else fails the tidy test.

use std::fmt;

/// The integer in an error object's `code` member.
///
/// Any `i32` is a legal code. Methods test for the ranges that JSON-RPC 2.0 reserves.
///
/// ```
/// use interzone_jsonrpc::ErrorCode;
///
/// assert_eq!(ErrorCode::PARSE_ERROR.get(), -32700);
/// assert!(ErrorCode::new(-32001).is_server_error());
/// assert!(!ErrorCode::new(-40001).is_reserved());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErrorCode(i32);

impl ErrorCode {
    /// -32700: the text is not JSON.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, ErrorCode, Parsed, Policy};
    ///
    /// let Parsed::One(Err(rejection)) = parse(b"{", &Policy::SERVER) else { unreachable!() };
    /// assert_eq!(rejection.kind().code(), ErrorCode::PARSE_ERROR);
    /// ```
    pub const PARSE_ERROR: Self = Self(-32700);
    /// -32600: the JSON is not a valid message.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, ErrorCode, Parsed, Policy};
    ///
    /// let Parsed::One(Err(rejection)) = parse(b"{}", &Policy::SERVER) else { unreachable!() };
    /// assert_eq!(rejection.kind().code(), ErrorCode::INVALID_REQUEST);
    /// ```
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// -32601: the method does not exist.
    ///
    /// ```
    /// use interzone_jsonrpc::{ErrorObject, ErrorCode, MethodName, Request};
    ///
    /// let request = Request::new(1, MethodName::new("no.such")?);
    /// let response = request.fail(ErrorObject::standard(ErrorCode::METHOD_NOT_FOUND));
    /// assert_eq!(response.error().map(|error| error.code().get()), Some(-32601));
    /// # Ok::<(), interzone_jsonrpc::InvalidMethod>(())
    /// ```
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// -32602: the parameters do not match the method.
    ///
    /// ```
    /// use interzone_jsonrpc::{ErrorObject, ErrorCode, MethodName, RawJson, Request};
    ///
    /// let request = Request::new(1, MethodName::new("sum")?).with_params(RawJson::from_value(&["one"])?);
    /// let sum = request.decode_params::<Vec<i64>>().map_err(|_| ErrorObject::standard(ErrorCode::INVALID_PARAMS));
    /// assert_eq!(sum.map_err(|error| error.to_string()), Err("Invalid params (-32602)".to_owned()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// -32603: internal error of the server.
    ///
    /// ```
    /// use interzone_jsonrpc::{ErrorObject, ErrorCode};
    ///
    /// let error = ErrorObject::standard(ErrorCode::INTERNAL_ERROR);
    /// assert_eq!(error.to_string(), "Internal error (-32603)");
    /// ```
    pub const INTERNAL_ERROR: Self = Self(-32603);

    /// Creates a code from its number.
    ///
    /// ```
    /// use interzone_jsonrpc::ErrorCode;
    ///
    /// const TASK_NOT_FOUND: ErrorCode = ErrorCode::new(-40001);
    /// assert_eq!(TASK_NOT_FOUND, ErrorCode::from(-40001));
    /// ```
    pub const fn new(code: i32) -> Self {
        Self(code)
    }

    /// Returns the number.
    ///
    /// ```
    /// use interzone_jsonrpc::ErrorCode;
    ///
    /// assert_eq!(ErrorCode::METHOD_NOT_FOUND.get(), -32601);
    /// ```
    pub const fn get(self) -> i32 {
        self.0
    }

    /// Returns true if the code is in the range that JSON-RPC 2.0 reserves (-32768 to -32000).
    ///
    /// ```
    /// use interzone_jsonrpc::ErrorCode;
    ///
    /// assert!(ErrorCode::PARSE_ERROR.is_reserved());
    /// assert!(!ErrorCode::new(1).is_reserved(), "free for your own errors");
    /// ```
    pub const fn is_reserved(self) -> bool {
        self.0 >= -32768 && self.0 <= -32000
    }

    /// Returns true if the code is in the part of that range left to servers (-32099 to -32000).
    ///
    /// ```
    /// use interzone_jsonrpc::ErrorCode;
    ///
    /// assert!(ErrorCode::new(-32000).is_server_error());
    /// assert!(!ErrorCode::INTERNAL_ERROR.is_server_error());
    /// ```
    pub const fn is_server_error(self) -> bool {
        self.0 >= -32099 && self.0 <= -32000
    }

    /// The message that the specification defines for the code, if any.
    ///
    /// ```
    /// use interzone_jsonrpc::ErrorCode;
    ///
    /// assert_eq!(ErrorCode::new(-32601).standard_message(), Some("Method not found"));
    /// assert_eq!(ErrorCode::new(1).standard_message(), None);
    /// ```
    pub const fn standard_message(self) -> Option<&'static str> {
        match self {
            Self::PARSE_ERROR => Some("Parse error"),
            Self::INVALID_REQUEST => Some("Invalid Request"),
            Self::METHOD_NOT_FOUND => Some("Method not found"),
            Self::INVALID_PARAMS => Some("Invalid params"),
            Self::INTERNAL_ERROR => Some("Internal error"),
            _ => None,
        }
    }
}

impl From<i32> for ErrorCode {
    fn from(code: i32) -> Self {
        Self(code)
    }
}

impl From<ErrorCode> for i32 {
    fn from(code: ErrorCode) -> Self {
        code.0
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
