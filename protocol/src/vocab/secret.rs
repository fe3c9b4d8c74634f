//! Secret strings: tokens, passphrases, keys.

use serde::{Deserialize, Deserializer};
use std::fmt;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// A secret in memory, cheap to clone. `Debug` and `Display` show `[hidden]`, not even the length; only
/// [`Secret::expose`] returns the text, so that every use can be found by that name. It cannot be serialized, and is
/// compared in constant time.
///
/// ```
/// use interzone_protocol::vocab::Secret;
///
/// let secret = Secret::new("correct horse");
/// assert_eq!(format!("{secret} {secret:?}"), "[hidden] [hidden]");
/// assert_eq!(secret.expose(), "correct horse");
/// ```
#[derive(Clone, Default)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into().into())
    }

    /// Returns the text. Call it only where the text is used; the caller must not log it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns true if the text is empty. An empty secret counts as none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Compares with `other` in constant time.
    pub fn ct_eq(&self, other: &str) -> bool {
        self.0.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.ct_eq(&other.0)
    }
}

impl Eq for Secret {}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_and_display_hide_the_secret() {
        let secret = Secret::new("s3cret");
        assert_eq!(
            format!("{secret} {secret:?} {:#?}", Some(&secret)),
            "[hidden] [hidden] Some(\n    [hidden],\n)"
        );
        assert_eq!(secret.expose(), "s3cret");
    }

    #[test]
    fn comparison_is_by_content() {
        let secret: Secret = serde_json::from_str("\"s3cret\"").unwrap();
        assert!(secret.ct_eq("s3cret"));
        assert_eq!(secret, Secret::from("s3cret"));
        for other in ["", "s3cre", "s3cret ", "S3cret"] {
            assert!(!secret.ct_eq(other), "{other}");
        }
    }
}
