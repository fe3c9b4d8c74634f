//! JSON kept verbatim, without being interpreted.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::fmt;
use std::sync::Arc;

/// One JSON value as it was sent: number digits, field order and whitespace are preserved.
///
/// Values are equal if their texts are. Clones share the text.
///
/// ```
/// use interzone_protocol::vocab::VerbatimJson;
///
/// let json: VerbatimJson = serde_json::from_str(r#"{"z":1.00, "a":12345678901234567890123}"#)?;
/// assert_eq!(serde_json::to_string(&json)?, r#"{"z":1.00, "a":12345678901234567890123}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
// `Arc<RawValue>` would need a copy of the text behind the reference counts; `Arc<Box<_>>` does not.
#[derive(Clone)]
pub struct VerbatimJson(Arc<Box<RawValue>>);

impl VerbatimJson {
    /// Validates JSON text.
    ///
    /// # Errors
    /// The text is not one JSON value.
    pub fn parse(text: impl Into<String>) -> Result<Self, InvalidJson> {
        RawValue::from_string(text.into())
            .map(Self::from_raw)
            .map_err(InvalidJson::NotJson)
    }

    /// Serializes a value.
    ///
    /// # Errors
    /// The value has no JSON form.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, InvalidJson> {
        serde_json::value::to_raw_value(value)
            .map(Self::from_raw)
            .map_err(InvalidJson::NotJson)
    }

    /// Serializes a string, without a copy if it needs no escapes.
    ///
    /// ```
    /// use interzone_protocol::vocab::VerbatimJson;
    ///
    /// assert_eq!(VerbatimJson::from_text("aGk=")?.as_str(), r#""aGk=""#);
    /// assert_eq!(VerbatimJson::from_text("\"\n")?.as_str(), r#""\"\n""#);
    /// # Ok::<(), interzone_protocol::vocab::InvalidJson>(())
    /// ```
    ///
    /// # Errors
    /// None in practice: every string has a JSON form.
    pub fn from_text(text: impl Into<String>) -> Result<Self, InvalidJson> {
        let mut text: String = text.into();
        if text
            .bytes()
            .any(|byte| matches!(byte, 0..0x20 | b'"' | b'\\'))
        {
            return Self::from_value(&text);
        }
        text.reserve_exact(2);
        text.insert(0, '"');
        text.push('"');
        Self::parse(text)
    }

    fn from_raw(value: Box<RawValue>) -> Self {
        Self(Arc::new(value))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Returns true if the value is `null`.
    pub fn is_null(&self) -> bool {
        self.as_str() == "null"
    }

    /// Returns true if the value is an object.
    pub fn is_object(&self) -> bool {
        self.as_str().starts_with('{')
    }

    /// Returns true if the value is a string.
    pub fn is_string(&self) -> bool {
        self.as_str().starts_with('"')
    }

    /// Deserializes the value as a `T`.
    ///
    /// # Errors
    /// The value does not fit `T`.
    pub fn decode<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }
}

impl From<VerbatimJson> for String {
    /// Returns the text; copies it only if it is shared.
    fn from(json: VerbatimJson) -> Self {
        Box::<str>::from(Arc::unwrap_or_clone(json.0)).into_string()
    }
}

impl PartialEq for VerbatimJson {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for VerbatimJson {}

impl fmt::Debug for VerbatimJson {
    /// Shows the size only: user content must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes of JSON>", self.as_str().len())
    }
}

impl Serialize for VerbatimJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for VerbatimJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from_raw)
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
pub struct Metadata(VerbatimJson);

impl Metadata {
    /// Wraps a JSON object.
    ///
    /// # Errors
    /// The value is not an object.
    pub fn new(json: VerbatimJson) -> Result<Self, InvalidJson> {
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
    pub fn as_json(&self) -> &VerbatimJson {
        &self.0
    }

    /// The field `name` as a `T`, if it is present and fits.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        let fields: std::collections::BTreeMap<String, VerbatimJson> = self.0.decode().ok()?;
        fields.get(name)?.decode().ok()
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(VerbatimJson::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// Reason why a value is not accepted as JSON.
///
/// ```
/// use interzone_protocol::vocab::{InvalidJson, Metadata, VerbatimJson};
///
/// assert!(matches!(VerbatimJson::parse("NaN"), Err(InvalidJson::NotJson(_))));
/// assert!(matches!(Metadata::new(VerbatimJson::parse("[]")?), Err(InvalidJson::NotAnObject)));
/// # Ok::<(), InvalidJson>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidJson {
    /// Not exactly one JSON value.
    #[error("this is not one JSON value")]
    NotJson(#[source] serde_json::Error),
    /// Valid JSON, but not an object.
    #[error("this must be an object")]
    NotAnObject,
}
