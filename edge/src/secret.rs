//! Words that must not be seen: tokens, passphrases, keys.
//!
//! The type has no way to print what it holds, and compares without telling how far it got. Nothing
//! that shows a secret may enter, not even its length.

use std::fmt;
use subtle::ConstantTimeEq;

/// A secret in memory. `Debug` and `Display` show `[hidden]`; only [`Secret::expose`] gives the text,
/// so that every place that uses one can be found by that name.
#[derive(Clone, serde::Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the moment in which it is used.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing in it. An empty secret is no secret.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is `other`, in a time that does not depend on where they differ.
    pub fn is(&self, other: &str) -> bool {
        self.0.as_bytes().ct_eq(other.as_bytes()).into()
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.is(&other.0)
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
    fn cannot_be_printed() {
        let secret = Secret::new("s3cret");
        assert_eq!(
            format!("{secret} {secret:?} {:#?}", Some(&secret)),
            "[hidden] [hidden] Some(\n    [hidden],\n)"
        );
        assert_eq!(secret.expose(), "s3cret");
    }

    #[test]
    fn compares_by_content() {
        let secret: Secret = serde_json::from_str("\"s3cret\"").unwrap();
        assert!(secret.is("s3cret"));
        assert_eq!(secret, Secret::from("s3cret"));
        for other in ["", "s3cre", "s3cret ", "S3cret"] {
            assert!(!secret.is(other), "{other}");
        }
    }
}
