//! `kind = "llm"`: provider, model, credentials and timeouts.

use super::Result;
use crate::config::section::{SecretRef, Section};
use crate::config::url::secure_url;
use std::fs;
use std::time::Duration;
use url::Url;

/// Size limit of a system prompt file.
const MAX_SYSTEM_PROMPT_SIZE: u64 = 256 * 1024;

/// A language model.
#[derive(Debug)]
pub(crate) struct LlmConfig {
    pub(crate) provider: ProviderConfig,
    pub(crate) model: String,
    pub(crate) key: Option<SecretRef>,
    pub(crate) system_prompt: Option<String>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) temperature: Option<f32>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) first_token_timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retries: Option<u32>,
}

/// Provider of a model, and its address.
#[derive(Debug)]
pub(crate) enum ProviderConfig {
    OpenAi {
        base_url: Url,
        native_files: bool,
        images: bool,
    },
    Anthropic {
        base_url: Url,
    },
    Bedrock {
        region: String,
        endpoint: Option<Url>,
    },
}

impl LlmConfig {
    pub(super) fn read(section: &mut Section<'_>) -> Result<Self> {
        let provider = ProviderConfig::read(section)?;
        let Some(model) = section.text("model")? else {
            return Err(section.missing("model", "set the provider's model name"));
        };
        if model.value.trim().is_empty() {
            return Err(model.refuse("set the provider's model name"));
        }
        Ok(Self {
            provider,
            model: model.value,
            key: section.secret_ref("key", "key_file", "key_env")?,
            system_prompt: system_prompt(section)?,
            max_tokens: section.number("max_tokens", 1)?,
            temperature: section.fraction("temperature", 2.0)?,
            connect_timeout: section.duration("connect_timeout")?,
            first_token_timeout: section.duration("first_token_timeout")?,
            idle_timeout: section.duration("idle_timeout")?,
            timeout: section.duration("timeout")?,
            retries: section.number("retries", 0)?,
        })
    }
}

impl ProviderConfig {
    fn read(section: &mut Section<'_>) -> Result<Self> {
        const PROVIDERS: &str = "write \"openai\" (also for compatible servers), \"anthropic\" or \
                                 \"bedrock\"";
        let Some(provider) = section.text("provider")? else {
            return Err(section.missing("provider", PROVIDERS));
        };
        match provider.value.as_str() {
            "openai" => Ok(Self::OpenAi {
                base_url: url(section, "base_url", Some("https://api.openai.com/v1"))?
                    .ok_or_else(|| section.missing("base_url", "set the provider's URL"))?,
                native_files: section.flag("native_files")?.unwrap_or(false),
                images: section.flag("images")?.unwrap_or(true),
            }),
            "anthropic" => Ok(Self::Anthropic {
                base_url: url(section, "base_url", Some("https://api.anthropic.com"))?
                    .ok_or_else(|| section.missing("base_url", "set the provider's URL"))?,
            }),
            "bedrock" => {
                let endpoint = url(section, "endpoint", None)?;
                let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                match section.text("region")? {
                    Some(region) if !region.value.is_empty() && region.value.chars().all(plain) => {
                        Ok(Self::Bedrock {
                            region: region.value,
                            endpoint,
                        })
                    }
                    Some(region) => {
                        Err(region.refuse("write an AWS region, as in \"eu-central-1\""))
                    }
                    None => Err(section.missing("region", "set the model's AWS region")),
                }
            }
            _ => Err(provider.refuse(PROVIDERS)),
        }
    }
}

fn url(section: &mut Section<'_>, key: &'static str, default: Option<&str>) -> Result<Option<Url>> {
    let Some(found) = section.text(key)? else {
        return Ok(default.and_then(|usual| Url::parse(usual).ok()));
    };
    let url = secure_url(&found, "a model")?;
    let bare = url.username().is_empty() && url.password().is_none();
    if !bare || url.query().is_some() || url.fragment().is_some() {
        return Err(found.refuse("leave out user, query and fragment"));
    }
    Ok(Some(url))
}

/// Reads the system prompt, inline or from a file.
fn system_prompt(section: &mut Section<'_>) -> Result<Option<String>> {
    let inline = section.text("system")?;
    let Some(file) = section.path_value("system_file")? else {
        return Ok(inline.map(|found| found.value));
    };
    if inline.is_some() {
        return Err(file.refuse("`system` is set too; keep one of the two"));
    }
    let path = &file.value;
    let text = fs::metadata(path).and_then(|meta| {
        if meta.len() > MAX_SYSTEM_PROMPT_SIZE {
            return Err(std::io::Error::other("too large for a system prompt"));
        }
        fs::read_to_string(path)
    });
    match text {
        Ok(text) => Ok(Some(text)),
        Err(error) => Err(file.refuse(format!("{} cannot be read: {error}", path.display()))),
    }
}
