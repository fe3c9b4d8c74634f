//! The model that is around: whose key the environment has. The key itself stays there.

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

#[cfg(test)]
mod tests {
    use super::ModelAround;

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
        let text = claude.to_toml("a \"model\"");
        assert!(text.contains("provider = \"anthropic\""), "{text}");
        assert!(text.contains("key_env = \"ANTHROPIC_API_KEY\""), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.parse::<toml::Table>().is_ok(), "{text}");
        let local = found(&[
            ("ANTHROPIC_API_KEY", "k"),
            ("OPENAI_BASE_URL", "http://127.0.0.1:1/v1"),
        ]);
        let text = local.unwrap().to_toml("m");
        assert!(
            text.contains("provider = \"openai\"") && !text.contains("key_env"),
            "{text}"
        );
    }
}
