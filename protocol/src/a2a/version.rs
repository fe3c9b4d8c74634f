//! Versions of A2A, and the version that a request names.
//!
//! The method name or the path selects the wire format. The version header only refuses versions that are
//! not supported, and selects the shape of the agent card.

use super::card::CardShape;
use super::method::WireFormat;
use std::fmt;

/// A version of A2A that Interzone has wire types for. Patch digits never count and are never written.
///
/// ```
/// use interzone_protocol::a2a::A2aVersion;
///
/// assert_eq!(A2aVersion::parse("1.0.1"), Some(A2aVersion::V1));
/// assert_eq!(A2aVersion::parse("1"), Some(A2aVersion::V1));
/// assert_eq!(A2aVersion::parse("v1.0"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum A2aVersion {
    /// 0.3.
    V03,
    /// 1.0.
    V1,
    /// 1.1, a preview: accepted only where an operator enabled it.
    V11,
}

impl A2aVersion {
    /// The versions that are always served, as an error's metadata lists them.
    pub const SUPPORTED: &'static str = "0.3,1.0";
    /// The versions that are served where the preview is enabled.
    pub const SUPPORTED_WITH_PREVIEW: &'static str = "0.3,1.0,1.1";

    /// The version as written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V03 => "0.3",
            Self::V1 => "1.0",
            Self::V11 => "1.1",
        }
    }

    /// Parses numbers with dots between them; a missing minor version is 0.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split('.').map(parse_number);
        let major = numbers.next()??;
        let minor = numbers.next().unwrap_or(Some(0))?;
        if numbers.any(|number| number.is_none()) {
            return None;
        }
        match (major, minor) {
            (0, 3) => Some(Self::V03),
            (1, 0) => Some(Self::V1),
            (1, 1) => Some(Self::V11),
            _ => None,
        }
    }

    const fn major(self) -> u8 {
        match self {
            Self::V03 => 0,
            Self::V1 | Self::V11 => 1,
        }
    }
}

/// Parses digits. A number too large for any version counts as the largest.
fn parse_number(digits: &str) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u32::MAX))
}

/// The version that a request names: header `A2A-Version`, else the query parameter of that name.
///
/// ```
/// use interzone_protocol::a2a::{A2aVersion, RequestedVersion};
///
/// let parse = RequestedVersion::parse;
/// assert_eq!(parse(Some(" 1.0, 1.0 "), None), RequestedVersion::Version(A2aVersion::V1));
/// assert_eq!(parse(None, Some("0.3")), RequestedVersion::Version(A2aVersion::V03));
/// assert_eq!(parse(Some(""), None), RequestedVersion::Absent);
/// assert_eq!(parse(Some("2.0"), None), RequestedVersion::Unsupported("2.0".to_owned()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedVersion {
    /// The request names none.
    Absent,
    /// A version with wire types.
    Version(A2aVersion),
    /// Any other value, as sent.
    Unsupported(String),
}

impl RequestedVersion {
    /// Name of the header and of the query parameter, which is compared without regard to case.
    pub const NAME: &'static str = "A2A-Version";

    /// Parses the header's value, else the query parameter's. A list counts as one value if all its
    /// elements are the same version; proxies join repeated headers into such a list.
    pub fn parse(header: Option<&str>, query: Option<&str>) -> Self {
        let Some(text) = header.or(query).map(str::trim) else {
            return Self::Absent;
        };
        let mut versions = text
            .split(',')
            .map(str::trim)
            .filter(|element| !element.is_empty())
            .map(A2aVersion::parse);
        let Some(first) = versions.next() else {
            return Self::Absent;
        };
        match first.filter(|_| versions.all(|other| other == first)) {
            Some(version) => Self::Version(version),
            None => Self::Unsupported(text.to_owned()),
        }
    }

    /// Checks whether a request in `format` is served.
    ///
    /// ```
    /// use interzone_protocol::a2a::{RequestedVersion, VersionPolicy, WireFormat};
    ///
    /// let version = RequestedVersion::parse(Some("0.3"), None);
    /// assert!(version.check(WireFormat::V1, VersionPolicy::default()).is_ok());
    /// let strict = VersionPolicy { strict: true, ..VersionPolicy::default() };
    /// assert!(version.check(WireFormat::V1, strict).is_err());
    /// ```
    ///
    /// # Errors
    /// The version is not supported, or the policy is strict and another major version's format is used.
    pub fn check(
        &self,
        format: WireFormat,
        policy: VersionPolicy,
    ) -> Result<(), UnsupportedVersion> {
        let is_served = match self {
            Self::Unsupported(_) => false,
            Self::Version(A2aVersion::V11) if !policy.preview => false,
            // The preview has no slash names.
            Self::Version(A2aVersion::V11) => format == WireFormat::V1,
            // A strict server reads an absent version as 0.3, as the specification does.
            Self::Absent => !policy.strict || format != WireFormat::V1,
            Self::Version(version) => {
                !policy.strict || (version.major() == 1) == (format == WireFormat::V1)
            }
        };
        if is_served {
            return Ok(());
        }
        Err(UnsupportedVersion {
            requested: self.to_string(),
            supported: if policy.preview {
                A2aVersion::SUPPORTED_WITH_PREVIEW
            } else {
                A2aVersion::SUPPORTED
            },
        })
    }

    /// The shape of the agent card that this caller can read.
    pub const fn card_shape(&self) -> CardShape {
        match self {
            Self::Absent => CardShape::Hybrid,
            Self::Version(A2aVersion::V03) => CardShape::V03,
            Self::Version(A2aVersion::V1 | A2aVersion::V11) | Self::Unsupported(_) => CardShape::V1,
        }
    }
}

impl fmt::Display for RequestedVersion {
    /// Writes the version, empty if absent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => Ok(()),
            Self::Version(version) => f.write_str(version.name()),
            Self::Unsupported(text) => f.write_str(text),
        }
    }
}

/// Strictness about versions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionPolicy {
    /// Refuse a version whose major number is not that of the wire format.
    pub strict: bool,
    /// Serve the preview of 1.1.
    pub preview: bool,
}

/// A version that is not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("A2A version {requested} is not supported; use one of {supported}")]
pub struct UnsupportedVersion {
    /// The value that the caller sent.
    pub requested: String,
    /// The versions that are served.
    pub supported: &'static str,
}
