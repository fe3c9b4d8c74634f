//! serde, both ways, for the message types: through their text.
//!
//! The scanner is the only judge of what a message is, so deserializing hands it the raw text.
//! This works with `serde_json` (from text, from a reader, from a `Value`), which is what a
//! JSON-RPC message is made of; other formats cannot be read. Nor can a message where serde keeps
//! a copy of its input to look at it twice: in an untagged or internally tagged enum, or flattened.

use crate::reject::Rejection;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

pub(crate) fn serialize<S: Serializer>(text: Vec<u8>, serializer: S) -> Result<S::Ok, S::Error> {
    let text = String::from_utf8(text).map_err(S::Error::custom)?;
    RawValue::from_string(text)
        .map_err(S::Error::custom)?
        .serialize(serializer)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    read: impl FnOnce(&str) -> Result<T, Rejection<'_>>,
) -> Result<T, D::Error> {
    let raw = <Box<RawValue> as serde::Deserialize>::deserialize(deserializer)?;
    read(raw.get()).map_err(D::Error::custom)
}

/// Gives a type with `write_to` and a reader both of serde's traits.
macro_rules! via_text {
    ($type:ident, $read:path) => {
        impl serde::Serialize for $type<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut text = Vec::new();
                self.write_to(&mut text);
                $crate::serde_form::serialize(text, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type<'_> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::serde_form::deserialize(deserializer, |text| {
                    $read(text).map($type::into_owned)
                })
            }
        }
    };
}

pub(crate) use via_text;

/// Shows a type with `write_to` as its JSON text, and gives the text as bytes.
macro_rules! display {
    ($type:ident) => {
        impl $type<'_> {
            /// The message as JSON.
            pub fn to_vec(&self) -> Vec<u8> {
                let mut out = Vec::new();
                self.write_to(&mut out);
                out
            }
        }

        impl std::fmt::Display for $type<'_> {
            /// The message as JSON, contents and all: not for logs.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&String::from_utf8_lossy(&self.to_vec()))
            }
        }
    };
}

pub(crate) use display;
