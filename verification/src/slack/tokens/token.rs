//! Slack token with redacted `Debug` output.

use http::HeaderValue;
use interzone_edge::Secret;
use serde::{Deserialize, Deserializer};

/// Invalid token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid slack token: copy the complete token, in one line, from the app's page")]
pub struct InvalidBotToken;

/// A Slack token. `Debug` redacts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotToken(Secret);

impl BotToken {
    /// Maximum length in bytes; Slack's tokens have a few hundred at most.
    const MAX_LEN: usize = 2048;

    /// Validates a token after trimming whitespace.
    ///
    /// # Errors
    /// The token is empty, too long, or contains characters other than visible ASCII.
    pub fn new(text: &str) -> Result<Self, InvalidBotToken> {
        let text = text.trim();
        let is_valid = (1..=Self::MAX_LEN).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_valid
            .then(|| Self(Secret::new(text)))
            .ok_or(InvalidBotToken)
    }

    /// Returns the token itself. The caller must not log or store it.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// Returns the `Authorization` header value.
    pub(in crate::slack) fn bearer(&self) -> HeaderValue {
        let bearer = format!("Bearer {}", self.0.expose());
        // Visible ASCII is always a valid header value.
        let mut bearer =
            HeaderValue::from_str(&bearer).unwrap_or_else(|_| HeaderValue::from_static("Bearer"));
        bearer.set_sensitive(true);
        bearer
    }
}

impl<'de> Deserialize<'de> for BotToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_trimmed_validated_and_redacted() {
        let token = BotToken::new(" xoxb-1-secret\n").unwrap();
        assert_eq!(token.expose(), "xoxb-1-secret");
        assert!(!format!("{token:?} {:?}", token.bearer()).contains("secret"));
        let long = "x".repeat(2049);
        for bad in ["", " \n", "xoxb 1", "xoxb\r\nHost: a", "xoxb-é", &long] {
            assert_eq!(BotToken::new(bad), Err(InvalidBotToken));
        }
    }
}
