//! JSON that belongs to somebody else: kept letter for letter, never looked into.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::fmt;
use std::sync::Arc;

/// One JSON value as it was sent: every digit of a number, the order of every member.
///
/// Two are equal when their text is. Copies share the text, however large it is.
///
/// ```
/// use interzone_protocol::vocab::Json;
///
/// let json: Json = serde_json::from_str(r#"{"z":1.00, "a":12345678901234567890123}"#)?;
/// assert_eq!(serde_json::to_string(&json)?, r#"{"z":1.00, "a":12345678901234567890123}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
// A shared value has a header before its text, which would need a copy of that; a large one is in memory once.
#[derive(Clone)]
pub struct Json(Arc<Box<RawValue>>);

impl Json {
    /// Takes JSON text.
    ///
    /// # Errors
    /// The text is not one JSON value.
    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidJson> {
        RawValue::from_string(text.into())
            .map(Self::shared)
            .map_err(InvalidJson::NotJson)
    }

    /// Writes a value as JSON.
    ///
    /// # Errors
    /// The value has no JSON form.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, InvalidJson> {
        serde_json::value::to_raw_value(value)
            .map(Self::shared)
            .map_err(InvalidJson::NotJson)
    }

    /// Writes a text as a JSON string, without a copy if nothing in it needs an escape.
    ///
    /// ```
    /// use interzone_protocol::vocab::Json;
    ///
    /// assert_eq!(Json::string("aGk=")?.as_str(), r#""aGk=""#);
    /// assert_eq!(Json::string("\"\n")?.as_str(), r#""\"\n""#);
    /// # Ok::<(), interzone_protocol::vocab::InvalidJson>(())
    /// ```
    ///
    /// # Errors
    /// None that is known: every text has a JSON form.
    pub fn string(text: impl Into<String>) -> Result<Self, InvalidJson> {
        let mut text: String = text.into();
        if text
            .bytes()
            .any(|byte| matches!(byte, 0..0x20 | b'"' | b'\\'))
        {
            return Self::of(&text);
        }
        text.reserve_exact(2);
        text.insert(0, '"');
        text.push('"');
        Self::parse(text)
    }

    fn shared(value: Box<RawValue>) -> Self {
        Self(Arc::new(value))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Whether the value is `null`.
    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }

    /// Whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.as_str().starts_with('{')
    }

    /// Whether the value is a string.
    pub fn is_string(&self) -> bool {
        self.as_str().starts_with('"')
    }

    /// Reads the value as a `T`.
    ///
    /// # Errors
    /// The value is not what `T` takes.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }
}

impl From<Json> for String {
    /// The text; a copy of it only if somebody else holds it too.
    fn from(json: Json) -> Self {
        Box::<str>::from(Arc::unwrap_or_clone(json.0)).into_string()
    }
}

impl PartialEq for Json {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Json {}

impl fmt::Debug for Json {
    /// The size only: what users send does not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes of JSON>", self.as_str().len())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::shared)
    }
}

/// A JSON object that a caller attached for its own use.
///
/// ```
/// use interzone_protocol::vocab::Metadata;
///
/// let metadata: Metadata = serde_json::from_str(r#"{"trace": "abc"}"#)?;
/// assert_eq!(metadata.get::<String>("trace"), Some("abc".to_owned()));
/// assert!(serde_json::from_str::<Metadata>("[]").is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Metadata(Json);

impl Metadata {
    /// Takes a JSON object.
    ///
    /// # Errors
    /// The value is not an object.
    pub fn new(json: Json) -> Result<Self, InvalidJson> {
        if json.is_object() {
            Ok(Self(json))
        } else {
            Err(InvalidJson::NotAnObject)
        }
    }

    /// The object's text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The object.
    pub fn as_json(&self) -> &Json {
        &self.0
    }

    /// The member `name` as a `T`, if it is there and is one.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let members: std::collections::BTreeMap<String, Json> = self.0.decode().ok()?;
        members.get(name)?.decode().ok()
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Json::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Why something cannot be kept as JSON.
///
/// ```
/// use interzone_protocol::vocab::{InvalidJson, Json, Metadata};
///
/// assert!(matches!(Json::parse("NaN"), Err(InvalidJson::NotJson(_))));
/// assert!(matches!(Metadata::new(Json::parse("[]")?), Err(InvalidJson::NotAnObject)));
/// # Ok::<(), InvalidJson>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidJson {
    /// It is not one JSON value.
    #[error("this is not one JSON value")]
    NotJson(#[source] serde_json::Error),
    /// It is JSON, but not an object.
    #[error("this must be an object")]
    NotAnObject,
}
