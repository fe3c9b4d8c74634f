//! Options of an LLM agent: provider, model, limits and timeouts.

use crate::files::{FileReader, FileRules, InputRules};
use interzone_edge::Secret;
use interzone_edge::tls::TrustRoots;
use interzone_hub::{AgentProfile, Skill};
use interzone_protocol::vocab::AgentId;
use std::sync::Arc;
use std::time::Duration;
use url::{Host, Url};

/// API and location of a model.
#[derive(Clone)]
#[non_exhaustive]
pub enum LlmProvider {
    /// OpenAI chat completions: OpenAI itself, vLLM, llama.cpp, Ollama and most others.
    OpenAi {
        /// Base URL without `/chat/completions`, such as `https://api.openai.com/v1`.
        base_url: Url,
        /// The key, if one is needed.
        key: Option<Secret>,
        /// Send PDF files unchanged. Most servers other than OpenAI's own do not accept them.
        native_files: bool,
        /// The model accepts images.
        images: bool,
    },
    /// Anthropic Messages API.
    Anthropic {
        /// Base URL without `/v1/messages`, such as `https://api.anthropic.com`.
        base_url: Url,
        /// The key.
        key: Option<Secret>,
    },
    /// Amazon Bedrock Converse API.
    #[cfg(feature = "aws")]
    Bedrock {
        /// The region, such as `eu-central-1`.
        region: String,
        /// Endpoint that replaces the region's default.
        endpoint: Option<Url>,
        /// Credentials of the requests.
        credentials: super::BedrockCredentials,
    },
}

/// Options of an LLM agent.
#[derive(Clone)]
pub struct LlmOptions {
    /// The agent's id.
    pub id: AgentId,
    /// Display name.
    pub name: String,
    /// Description shown to users.
    pub description: String,
    /// Advertised skills.
    pub skills: Vec<Skill>,
    /// Further details of its public description.
    pub profile: AgentProfile,
    /// API and location of the model.
    pub provider: LlmProvider,
    /// The model's name at the provider.
    pub model: String,
    /// System prompt.
    pub system: Option<String>,
    /// Maximum number of tokens of an answer.
    pub max_tokens: u32,
    /// Sampling temperature; the provider's default if absent.
    pub temperature: Option<f32>,
    /// Connection timeout.
    pub connect_timeout: Duration,
    /// Maximum time until the first token.
    pub first_token_timeout: Duration,
    /// Maximum pause within an answer.
    pub idle_timeout: Duration,
    /// Time limit of a turn.
    pub timeout: Duration,
    /// Maximum number of retries of a request.
    pub retries: u32,
    /// Maximum number of concurrent runs.
    pub concurrency: usize,
    /// Maximum number of tool rounds before the model must answer.
    pub tool_rounds: u32,
    /// Maximum size of an answer's text, in bytes.
    pub text_bytes: usize,
    /// Maximum number of characters of history that the model is given; the newest messages take precedence.
    pub history_chars: usize,
    /// Rules for generated files.
    pub files: Arc<FileRules>,
    /// Reader of attached files.
    pub reader: FileReader,
    /// Limits for attached files.
    pub input: InputRules,
    /// Trusted TLS certificates.
    pub trust: TrustRoots,
}

impl LlmOptions {
    /// Default options for a model.
    pub fn new(
        id: AgentId,
        provider: LlmProvider,
        model: impl Into<String>,
        reader: FileReader,
    ) -> Self {
        let name = id.to_string();
        Self {
            id,
            description: "Answers with a language model.".to_owned(),
            name,
            skills: Vec::new(),
            profile: AgentProfile::default(),
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
            trust: TrustRoots::system(),
        }
    }
}

/// Configuration errors of an LLM agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LlmError {
    /// The model name is empty.
    #[error("no model name is configured: set `model`")]
    NoModel,
    /// The URL is invalid.
    #[error("`{url}` is not a valid model URL: it must begin with https:// and contain a host")]
    InvalidUrl {
        /// The address.
        url: String,
    },
    /// The URL is unencrypted and not on the loopback interface.
    #[error("`{url}` is not encrypted: use https://, or http:// with a loopback address")]
    Unencrypted {
        /// The address.
        url: String,
    },
    /// The key contains invalid characters.
    #[error("the key contains characters that cannot be sent: check it for line breaks")]
    InvalidKey,
    /// The HTTP client could not be created.
    #[error("cannot create the HTTP client for the model: {0}")]
    Client(#[source] reqwest::Error),
}

/// Validates a base URL and appends `path`. URLs with credentials, a query or a fragment are rejected.
pub(super) fn endpoint_url(base: &Url, path: &[&str]) -> Result<Url, LlmError> {
    let redacted = || {
        let mut redacted = base.clone();
        // Credentials must not be shown.
        let _ = redacted.set_password(None);
        let _ = redacted.set_username("");
        redacted.set_query(None);
        redacted.to_string()
    };
    let local = match base.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => return Err(LlmError::InvalidUrl { url: redacted() }),
    };
    match base.scheme() {
        "https" => {}
        "http" if local => {}
        "http" => return Err(LlmError::Unencrypted { url: redacted() }),
        _ => return Err(LlmError::InvalidUrl { url: redacted() }),
    }
    let has_credentials = !base.username().is_empty() || base.password().is_some();
    if has_credentials || base.query().is_some() || base.fragment().is_some() {
        return Err(LlmError::InvalidUrl { url: redacted() });
    }
    let mut url = base.clone();
    match url.path_segments_mut() {
        Ok(mut segments) => {
            segments.pop_if_empty().extend(path);
        }
        Err(()) => return Err(LlmError::InvalidUrl { url: redacted() }),
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_url_must_be_https_or_loopback() {
        for (base, expected) in [
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
            let url = endpoint_url(&base.parse().unwrap(), &["chat", "x"]).unwrap();
            assert_eq!(url.as_str(), expected);
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
            let error = endpoint_url(&base.parse().unwrap(), &[])
                .unwrap_err()
                .to_string();
            assert!(
                !error.contains("pass@") && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
