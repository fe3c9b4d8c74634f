//! Wrapper for secrets and tokens that keeps them out of logs.

use std::fmt;

/// A secret or a token. `Debug` and `Display` print a placeholder.
///
/// ```
/// use interzone_client::Secret;
///
/// let secret = Secret::new("correct horse");
/// assert_eq!(format!("{secret} {secret:?}"), "[hidden] [hidden]");
/// assert_eq!(secret.expose(), "correct horse");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(std::sync::Arc<str>);

impl Secret {
    /// Wraps a secret.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().into())
    }

    /// Returns the secret. The caller must not log it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
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

impl<'de> serde::Deserialize<'de> for Secret {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}
