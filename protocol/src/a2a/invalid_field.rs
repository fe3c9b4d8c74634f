//! Refusals of input: the path of a field and the value that it must have.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use std::fmt;

/// A field whose value is not accepted. It never repeats the value.
///
/// Serializes as a `FieldViolation` of `google.rpc.BadRequest`.
///
/// ```
/// use interzone_protocol::a2a::{Codec, SendMessageRequest, WireFormat, WireObject};
///
/// let params = r#"{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"raw":"?"}]}}"#;
/// let error = SendMessageRequest::decode(params, Codec::server(WireFormat::V1)).unwrap_err();
/// assert_eq!(error.path(), "message.parts[0].raw");
/// assert_eq!(error.to_string(), "message.parts[0].raw must be base64 text");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidField {
    path: String,
    expectation: Expectation,
}

impl InvalidField {
    /// Refuses the field at `path`, which is relative to the params.
    pub fn new(path: impl Into<String>, expectation: Expectation) -> Self {
        Self {
            path: path.into(),
            expectation,
        }
    }

    /// Path of the field, relative to the params; `params` for the params themselves.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The value that the field must have.
    pub fn expectation(&self) -> Expectation {
        self.expectation
    }
}

impl fmt::Display for InvalidField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, self.expectation)
    }
}

impl std::error::Error for InvalidField {}

impl Serialize for InvalidField {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut violation = serializer.serialize_struct("FieldViolation", 2)?;
        violation.serialize_field("field", &self.path)?;
        violation.serialize_field("description", &self.expectation.to_string())?;
        violation.end()
    }
}

/// The value that a field must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expectation {
    /// JSON text.
    Json,
    /// Present and not null.
    Present,
    /// Given once, in one spelling.
    Single,
    /// A string.
    Text,
    /// A string that is not empty.
    NonEmptyText,
    /// An object.
    Object,
    /// An array.
    Array,
    /// An array with at least one element.
    NonEmptyArray,
    /// An object or array with at most this many members or elements.
    MaxLength(usize),
    /// A whole number in a range.
    Integer {
        /// The least number.
        min: i32,
        /// The greatest number.
        max: i32,
    },
    /// `true` or `false`.
    Boolean,
    /// Base64 text.
    Base64,
    /// An RFC 3339 time.
    Time,
    /// A name of a list.
    OneOf(&'static [&'static str]),
    /// An object with exactly one of these members.
    OneMember(&'static [&'static str]),
    /// A resource name of this form.
    ResourceName(&'static str),
    /// At most this many bytes.
    MaxBytes(usize),
    /// A rule of the server, as a sentence without its subject.
    Rule(&'static str),
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json => f.write_str("must be valid JSON"),
            Self::Present => f.write_str("is required"),
            Self::Single => f.write_str("must be given only once, in one spelling"),
            Self::Text => f.write_str("must be a string"),
            Self::NonEmptyText => f.write_str("must be a string that is not empty"),
            Self::Object => f.write_str("must be an object"),
            Self::Array => f.write_str("must be an array"),
            Self::NonEmptyArray => f.write_str("must have at least one element"),
            Self::MaxLength(max) => write!(f, "must have at most {max} members or elements"),
            Self::Integer { min, max } if *max == i32::MAX => {
                write!(f, "must be an integer of at least {min}")
            }
            Self::Integer { min, max } => write!(f, "must be an integer from {min} to {max}"),
            Self::Boolean => f.write_str("must be true or false"),
            Self::Base64 => f.write_str("must be base64 text"),
            Self::Time => f.write_str("must be an RFC 3339 time such as 2026-01-02T03:04:05.678Z"),
            Self::OneOf(names) => write!(f, "must be one of {}", names.join(", ")),
            Self::OneMember(names) => {
                write!(f, "must have exactly one of {}", names.join(", "))
            }
            Self::MaxBytes(max) => write!(f, "must have at most {max} bytes"),
            Self::Rule(rule) => f.write_str(rule),
            Self::ResourceName(form) => write!(f, "must have the form {form}"),
        }
    }
}
