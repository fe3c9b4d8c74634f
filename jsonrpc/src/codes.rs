//! The numbers of JSON-RPC 2.0 itself, and the type that carries any error code.
//!
//! Only the codes that the envelope owns stand here. A dialect's own codes live in its
//! `codes.rs`; a code written anywhere else fails the tidy test.

use std::fmt;

/// The integer in an error object's `code` member.
///
/// Any `i32` is a legal code. The ranges that JSON-RPC 2.0 reserves can be asked for.
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
    /// -32700: what arrived is not JSON.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, ErrorCode, Parsed, Policy};
    ///
    /// let Parsed::One(Err(rejection)) = parse(b"{", &Policy::SERVER) else { unreachable!() };
    /// assert_eq!(rejection.problem().code(), ErrorCode::PARSE_ERROR);
    /// ```
    pub const PARSE_ERROR: Self = Self(-32700);
    /// -32600: it is JSON, but not a valid message.
    ///
    /// ```
    /// use interzone_jsonrpc::{parse, ErrorCode, Parsed, Policy};
    ///
    /// let Parsed::One(Err(rejection)) = parse(b"{}", &Policy::SERVER) else { unreachable!() };
    /// assert_eq!(rejection.problem().code(), ErrorCode::INVALID_REQUEST);
    /// ```
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// -32601: nobody answers to that method.
    ///
    /// ```
    /// use interzone_jsonrpc::{Error, ErrorCode, MethodName, Request};
    ///
    /// let request = Request::new(1, MethodName::new("no.such")?);
    /// let response = request.fail(Error::standard(ErrorCode::METHOD_NOT_FOUND));
    /// assert_eq!(response.error().map(|error| error.code().get()), Some(-32601));
    /// # Ok::<(), interzone_jsonrpc::InvalidMethod>(())
    /// ```
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// -32602: the method's parameters are not what it takes.
    ///
    /// ```
    /// use interzone_jsonrpc::{Error, ErrorCode, MethodName, RawJson, Request};
    ///
    /// let request = Request::new(1, MethodName::new("sum")?).with_params(RawJson::of(&["one"])?);
    /// let sum = request.decode_params::<Vec<i64>>().map_err(|_| Error::standard(ErrorCode::INVALID_PARAMS));
    /// assert_eq!(sum.map_err(|error| error.to_string()), Err("Invalid params (-32602)".to_owned()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// -32603: the fault is ours.
    ///
    /// ```
    /// use interzone_jsonrpc::{Error, ErrorCode};
    ///
    /// let error = Error::standard(ErrorCode::INTERNAL_ERROR);
    /// assert_eq!(error.to_string(), "Internal error (-32603)");
    /// ```
    pub const INTERNAL_ERROR: Self = Self(-32603);

    /// The code with this number.
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

    /// The number itself.
    ///
    /// ```
    /// use interzone_jsonrpc::ErrorCode;
    ///
    /// assert_eq!(ErrorCode::METHOD_NOT_FOUND.get(), -32601);
    /// ```
    pub const fn get(self) -> i32 {
        self.0
    }

    /// Whether the code is in the block (-32768 to -32000) that JSON-RPC 2.0 keeps for itself.
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

    /// Whether the code is in the part of that block (-32099 to -32000) left to servers.
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

    /// The words the specification puts beside the code, if it defines it.
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
