//! A token of Slack's, which nobody can print. Whose it is, and how long it is good, is not known here.

use http::HeaderValue;
use interzone_edge::Secret;
use serde::{Deserialize, Deserializer};

/// Why a text is no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no token of slack's: copy the whole of it, in one line, from the app's page")]
pub struct InvalidToken;

/// A token of Slack's. It cannot be printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotToken(Secret);

impl BotToken {
    /// The most bytes of one; Slack's have some hundreds at most.
    const LONGEST: usize = 2048;

    /// Checks a token, without the white space around it.
    ///
    /// # Errors
    /// It is empty, too long, or has something else than visible ASCII.
    pub fn new(text: &str) -> Result<Self, InvalidToken> {
        let text = text.trim();
        let fits = (1..=Self::LONGEST).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Self(Secret::new(text))).ok_or(InvalidToken)
    }

    /// The token itself. Whoever calls this answers for where it goes.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// The header that shows it.
    pub(in crate::slack) fn bearer(&self) -> HeaderValue {
        let bearer = format!("Bearer {}", self.0.expose());
        // Visible ASCII is what a header may hold.
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
    fn a_token_is_one_visible_word_that_nobody_sees() {
        let token = BotToken::new(" xoxb-1-secret\n").unwrap();
        assert_eq!(token.expose(), "xoxb-1-secret");
        assert!(!format!("{token:?} {:?}", token.bearer()).contains("secret"));
        let long = "x".repeat(2049);
        for bad in ["", " \n", "xoxb 1", "xoxb\r\nHost: a", "xoxb-é", &long] {
            assert_eq!(BotToken::new(bad), Err(InvalidToken));
        }
    }
}
