//! Secret strings: tokens, passphrases, keys.
//!
//! The type cannot be printed, not even its length, and compares in constant time.

use std::fmt;
use subtle::ConstantTimeEq;

/// A secret in memory. `Debug` and `Display` show `[hidden]`; only [`Secret::expose`] returns the text,
/// so that every use can be found by that name.
#[derive(Clone, Default, serde::Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text. Call it only where the text is used.
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
        Self(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
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
