//! Objects with one model in Rust and one JSON form in each wire format.

use super::field::{Field, FieldValue, Path};
use super::invalid_field::InvalidField;
use super::method::WireFormat;
use serde::{Serialize, Serializer};

/// Wire format of JSON to read, and the side that reads it.
///
/// ```
/// use interzone_protocol::a2a::{A2aTaskStatus, Codec, WireFormat, WireObject};
///
/// // A later version of A2A may have more states; only a client accepts them.
/// let status = r#"{"state":"TASK_STATE_PAUSED"}"#;
/// assert!(A2aTaskStatus::decode(status, Codec::client(WireFormat::V1)).is_ok());
/// assert!(A2aTaskStatus::decode(status, Codec::server(WireFormat::V1)).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codec {
    pub(super) format: WireFormat,
    pub(super) side: Side,
}

/// The side that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// Reads requests, and refuses what it does not understand.
    Server,
    /// Reads results of agents of any version.
    Client,
}

impl Codec {
    /// For a server that reads requests: unknown names of states and roles are refused.
    pub const fn server(format: WireFormat) -> Self {
        Self {
            format,
            side: Side::Server,
        }
    }

    /// For a client that reads results: unknown names of states and roles count as unspecified, messages
    /// and artifacts may have no parts, and times without an offset count as absent.
    pub const fn client(format: WireFormat) -> Self {
        Self {
            format,
            side: Side::Client,
        }
    }

    /// The wire format.
    pub const fn format(self) -> WireFormat {
        self.format
    }

    pub(super) fn is_lenient(self) -> bool {
        self.side == Side::Client
    }
}

/// An object of A2A: read from JSON of any wire format, and written in any.
///
/// ```
/// use interzone_protocol::a2a::{A2aPart, Codec, WireFormat, WireObject};
///
/// let part = A2aPart::decode(r#"{"kind":"text","text":"hi"}"#, Codec::server(WireFormat::V03))?;
/// assert_eq!(serde_json::to_string(&part.encode(WireFormat::V1)).unwrap(), r#"{"text":"hi"}"#);
/// # Ok::<(), interzone_protocol::a2a::InvalidField>(())
/// ```
pub trait WireObject: Sized {
    /// Reads the object from a JSON value.
    ///
    /// # Errors
    /// A field's value is not accepted.
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField>;

    /// Writes the object.
    ///
    /// # Errors
    /// The serializer fails.
    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error>;

    /// Reads the object from JSON text, whose depth the caller has limited.
    ///
    /// # Errors
    /// The text is not JSON, or a field's value is not accepted.
    fn decode(json: &str, codec: Codec) -> Result<Self, InvalidField> {
        Self::read(&Field::new(
            FieldValue::Json(json.trim()),
            Path::Root,
            codec,
        ))
    }

    /// The object in a wire format, ready for a serializer.
    fn encode(&self, format: WireFormat) -> Encoded<'_, Self> {
        Encoded {
            object: self,
            format,
        }
    }
}

/// An object in a wire format.
#[derive(Debug)]
pub struct Encoded<'a, T> {
    object: &'a T,
    format: WireFormat,
}

impl<T: WireObject> Serialize for Encoded<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.object.write(self.format, serializer)
    }
}

/// An array of objects in a wire format.
#[derive(Debug)]
pub(super) struct EncodedList<'a, T> {
    objects: &'a [T],
    format: WireFormat,
}

impl<'a, T> EncodedList<'a, T> {
    pub(super) fn new(objects: &'a [T], format: WireFormat) -> Self {
        Self { objects, format }
    }
}

impl<T: WireObject> Serialize for EncodedList<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.objects.iter().map(|object| object.encode(self.format)))
    }
}

/// The text, or nothing if it is empty.
pub(super) fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// The list, or nothing if it is empty.
pub(super) fn non_empty_list(list: &[String]) -> Option<&[String]> {
    (!list.is_empty()).then_some(list)
}
