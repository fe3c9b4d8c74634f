//! JSON text that is validated but not decoded.

use crate::invalid_message::InvalidMessage;
use crate::position::PositionTracker;
use crate::scan::{JsonKind, MAX_DEPTH, ScanError, Scanner};
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The text of one valid JSON value.
///
/// `params`, `result` and `data` stay in this form until their type is known: numbers keep every digit, members keep
/// their order, and passing a value on costs no parsing.
///
/// ```
/// use interzone_jsonrpc::RawJson;
///
/// let raw = RawJson::from_value(&vec![1, 2])?;
/// assert_eq!(raw.as_str(), "[1,2]");
/// assert_eq!(raw.decode::<Vec<u8>>()?, [1, 2]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson<'a>(Cow<'a, str>);

impl<'a> RawJson<'a> {
    /// `null`.
    ///
    /// ```
    /// use interzone_jsonrpc::{RawJson, Response};
    ///
    /// let done = Response::success(1, RawJson::NULL);
    /// assert_eq!(done.to_string(), r#"{"jsonrpc":"2.0","id":1,"result":null}"#);
    /// ```
    pub const NULL: RawJson<'static> = RawJson(Cow::Borrowed("null"));

    /// Validates that `text` is one JSON value, by the rules for messages: no lone surrogates, no nesting beyond 125.
    /// White space around it is dropped.
    ///
    /// # Errors
    /// The text is not one JSON value.
    ///
    /// ```
    /// use interzone_jsonrpc::RawJson;
    ///
    /// assert_eq!(RawJson::parse(" {\"a\": 1.0} ").map(|raw| raw.to_string()), Ok("{\"a\": 1.0}".to_owned()));
    /// assert!(RawJson::parse("NaN").is_err());
    /// ```
    pub fn parse(text: &'a str) -> Result<Self, InvalidMessage<'static>> {
        let mut scanner = Scanner::new(text, MAX_DEPTH);
        let reject = |error: ScanError| {
            InvalidMessage::new(
                error.kind,
                PositionTracker::new(text.as_bytes()).locate(error.offset),
            )
        };
        if scanner.is_at_end() {
            return Err(reject(ScanError {
                kind: crate::InvalidMessageKind::EmptyBody,
                offset: scanner.offset,
            }));
        }
        let value = scanner.scan_root().map_err(reject)?;
        if !scanner.is_at_end() {
            return Err(reject(ScanError {
                kind: crate::InvalidMessageKind::TrailingBytes,
                offset: scanner.offset,
            }));
        }
        Ok(Self(Cow::Borrowed(value.text)))
    }

    /// Serializes a value as JSON.
    ///
    /// # Errors
    /// The value has no JSON form that a peer could read: a map whose keys are not strings, a `Serialize` that fails,
    /// nesting beyond 125, raw text with lone surrogates.
    ///
    /// ```
    /// use interzone_jsonrpc::RawJson;
    /// use serde_json::value::RawValue;
    ///
    /// let lone_surrogate = RawValue::from_string(r#""\ud800""#.to_owned())?;
    /// assert!(RawJson::from_value(&lone_surrogate).is_err());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn from_value<T: Serialize + ?Sized>(
        value: &T,
    ) -> Result<RawJson<'static>, serde_json::Error> {
        let text = serde_json::to_string(value)?;
        validate(&text)?;
        Ok(RawJson(Cow::Owned(text)))
    }

    /// Wraps text that the scanner has validated.
    pub(crate) fn from_validated(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// The text.
    ///
    /// ```
    /// use interzone_jsonrpc::{RawJson, InvalidMessage};
    ///
    /// let raw = RawJson::parse(r#"{"price": 1.10}"#)?;
    /// assert_eq!(raw.as_str(), r#"{"price": 1.10}"#);
    /// # Ok::<(), InvalidMessage>(())
    /// ```
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The kind of the value.
    ///
    /// ```
    /// use interzone_jsonrpc::{JsonKind, RawJson};
    ///
    /// assert_eq!(RawJson::from_value("text")?.kind(), JsonKind::String);
    /// assert_eq!(RawJson::NULL.kind(), JsonKind::Null);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn kind(&self) -> JsonKind {
        JsonKind::from_valid_text(&self.0)
    }

    /// Decodes the value as a `T`.
    ///
    /// Within it serde's rules apply: a duplicate member is rejected for a struct, and for a map the last one wins.
    ///
    /// # Errors
    /// The value does not match `T`. The error has the expected type and the position.
    ///
    /// ```
    /// use interzone_jsonrpc::RawJson;
    ///
    /// let raw = RawJson::from_value(&[3, 4])?;
    /// assert_eq!(raw.decode::<(i64, i64)>()?, (3, 4));
    /// assert!(raw.decode::<String>().is_err());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// Decodes the value as a `T` that may borrow from it.
    ///
    /// # Errors
    /// Same as [`decode`](Self::decode).
    ///
    /// ```
    /// use interzone_jsonrpc::RawJson;
    ///
    /// let raw = RawJson::from_value("text")?;
    /// let text: &str = raw.decode_borrowed()?;
    /// assert_eq!(text, "text");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn decode_borrowed<'s, T: Deserialize<'s>>(&'s self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// Detaches the value from the buffer it was parsed from.
    ///
    /// ```
    /// use interzone_jsonrpc::{RawJson, InvalidMessage};
    ///
    /// fn detach(buffer: String) -> Result<RawJson<'static>, InvalidMessage<'static>> {
    ///     Ok(RawJson::parse(&buffer)?.into_owned())
    /// }
    /// assert_eq!(detach("[1]".to_owned())?.as_str(), "[1]");
    /// # Ok::<(), InvalidMessage>(())
    /// ```
    pub fn into_owned(self) -> RawJson<'static> {
        RawJson(Cow::Owned(self.0.into_owned()))
    }

    /// Returns a cheap copy that borrows from this value.
    ///
    /// ```
    /// use interzone_jsonrpc::{MethodName, RawJson, Request};
    ///
    /// let params = RawJson::from_value(&["t-1"])?;
    /// let request = Request::new(1, MethodName::new("tasks.get")?).with_params(params.borrowed());
    /// assert_eq!(request.params(), Some(&params));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn borrowed(&self) -> RawJson<'_> {
        RawJson(Cow::Borrowed(&self.0))
    }

    /// Appends the value to a buffer.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }
}

/// Checks that serialized text is valid by the rules for messages, so that nothing is sent which this crate would
/// reject.
pub(crate) fn validate(text: &str) -> Result<(), serde_json::Error> {
    RawJson::parse(text)
        .map(drop)
        .map_err(serde::ser::Error::custom)
}

impl fmt::Display for RawJson<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RawJson<'_> {
    /// Writes kind and size only: user content must not be logged.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} of {} bytes>", self.kind(), self.0.len())
    }
}

/// Serialization parses the text once more, because serde has no other way to write raw text. `write_to` and `to_vec`
/// of the messages append it unchanged.
impl Serialize for RawJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(&self.0)
            .map_err(S::Error::custom)?
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RawJson<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        RawJson::parse(raw.get())
            .map(RawJson::into_owned)
            .map_err(D::Error::custom)
    }
}
