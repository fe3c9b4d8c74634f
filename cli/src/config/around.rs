//! What is around: the model whose key the environment has, and the Slack whose tokens it has. The secrets
//! themselves stay there.

use super::variable;

/// A model whose key, or whose address, is in the environment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ModelAround {
    provider: &'static str,
    key_env: Option<&'static str>,
    base_url: Option<String>,
}

impl ModelAround {
    /// Looks around: OpenAI's variables first, which most servers and tools share.
    pub(crate) fn look() -> Option<Self> {
        Self::among(variable)
    }

    fn among(variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
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

    /// The model to ask for if nobody names one; none where only the server knows what it has.
    pub(crate) fn usual_model(&self) -> Option<&'static str> {
        match (self.provider, &self.base_url) {
            ("openai", None) => Some("gpt-4.1-mini"),
            ("anthropic", None) => Some("claude-sonnet-4-5"),
            _ => None,
        }
    }

    /// An agent that is this model, as a configuration names it.
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

/// A Slack whose tokens are in the environment, by how its events come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlackAround {
    /// We open a socket, so nobody has to reach us.
    Socket,
    /// Slack calls us, so it must be able to.
    Events,
}

/// A variable that is there without the one that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Alone(pub(crate) &'static str);

impl Alone {
    /// What would have to be there too.
    pub(crate) fn lacks(self) -> &'static str {
        match self.0 {
            BOT => "SLACK_APP_TOKEN or SLACK_SIGNING_SECRET",
            _ => BOT,
        }
    }
}

const BOT: &str = "SLACK_BOT_TOKEN";
const APP: &str = "SLACK_APP_TOKEN";
const SIGNING: &str = "SLACK_SIGNING_SECRET";

impl SlackAround {
    /// Looks around. Two variables are needed: the bot's token, and what proves or brings events.
    ///
    /// # Errors
    /// There is one alone.
    pub(crate) fn look() -> Result<Option<Self>, Alone> {
        Self::among(variable)
    }

    fn among(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, Alone> {
        let there = |name| variable(name).is_some();
        match (there(BOT), there(APP), there(SIGNING)) {
            (true, true, _) => Ok(Some(Self::Socket)),
            (true, false, true) => Ok(Some(Self::Events)),
            (true, false, false) => Err(Alone(BOT)),
            (false, true, _) => Err(Alone(APP)),
            (false, false, true) => Err(Alone(SIGNING)),
            (false, false, false) => Ok(None),
        }
    }

    /// What a configuration says of it.
    pub(crate) fn to_toml(self) -> String {
        let more = match self {
            Self::Socket => format!("slack.mode = \"socket\"\nslack.app_token_env = \"{APP}\"\n"),
            Self::Events => format!("slack.signing_secret_env = \"{SIGNING}\"\n"),
        };
        format!("slack.bot_token_env = \"{BOT}\"\n{more}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Alone, ModelAround, SlackAround};

    #[test]
    fn the_model_is_known_by_its_key_or_its_address() {
        let found = |there: &[(&str, &str)]| {
            ModelAround::among(|name| {
                let found = there.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(found(&[]), None);
        let claude = found(&[("ANTHROPIC_API_KEY", "hunter2")]).unwrap();
        assert!(
            claude
                .usual_model()
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
        assert_eq!(local.usual_model(), None);
        let text = local.to_toml("m");
        assert!(
            text.contains("provider = \"openai\"") && !text.contains("key_env"),
            "{text}"
        );
    }

    #[test]
    fn slack_takes_two_variables() {
        let found = |there: &[&str]| {
            SlackAround::among(|name| there.contains(&name).then(|| "hunter2".to_owned()))
        };
        let (bot, app, signing) = ("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET");
        assert_eq!(found(&[]), Ok(None));
        assert_eq!(found(&[bot]), Err(Alone(bot)));
        assert_eq!(found(&[app]), Err(Alone(app)));
        assert_eq!(found(&[signing]), Err(Alone(signing)));
        assert_eq!(found(&[bot, signing]), Ok(Some(SlackAround::Events)));
        assert_eq!(found(&[bot, app]), Ok(Some(SlackAround::Socket)));
        assert_eq!(found(&[bot, app, signing]), Ok(Some(SlackAround::Socket)));
        for around in [SlackAround::Events, SlackAround::Socket] {
            let text = around.to_toml();
            assert!(
                text.parse::<toml::Table>().is_ok() && !text.contains("hunter2"),
                "{text}"
            );
        }
    }
}
