//! Which model, where it is, and how patient we are with it.

use crate::files::{FileReader, FileRules, InputRules};
use interzone_edge::Secret;
use interzone_edge::tls::Trust;
use interzone_hub::Skill;
use interzone_protocol::vocab::AgentId;
use std::sync::Arc;
use std::time::Duration;
use url::{Host, Url};

/// Where a model is, and how it is spoken to.
#[derive(Clone)]
#[non_exhaustive]
pub enum Provider {
    /// Anything that speaks OpenAI's chat completions: OpenAI itself, vLLM, llama.cpp, Ollama, and most
    /// others.
    OpenAi {
        /// The address up to `/chat/completions`, such as `https://api.openai.com/v1`.
        base_url: Url,
        /// The key, if one is needed.
        key: Option<Secret>,
        /// Whether PDF files may be sent as they are. Most servers other than OpenAI's own take none.
        native_files: bool,
        /// Whether the model takes pictures.
        images: bool,
    },
    /// Anthropic's messages.
    Anthropic {
        /// The address up to `/v1/messages`, such as `https://api.anthropic.com`.
        base_url: Url,
        /// The key.
        key: Option<Secret>,
    },
    /// Converse of Amazon Bedrock.
    #[cfg(feature = "aws")]
    Bedrock {
        /// The region, such as `eu-central-1`.
        region: String,
        /// Another address than the region's own.
        endpoint: Option<Url>,
        /// How requests are proved to be ours.
        credentials: super::BedrockCredentials,
    },
}

/// How a model is used.
#[derive(Clone)]
pub struct LlmOptions {
    /// The agent's id.
    pub id: AgentId,
    /// A name for people.
    pub name: String,
    /// What it does, for people.
    pub description: String,
    /// What it is good at.
    pub skills: Vec<Skill>,
    /// Where the model is.
    pub provider: Provider,
    /// The model's name at the provider.
    pub model: String,
    /// What the model is told before everything else.
    pub system: Option<String>,
    /// How many tokens an answer may have.
    pub max_tokens: u32,
    /// How freely the model speaks; the provider's own default if absent.
    pub temperature: Option<f32>,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// How long the model may take to begin its answer.
    pub first_token_timeout: Duration,
    /// How long it may be silent in the midst of it.
    pub idle_timeout: Duration,
    /// How long a whole turn may take.
    pub timeout: Duration,
    /// How often a request is sent again.
    pub retries: u32,
    /// How many runs it takes at once.
    pub concurrency: usize,
    /// How often the model may call tools before it must answer.
    pub tool_rounds: u32,
    /// How many bytes the text of an answer may have.
    pub text_bytes: usize,
    /// How many characters of earlier messages the model is given; the newest are kept.
    pub history_chars: usize,
    /// Which files may be handed out.
    pub files: Arc<FileRules>,
    /// Reads the files that are attached.
    pub reader: FileReader,
    /// Which files are taken.
    pub input: InputRules,
    /// Whom to believe.
    pub trust: Trust,
}

impl LlmOptions {
    /// The usual settings for a model.
    pub fn new(
        id: AgentId,
        provider: Provider,
        model: impl Into<String>,
        reader: FileReader,
    ) -> Self {
        let name = id.to_string();
        Self {
            id,
            description: "Answers by a language model.".to_owned(),
            name,
            skills: Vec::new(),
            provider,
            model: model.into(),
            system: None,
            max_tokens: 4_096,
            temperature: None,
            connect_timeout: Duration::from_secs(10),
            first_token_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(30),
            timeout: Duration::from_secs(300),
            retries: 3,
            concurrency: 16,
            tool_rounds: 5,
            text_bytes: 1024 * 1024,
            history_chars: 200_000,
            files: Arc::new(FileRules::default()),
            reader,
            input: InputRules::default(),
            trust: Trust::system(),
        }
    }
}

/// Why a model cannot be used as it is configured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LlmError {
    /// It has no name.
    #[error("the model has no name: give `model`")]
    NoModel,
    /// Its address is none.
    #[error("`{url}` is no address of a model: it must begin with https:// and name a host")]
    Address {
        /// The address.
        url: String,
    },
    /// It would be spoken to in clear text over a network.
    #[error("`{url}` is not encrypted: use https://, or http:// with a loopback address")]
    Plain {
        /// The address.
        url: String,
    },
    /// The key cannot be sent.
    #[error("the key holds characters that cannot be sent: look for line breaks in it")]
    Key,
    /// The client could not be set up.
    #[error("the client for the model cannot be set up: {0}")]
    Client(#[source] reqwest::Error),
}

/// An address below `base`, if that may be spoken to. What stands before the host, and a query, are no
/// part of it.
pub(super) fn address(base: &Url, path: &[&str]) -> Result<Url, LlmError> {
    let shown = || {
        let mut shown = base.clone();
        // A password in an address is for nobody's eyes.
        let _ = shown.set_password(None);
        let _ = shown.set_username("");
        shown.set_query(None);
        shown.to_string()
    };
    let local = match base.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => return Err(LlmError::Address { url: shown() }),
    };
    match base.scheme() {
        "https" => {}
        "http" if local => {}
        "http" => return Err(LlmError::Plain { url: shown() }),
        _ => return Err(LlmError::Address { url: shown() }),
    }
    let named = !base.username().is_empty() || base.password().is_some();
    if named || base.query().is_some() || base.fragment().is_some() {
        return Err(LlmError::Address { url: shown() });
    }
    let mut whole = base.clone();
    match whole.path_segments_mut() {
        Ok(mut segments) => {
            segments.pop_if_empty().extend(path);
        }
        Err(()) => return Err(LlmError::Address { url: shown() }),
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_spoken_to_in_secret_or_at_home() {
        for (base, whole) in [
            ("https://api.example/v1", "https://api.example/v1/chat/x"),
            ("https://api.example/v1/", "https://api.example/v1/chat/x"),
            ("https://api.example", "https://api.example/chat/x"),
            (
                "http://127.0.0.1:8080/v1",
                "http://127.0.0.1:8080/v1/chat/x",
            ),
            ("http://[::1]:8080", "http://[::1]:8080/chat/x"),
            (
                "http://localhost:1234/v1",
                "http://localhost:1234/v1/chat/x",
            ),
        ] {
            let found = address(&base.parse().unwrap(), &["chat", "x"]).unwrap();
            assert_eq!(found.as_str(), whole);
        }
        for base in [
            "http://api.example/v1",
            "http://10.0.0.1/v1",
            "http://localhost.example/v1",
            "ftp://api.example",
            "data:text/plain,x",
            "https://name:pass@api.example/v1",
            "https://api.example/v1?key=secret",
        ] {
            let error = address(&base.parse().unwrap(), &[])
                .unwrap_err()
                .to_string();
            assert!(
                !error.contains("pass@") && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
