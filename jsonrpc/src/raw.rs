//! JSON that has been checked but not taken apart.

use crate::position::Ruler;
use crate::reject::Rejection;
use crate::scan::{DEEPEST, Fault, Kind, Scanner};
use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The text of one valid JSON value.
///
/// `params`, `result` and `data` are kept like this until somebody knows what type they are:
/// numbers keep every digit, members keep their order, and passing a value on costs no parsing.
///
/// ```
/// use interzone_jsonrpc::RawJson;
///
/// let raw = RawJson::of(&vec![1, 2])?;
/// assert_eq!(raw.as_str(), "[1,2]");
/// assert_eq!(raw.decode::<Vec<u8>>()?, [1, 2]);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson<'a>(Cow<'a, str>);

impl<'a> RawJson<'a> {
    /// `null`.
    pub const NULL: RawJson<'static> = RawJson(Cow::Borrowed("null"));

    /// Checks that `text` is one JSON value, by the rules that messages are read by: no half
    /// characters, no nesting beyond 125. White space around it is dropped.
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
    pub fn parse(text: &'a str) -> Result<Self, Rejection<'static>> {
        let mut scanner = Scanner::new(text, DEEPEST);
        let refuse = |fault: Fault| {
            Rejection::new(fault.problem, Ruler::new(text.as_bytes()).locate(fault.at))
        };
        if scanner.at_end() {
            return Err(refuse(Fault {
                problem: crate::Problem::EmptyBody,
                at: scanner.at,
            }));
        }
        let value = scanner.value().map_err(refuse)?;
        if !scanner.at_end() {
            return Err(refuse(Fault {
                problem: crate::Problem::TrailingBytes,
                at: scanner.at,
            }));
        }
        Ok(Self(Cow::Borrowed(value.text)))
    }

    /// Writes a value as JSON.
    ///
    /// # Errors
    /// The value has no JSON form that a peer could read: a map whose keys are not strings, a
    /// `Serialize` that fails, nesting beyond 125, raw text with half characters.
    ///
    /// ```
    /// use interzone_jsonrpc::RawJson;
    /// use serde_json::value::RawValue;
    ///
    /// let half_a_character = RawValue::from_string(r#""\ud800""#.to_owned())?;
    /// assert!(RawJson::of(&half_a_character).is_err());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<RawJson<'static>, serde_json::Error> {
        let text = serde_json::to_string(value)?;
        check(&text)?;
        Ok(RawJson(Cow::Owned(text)))
    }

    /// Takes text that the scanner has passed.
    pub(crate) fn checked(text: &'a str) -> Self {
        Self(Cow::Borrowed(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What kind of value it is.
    pub fn kind(&self) -> Kind {
        Kind::of(&self.0)
    }

    /// Reads the value as a `T`.
    ///
    /// Within it serde's rules hold: a member of a struct that stands twice is refused, and for a
    /// map the last one wins.
    ///
    /// # Errors
    /// The value is not what `T` takes. The error tells what was expected, and where.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// Reads the value as a `T` that may borrow from it.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    ///
    /// ```
    /// use interzone_jsonrpc::RawJson;
    ///
    /// let raw = RawJson::of("words")?;
    /// let words: &str = raw.decode_borrowed()?;
    /// assert_eq!(words, "words");
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn decode_borrowed<'s, T: Deserialize<'s>>(&'s self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// The same value, free of the buffer it was read from.
    pub fn into_owned(self) -> RawJson<'static> {
        RawJson(Cow::Owned(self.0.into_owned()))
    }

    /// A cheap copy that borrows from this value.
    pub fn borrowed(&self) -> RawJson<'_> {
        RawJson(Cow::Borrowed(&self.0))
    }

    /// Appends the value to a buffer.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0.as_bytes());
    }
}

/// Checks that what serde wrote can be read again by the rules of messages, so that nothing leaves
/// which we ourselves would refuse.
pub(crate) fn check(text: &str) -> Result<(), serde_json::Error> {
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
    /// The kind and size only: what users send does not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} of {} bytes>", self.kind(), self.0.len())
    }
}

/// Through serde the text is read once more, because that is the only way in for raw text. The
/// messages' own `write_to` and `to_vec` append it as it is.
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
