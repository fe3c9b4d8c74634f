//! What must never be printed: secrets and tokens. Nothing else may hold one in a plain string for
//! longer than it takes to send it.

use std::fmt;

/// A secret or a token. It cannot be printed by accident.
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
    /// Takes a secret in.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().into())
    }

    /// The secret itself. Whoever calls this answers for where it goes.
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
