//! Request ids: a string or a 64-bit integer.

use crate::json_writer;
use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// The id that correlates a response with its request.
///
/// Type and value are preserved: `"1"` stays a string and `1` stays a number. `null`, fractions, exponents, `-0`,
/// booleans and integers beyond 64 bits are not ids. The empty string is one.
///
/// ```
/// use interzone_jsonrpc::RequestId;
///
/// let number: RequestId = serde_json::from_str("1")?;
/// let string: RequestId = serde_json::from_str(r#""1""#)?;
/// assert_eq!(number, RequestId::from(1));
/// assert_eq!(string, RequestId::from("1"));
/// assert_ne!(number, string);
/// assert!(serde_json::from_str::<RequestId>("null").is_err());
/// assert!(serde_json::from_str::<RequestId>("1.0").is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestId<'a> {
    /// An integer id.
    Number(i64),
    /// A string id, borrowed from the message where it had no escapes.
    String(Cow<'a, str>),
}

impl RequestId<'_> {
    /// Detaches the id from the buffer it was parsed from.
    ///
    /// ```
    /// use interzone_jsonrpc::RequestId;
    ///
    /// let owned: RequestId<'static> = {
    ///     let buffer = String::from("req-1");
    ///     RequestId::from(buffer.as_str()).into_owned()
    /// };
    /// assert_eq!(owned, RequestId::from("req-1"));
    /// ```
    pub fn into_owned(self) -> RequestId<'static> {
        match self {
            Self::Number(number) => RequestId::Number(number),
            Self::String(text) => RequestId::String(Cow::Owned(text.into_owned())),
        }
    }

    /// Returns a cheap copy that borrows from this id.
    ///
    /// ```
    /// use interzone_jsonrpc::{RawJson, RequestId, Response};
    ///
    /// let id = RequestId::from("req-1".to_owned());
    /// let response = Response::success(id.borrowed(), RawJson::NULL);
    /// assert_eq!(response.id(), Some(&id));
    /// ```
    pub fn borrowed(&self) -> RequestId<'_> {
        match self {
            Self::Number(number) => RequestId::Number(*number),
            Self::String(text) => RequestId::String(Cow::Borrowed(text)),
        }
    }

    /// The text of a string id.
    ///
    /// ```
    /// use interzone_jsonrpc::RequestId;
    ///
    /// assert_eq!(RequestId::from("1").as_str(), Some("1"));
    /// assert_eq!(RequestId::from(1).as_str(), None);
    /// ```
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Number(_) => None,
            Self::String(text) => Some(text),
        }
    }

    /// The value of an integer id.
    ///
    /// ```
    /// use interzone_jsonrpc::RequestId;
    ///
    /// assert_eq!(RequestId::from(1).as_i64(), Some(1));
    /// assert_eq!(RequestId::from("1").as_i64(), None);
    /// ```
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::String(_) => None,
        }
    }

    /// Appends the id as JSON.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Number(number) => json_writer::write_integer(*number, out),
            Self::String(text) => json_writer::write_string(text, out),
        }
    }
}

/// Appends an id, or `null` for `None`.
pub(crate) fn write_nullable(id: Option<&RequestId<'_>>, out: &mut Vec<u8>) {
    match id {
        Some(id) => id.write_to(out),
        None => out.extend_from_slice(b"null"),
    }
}

/// Parses the text of a JSON number as an id.
///
/// Only the plain form of an integer is accepted: `1.0` and `1e3` are rejected although they have integer values,
/// because a peer that echoes them may write them differently, and the response would not match.
pub(crate) fn parse_integer(text: &str) -> Option<i64> {
    if text == "-0" {
        return None;
    }
    text.parse().ok()
}

impl fmt::Display for RequestId<'_> {
    /// Writes the id as JSON, quotes included, so that `1` and `"1"` look different.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => fmt::Display::fmt(number, f),
            Self::String(text) => json_writer::display_string(text, f),
        }
    }
}

impl fmt::Debug for RequestId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<i64> for RequestId<'_> {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<i32> for RequestId<'_> {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u32> for RequestId<'_> {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl<'a> From<&'a str> for RequestId<'a> {
    fn from(text: &'a str) -> Self {
        Self::String(Cow::Borrowed(text))
    }
}

impl From<String> for RequestId<'_> {
    fn from(text: String) -> Self {
        Self::String(Cow::Owned(text))
    }
}

impl Serialize for RequestId<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::String(text) => serializer.serialize_str(text),
        }
    }
}

/// Deserialized ids are owned, like the messages, so that they can be read from a `Value` or a reader and be part
/// of a type that [`decode_params`](crate::Request::decode_params) returns.
impl<'de> Deserialize<'de> for RequestId<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StringOrInteger;
        impl Visitor<'_> for StringOrInteger {
            type Value = RequestId<'static>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or an integer of at most 64 bits")
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Self::Value, E> {
                Ok(RequestId::Number(number))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Self::Value, E> {
                i64::try_from(number)
                    .map(RequestId::Number)
                    .map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(RequestId::String(Cow::Owned(text.to_owned())))
            }

            fn visit_string<E: serde::de::Error>(self, text: String) -> Result<Self::Value, E> {
                Ok(RequestId::String(Cow::Owned(text)))
            }
        }
        deserializer.deserialize_any(StringOrInteger)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_integer_accepts_only_plain_integers() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("18446744073709551616", None),
            ("-0", None),
            ("1.0", None),
            ("1e3", None),
        ] {
            assert_eq!(parse_integer(text), expected, "{text}");
        }
    }
}
