//! `Serialize` and `Deserialize` of the message types, through their JSON text.
//!
//! Only the scanner decides what a valid message is, so deserialization passes it the raw text. This works with
//! `serde_json` (from text, from a reader, from a `Value`) and with no other format. It does not work where serde
//! buffers its input: in an untagged or internally tagged enum, or flattened.

use crate::invalid_message::InvalidMessage;
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
    parse: impl FnOnce(&str) -> Result<T, InvalidMessage<'_>>,
) -> Result<T, D::Error> {
    let raw = <Box<RawValue> as serde::Deserialize>::deserialize(deserializer)?;
    parse(raw.get()).map_err(D::Error::custom)
}

/// Implements `Serialize` and `Deserialize` for a type, by its `write_to` and a parse function.
macro_rules! via_text {
    ($type:ident, $read:path) => {
        impl serde::Serialize for $type<'_> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut text = Vec::new();
                self.write_to(&mut text);
                $crate::serde_impls::serialize(text, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type<'_> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::serde_impls::deserialize(deserializer, |text| {
                    $read(text).map($type::into_owned)
                })
            }
        }
    };
}

pub(crate) use via_text;

/// Implements `to_vec` and `Display` (the JSON text) for a type with `write_to`. `$example` is a text for the
/// doc example.
macro_rules! display {
    ($type:ident, $example:literal) => {
        impl $type<'_> {
            /// Serializes the message as JSON.
            ///
            /// ```
            #[doc = concat!("use interzone_jsonrpc::", stringify!($type), ";")]
            ///
            #[doc = concat!("let sent = r#\"", $example, "\"#;")]
            #[doc = concat!("let message: ", stringify!($type), " = serde_json::from_str(sent)?;")]
            /// assert_eq!(message.to_vec(), sent.as_bytes());
            /// # Ok::<(), serde_json::Error>(())
            /// ```
            pub fn to_vec(&self) -> Vec<u8> {
                let mut out = Vec::new();
                self.write_to(&mut out);
                out
            }
        }

        impl std::fmt::Display for $type<'_> {
            /// Writes the message as JSON, contents included: not for logs.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&String::from_utf8_lossy(&self.to_vec()))
            }
        }
    };
}

pub(crate) use display;
