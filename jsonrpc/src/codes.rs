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
    pub const PARSE_ERROR: Self = Self(-32700);
    /// -32600: it is JSON, but not a valid message.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// -32601: nobody answers to that method.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// -32602: the method's parameters are not what it takes.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// -32603: the fault is ours.
    pub const INTERNAL_ERROR: Self = Self(-32603);

    /// The code with this number.
    pub const fn new(code: i32) -> Self {
        Self(code)
    }

    /// The number itself.
    pub const fn get(self) -> i32 {
        self.0
    }

    /// Whether the code is in the block (-32768 to -32000) that JSON-RPC 2.0 keeps for itself.
    pub const fn is_reserved(self) -> bool {
        self.0 >= -32768 && self.0 <= -32000
    }

    /// Whether the code is in the part of that block (-32099 to -32000) left to servers.
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
