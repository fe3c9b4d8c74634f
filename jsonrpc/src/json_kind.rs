//! The six kinds of JSON values.

use std::fmt;

/// The kind of a JSON value.
///
/// ```
/// use interzone_jsonrpc::RawJson;
///
/// let raw = RawJson::parse("[1, 2]").map_err(|e| e.to_string())?;
/// assert_eq!(raw.kind().to_string(), "array");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JsonKind {
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

impl JsonKind {
    /// The JSON name of the kind, in lower case.
    ///
    /// ```
    /// use interzone_jsonrpc::JsonKind;
    ///
    /// assert_eq!(JsonKind::Object.name(), "object");
    /// ```
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

    /// The name with its article, for messages.
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

    /// Returns the kind of a value that is known to be valid, by its first byte.
    pub(crate) fn from_valid_text(text: &str) -> Self {
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

impl fmt::Display for JsonKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
