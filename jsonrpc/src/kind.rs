//! The six kinds of JSON value.

use std::fmt;

/// What kind of JSON value something is.
///
/// ```
/// use interzone_jsonrpc::RawJson;
///
/// let raw = RawJson::parse("[1, 2]").map_err(|e| e.to_string())?;
/// assert_eq!(raw.kind().to_string(), "array");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Boolean,
    /// Any number.
    Number,
    /// Any string.
    String,
    /// `[…]`
    Array,
    /// `{…}`
    Object,
}

impl Kind {
    /// The name that JSON gives to the kind, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    /// The name as it stands in a sentence.
    pub(crate) const fn with_article(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }

    /// The kind of a value known to be valid, told by its first byte.
    pub(crate) fn of(text: &str) -> Self {
        match text.as_bytes().first() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::String,
            Some(b't' | b'f') => Self::Boolean,
            Some(b'n') => Self::Null,
            _ => Self::Number,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
