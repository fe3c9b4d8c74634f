//! `kind = "llm"`: which model, where it is, and how patient we are with it.

use super::Result;
use crate::config::section::{Elsewhere, Section};
use crate::config::url::secure_url;
use std::fs;
use std::time::Duration;
use url::Url;

/// The largest system prompt: a page or two, not a book.
const MOST_SYSTEM: u64 = 256 * 1024;

/// A language model.
#[derive(Debug)]
pub(crate) struct LlmConfig {
    pub(crate) provider: ProviderConfig,
    pub(crate) model: String,
    pub(crate) key: Option<Elsewhere>,
    pub(crate) system: Option<String>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) temperature: Option<f32>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) first_token_timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retries: Option<u32>,
}

/// Where a model is, and how it is spoken to.
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
            return Err(section.missing("model", "name the model as its provider does"));
        };
        if model.value.trim().is_empty() {
            return Err(model.refuse("name the model as its provider does"));
        }
        Ok(Self {
            provider,
            model: model.value,
            key: section.secret_elsewhere("key", "key_file", "key_env")?,
            system: system(section)?,
            max_tokens: section.number("max_tokens", 1)?,
            temperature: section.fraction("temperature", 2.0)?,
            connect_timeout: section.time("connect_timeout")?,
            first_token_timeout: section.time("first_token_timeout")?,
            idle_timeout: section.time("idle_timeout")?,
            timeout: section.time("timeout")?,
            retries: section.number("retries", 0)?,
        })
    }
}

impl ProviderConfig {
    fn read(section: &mut Section<'_>) -> Result<Self> {
        const PROVIDERS: &str = "write \"openai\" (which most servers speak), \"anthropic\" or \
                                 \"bedrock\"";
        let Some(provider) = section.text("provider")? else {
            return Err(section.missing("provider", PROVIDERS));
        };
        match provider.value.as_str() {
            "openai" => Ok(Self::OpenAi {
                base_url: url(section, "base_url", Some("https://api.openai.com/v1"))?
                    .ok_or_else(|| section.missing("base_url", "say where the model is"))?,
                native_files: section.flag("native_files")?.unwrap_or(false),
                images: section.flag("images")?.unwrap_or(true),
            }),
            "anthropic" => Ok(Self::Anthropic {
                base_url: url(section, "base_url", Some("https://api.anthropic.com"))?
                    .ok_or_else(|| section.missing("base_url", "say where the model is"))?,
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
                        Err(region.refuse("write a region of AWS, as in \"eu-central-1\""))
                    }
                    None => Err(section.missing("region", "say in which region the model is")),
                }
            }
            _ => Err(provider.refuse(PROVIDERS)),
        }
    }
}

fn url(section: &mut Section<'_>, key: &'static str, usual: Option<&str>) -> Result<Option<Url>> {
    let Some(found) = section.text(key)? else {
        return Ok(usual.and_then(|usual| Url::parse(usual).ok()));
    };
    let url = secure_url(&found, "a model")?;
    let bare = url.username().is_empty() && url.password().is_none();
    if !bare || url.query().is_some() || url.fragment().is_some() {
        return Err(found.refuse("leave out user, query and fragment"));
    }
    Ok(Some(url))
}

/// What the model is told first: here, or in a file.
fn system(section: &mut Section<'_>) -> Result<Option<String>> {
    let here = section.text("system")?;
    let Some(named) = section.named_path("system_file")? else {
        return Ok(here.map(|found| found.value));
    };
    if here.is_some() {
        return Err(named.refuse("`system` is set too; keep one of the two"));
    }
    let path = &named.value;
    let text = fs::metadata(path).and_then(|meta| {
        if meta.len() > MOST_SYSTEM {
            return Err(std::io::Error::other("it is too large for a system prompt"));
        }
        fs::read_to_string(path)
    });
    match text {
        Ok(text) => Ok(Some(text)),
        Err(error) => Err(named.refuse(format!("{} cannot be read: {error}", path.display()))),
    }
}
