//! Detects credentials in the environment for `interzone up`: model API keys and Slack tokens. The secrets
//! stay in the environment.

use super::variable;

/// A model whose API key or base URL is in the environment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DetectedModel {
    provider: &'static str,
    key_env: Option<&'static str>,
    base_url: Option<String>,
}

impl DetectedModel {
    /// Checks OpenAI's variables first, as most servers and tools share them.
    pub(crate) fn detect() -> Option<Self> {
        Self::detect_in(variable)
    }

    fn detect_in(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        for (provider, key, address) in [
            ("openai", "OPENAI_API_KEY", "OPENAI_BASE_URL"),
            ("anthropic", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
        ] {
            let key_env = variable(key).map(|_| key);
            let base_url = variable(address);
            if key_env.is_some() || base_url.is_some() {
                return Some(Self {
                    provider,
                    key_env,
                    base_url,
                });
            }
        }
        None
    }

    /// Default model; None for a custom base URL, where only the server knows its models.
    pub(crate) fn default_model(&self) -> Option<&'static str> {
        match (self.provider, &self.base_url) {
            ("openai", None) => Some("gpt-4.1-mini"),
            ("anthropic", None) => Some("claude-sonnet-4-5"),
            _ => None,
        }
    }

    /// Returns the `[[agents]]` entry for this model.
    pub(crate) fn to_toml(&self, model: &str) -> String {
        let line = |key: &str, value: &str| format!("{key} = {}\n", toml::Value::from(value));
        let mut text = "\n[[agents]]\nid = \"llm\"\nkind = \"llm\"\n".to_owned();
        text.push_str(&line("provider", self.provider));
        text.push_str(&line("model", model));
        for (key, value) in [
            ("key_env", self.key_env),
            ("base_url", self.base_url.as_deref()),
        ] {
            text.extend(value.map(|value| line(key, value)));
        }
        text
    }
}

/// A Slack app whose tokens are in the environment, by event transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DetectedSlack {
    /// Socket Mode: needs no public URL.
    Socket,
    /// Events API: Slack must be able to reach us.
    Events,
}

/// A Slack variable that is set without the second one it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IncompleteSlackEnv(pub(crate) &'static str);

impl IncompleteSlackEnv {
    /// Returns the variables that are missing.
    pub(crate) fn missing(self) -> &'static str {
        match self.0 {
            BOT_TOKEN_VAR => "SLACK_APP_TOKEN or SLACK_SIGNING_SECRET",
            _ => BOT_TOKEN_VAR,
        }
    }
}

const BOT_TOKEN_VAR: &str = "SLACK_BOT_TOKEN";
const APP_TOKEN_VAR: &str = "SLACK_APP_TOKEN";
const SIGNING_SECRET_VAR: &str = "SLACK_SIGNING_SECRET";

impl DetectedSlack {
    /// Checks the environment. Needs the bot token, and either the app token or the signing secret.
    ///
    /// # Errors
    /// Only one of the variables is set.
    pub(crate) fn detect() -> Result<Option<Self>, IncompleteSlackEnv> {
        Self::detect_in(variable)
    }

    fn detect_in(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, IncompleteSlackEnv> {
        let is_set = |name| variable(name).is_some();
        match (
            is_set(BOT_TOKEN_VAR),
            is_set(APP_TOKEN_VAR),
            is_set(SIGNING_SECRET_VAR),
        ) {
            (true, true, _) => Ok(Some(Self::Socket)),
            (true, false, true) => Ok(Some(Self::Events)),
            (true, false, false) => Err(IncompleteSlackEnv(BOT_TOKEN_VAR)),
            (false, true, _) => Err(IncompleteSlackEnv(APP_TOKEN_VAR)),
            (false, false, true) => Err(IncompleteSlackEnv(SIGNING_SECRET_VAR)),
            (false, false, false) => Ok(None),
        }
    }

    /// Returns the `[slack]` settings.
    pub(crate) fn to_toml(self) -> String {
        let more = match self {
            Self::Socket => {
                format!("slack.mode = \"socket\"\nslack.app_token_env = \"{APP_TOKEN_VAR}\"\n")
            }
            Self::Events => format!("slack.signing_secret_env = \"{SIGNING_SECRET_VAR}\"\n"),
        };
        format!("slack.bot_token_env = \"{BOT_TOKEN_VAR}\"\n{more}")
    }
}

#[cfg(test)]
mod tests {
    use super::{DetectedModel, DetectedSlack, IncompleteSlackEnv};

    #[test]
    fn model_is_detected_by_key_or_base_url() {
        let found = |variables: &[(&str, &str)]| {
            DetectedModel::detect_in(|name| {
                let found = variables.iter().find(|(variable, _)| *variable == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(found(&[]), None);
        let claude = found(&[("ANTHROPIC_API_KEY", "hunter2")]).unwrap();
        assert!(
            claude
                .default_model()
                .is_some_and(|model| model.starts_with("claude"))
        );
        let text = claude.to_toml("a \"model\"");
        assert!(text.contains("provider = \"anthropic\""), "{text}");
        assert!(text.contains("key_env = \"ANTHROPIC_API_KEY\""), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.parse::<toml::Table>().is_ok(), "{text}");
        let local = found(&[
            ("ANTHROPIC_API_KEY", "k"),
            ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1"),
        ]);
        let local = local.unwrap();
        assert_eq!(local.default_model(), None);
        let text = local.to_toml("m");
        assert!(
            text.contains("provider = \"openai\"") && !text.contains("key_env"),
            "{text}"
        );
    }

    #[test]
    fn slack_needs_two_variables() {
        let found = |there: &[&str]| {
            DetectedSlack::detect_in(|name| there.contains(&name).then(|| "hunter2".to_owned()))
        };
        let (bot, app, signing) = ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET");
        assert_eq!(found(&[]), Ok(None));
        assert_eq!(found(&[bot]), Err(IncompleteSlackEnv(bot)));
        assert_eq!(found(&[app]), Err(IncompleteSlackEnv(app)));
        assert_eq!(found(&[signing]), Err(IncompleteSlackEnv(signing)));
        assert_eq!(found(&[bot, signing]), Ok(Some(DetectedSlack::Events)));
        assert_eq!(found(&[bot, app]), Ok(Some(DetectedSlack::Socket)));
        assert_eq!(found(&[bot, app, signing]), Ok(Some(DetectedSlack::Socket)));
        for around in [DetectedSlack::Events, DetectedSlack::Socket] {
            let text = around.to_toml();
            assert!(
                text.parse::<toml::Table>().is_ok() && !text.contains("hunter2"),
                "{text}"
            );
        }
    }
}
