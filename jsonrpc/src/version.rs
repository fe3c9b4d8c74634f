//! The `jsonrpc` version member.

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The `jsonrpc` member: always exactly `"2.0"`.
///
/// ```
/// use interzone_jsonrpc::Version;
///
/// assert_eq!(serde_json::to_string(&Version)?, r#""2.0""#);
/// assert!(serde_json::from_str::<Version>(r#""2.0""#).is_ok());
/// assert!(serde_json::from_str::<Version>(r#""1.0""#).is_err());
/// assert!(serde_json::from_str::<Version>("2.0").is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Version;

impl Version {
    /// The version as text.
    ///
    /// ```
    /// use interzone_jsonrpc::Version;
    ///
    /// assert_eq!(Version::TEXT, Version.to_string());
    /// ```
    pub const TEXT: &'static str = "2.0";
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::TEXT)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(Self::TEXT)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TwoPointZero;
        impl Visitor<'_> for TwoPointZero {
            type Value = Version;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the string \"2.0\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Version, E> {
                if text == Version::TEXT {
                    Ok(Version)
                } else {
                    Err(E::invalid_value(Unexpected::Other("another string"), &self))
                }
            }
        }
        deserializer.deserialize_str(TwoPointZero)
    }
}
