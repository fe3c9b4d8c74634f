//! Base64 text of raw parts.

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::{Serialize, Serializer};
use std::fmt;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const FROM_STANDARD: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
const FROM_URL_SAFE: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

/// Bytes as base64 text of the standard alphabet with padding, as A2A writes them.
///
/// It stays text, because files are large and most are only forwarded.
///
/// ```
/// use interzone_protocol::a2a::Base64Text;
///
/// let text = Base64Text::parse("_-8".to_owned()).unwrap();
/// assert_eq!(text.as_str(), "/+8=");
/// assert_eq!(text.to_bytes(), [0xff, 0xef]);
/// assert!(Base64Text::parse("?".to_owned()).is_none());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Base64Text(String);

impl Base64Text {
    /// Accepts either alphabet, with padding or without; `None` if the text is not base64.
    pub fn parse(text: String) -> Option<Self> {
        if is_canonical(text.as_bytes()) {
            return Some(Self(text));
        }
        let engine = if text.contains(['-', '_']) {
            FROM_URL_SAFE
        } else {
            FROM_STANDARD
        };
        engine
            .decode(&text)
            .ok()
            .map(|bytes| Self::from_bytes(&bytes))
    }

    /// Encodes bytes.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self(FROM_STANDARD.encode(bytes))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Takes the text.
    pub fn into_string(self) -> String {
        self.0
    }

    /// Decodes the bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Always decodes: the constructors have checked the text.
        FROM_STANDARD.decode(&self.0).unwrap_or_default()
    }

    /// Number of bytes.
    pub fn byte_len(&self) -> usize {
        let padding = self
            .0
            .bytes()
            .rev()
            .take_while(|byte| *byte == b'=')
            .count();
        (self.0.len() / 4 * 3).saturating_sub(padding)
    }
}

/// Returns true if the text is already what this module writes, so that it needs no copy.
fn is_canonical(text: &[u8]) -> bool {
    let digits = match text {
        [digits @ .., b'=', b'='] | [digits @ .., b'='] => digits,
        digits => digits,
    };
    let unused_bits = match (text.len() % 4, text.len() - digits.len()) {
        (0, 0) => 0,
        (0, 1) => 0b11,
        (0, 2) => 0b1111,
        _ => return false,
    };
    digits
        .iter()
        .all(|byte| matches!(byte, b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/'))
        && digits
            .last()
            .and_then(|last| {
                STANDARD
                    .as_str()
                    .bytes()
                    .zip(0_u8..)
                    .find(|(b, _)| b == last)
            })
            .is_none_or(|(_, value)| value & unused_bits == 0)
}

impl fmt::Debug for Base64Text {
    /// Shows the size only: user content must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<{} bytes of base64>", self.0.len())
    }
}

impl Serialize for Base64Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}
