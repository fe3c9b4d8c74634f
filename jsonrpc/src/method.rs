//! Method names.

use std::borrow::Cow;
use std::fmt;

/// The prefix that JSON-RPC 2.0 reserves.
const RESERVED_PREFIX: &str = "rpc.";

/// A valid method name: not empty, and not one of the reserved names that begin with `rpc.`.
///
/// ```
/// use interzone_jsonrpc::{InvalidMethod, MethodName};
///
/// assert_eq!(MethodName::new("tasks.create")?.as_str(), "tasks.create");
/// assert_eq!(MethodName::new(""), Err(InvalidMethod::Empty));
/// assert_eq!(MethodName::new("rpc.discover"), Err(InvalidMethod::Reserved));
/// # Ok::<(), InvalidMethod>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MethodName<'a>(Cow<'a, str>);

impl<'a> MethodName<'a> {
    /// Validates a name.
    ///
    /// # Errors
    /// The name is empty or reserved.
    ///
    /// ```
    /// use interzone_jsonrpc::MethodName;
    ///
    /// const PING: &str = "cauce.ping";
    /// assert!(MethodName::new(PING).is_ok());
    /// assert!(MethodName::new(format!("rpc.{PING}")).is_err());
    /// ```
    pub fn new(name: impl Into<Cow<'a, str>>) -> Result<Self, InvalidMethod> {
        let name = name.into();
        if name.is_empty() {
            Err(InvalidMethod::Empty)
        } else if is_reserved(&name) {
            Err(InvalidMethod::Reserved)
        } else {
            Ok(Self(name))
        }
    }

    /// The name as text.
    ///
    /// ```
    /// use interzone_jsonrpc::{InvalidMethod, MethodName};
    ///
    /// assert_eq!(MethodName::new("cauce.ping")?.as_str(), "cauce.ping");
    /// # Ok::<(), InvalidMethod>(())
    /// ```
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn into_cow(self) -> Cow<'a, str> {
        self.0
    }
}

/// Returns true if a name is reserved.
pub(crate) fn is_reserved(name: &str) -> bool {
    name.starts_with(RESERVED_PREFIX)
}

impl fmt::Display for MethodName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for MethodName<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'a> TryFrom<&'a str> for MethodName<'a> {
    type Error = InvalidMethod;

    fn try_from(name: &'a str) -> Result<Self, InvalidMethod> {
        Self::new(name)
    }
}

impl TryFrom<String> for MethodName<'_> {
    type Error = InvalidMethod;

    fn try_from(name: String) -> Result<Self, InvalidMethod> {
        Self::new(name)
    }
}

/// The reason why a method name is invalid.
///
/// ```
/// use interzone_jsonrpc::{InvalidMethod, MethodName};
///
/// let Err(error) = MethodName::new("rpc.discover") else { unreachable!() };
/// assert_eq!(error, InvalidMethod::Reserved);
/// assert_eq!(error.to_string(), "method names that begin with `rpc.` are reserved; choose another");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InvalidMethod {
    /// The name is empty.
    Empty,
    /// The name begins with `rpc.`.
    Reserved,
}

impl fmt::Display for InvalidMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "a method name must not be empty",
            Self::Reserved => "method names that begin with `rpc.` are reserved; choose another",
        })
    }
}

impl std::error::Error for InvalidMethod {}
