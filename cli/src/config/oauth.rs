//! `[oauth]`: the issuer of accepted tokens, external or built-in.

use super::error::ConfigError;
use super::section::{ConfigValue, Section};
use super::url::secure_url;
use super::zone::ExecutionConfig;
use interzone_edge::Secret;
use std::time::Duration;

type Result<T> = std::result::Result<T, ConfigError>;

/// Accepted tokens.
#[derive(Debug)]
pub(crate) struct OAuthConfig {
    /// Issuer (`iss`) of the tokens; None means the built-in issuer.
    pub(crate) issuer: Option<String>,
    /// URL of the issuer's keys; default: from its metadata.
    pub(crate) jwks_url: Option<String>,
    /// Accepted audiences. Never empty.
    pub(crate) audience: Vec<String>,
    pub(crate) leeway: Duration,
    pub(crate) introspection: Option<IntrospectionConfig>,
}

/// Token introspection for opaque tokens.
#[derive(Debug)]
pub(crate) struct IntrospectionConfig {
    pub(crate) url: String,
    pub(crate) client_id: String,
    pub(crate) secret: Secret,
}

impl OAuthConfig {
    pub(super) fn read(mut section: Section<'_>, execution: &ExecutionConfig) -> Result<Self> {
        let issuer = checked_url(section.text("issuer")?)?;
        if issuer.is_none() && execution.public_url.path() != "/" {
            return Err(section.missing(
                "issuer",
                "the built-in issuer needs an `execution.public_url` without a path",
            ));
        }
        let jwks_url = section.text("jwks_url")?;
        if let (None, Some(url)) = (&issuer, &jwks_url) {
            return Err(
                url.refuse("requires `oauth.issuer`; the built-in issuer uses its own keys")
            );
        }
        let audience: Vec<String> = section
            .texts("audience")?
            .into_iter()
            .map(|found| found.value)
            .collect();
        let audience = match (&issuer, audience.is_empty()) {
            (_, false) => audience,
            // Otherwise a token issued for any other service would be accepted here.
            (Some(_), true) => {
                return Err(section.missing("audience", "set the audience of the issuer's tokens"));
            }
            (None, true) => {
                vec![
                    execution
                        .public_url
                        .as_str()
                        .trim_end_matches('/')
                        .to_owned(),
                ]
            }
        };
        let Some(leeway) = section.duration("leeway")? else {
            return Err(section.missing("leeway", super::zone::DEFAULT_MISSING));
        };
        let introspection = match section.optional_section("introspection")? {
            Some(inner) if issuer.is_none() => {
                return Err(inner.refuse("requires `oauth.issuer`"));
            }
            Some(inner) => Some(IntrospectionConfig::read(inner)?),
            None => None,
        };
        let config = Self {
            issuer,
            jwks_url: checked_url(jwks_url)?,
            audience,
            leeway,
            introspection,
        };
        section.finish()?;
        Ok(config)
    }
}

impl IntrospectionConfig {
    fn read(mut section: Section<'_>) -> Result<Self> {
        const CREDENTIALS_NEEDED: &str = "the issuer requires client credentials for introspection";
        let url = checked_url(section.text("url")?)?;
        let client_id = section.text("client_id")?;
        let secret = section.secret("secret", "secret_file")?;
        let config = Self {
            url: url.ok_or_else(|| section.missing("url", "set the introspection endpoint"))?,
            client_id: match client_id {
                Some(found) => found.value,
                None => return Err(section.missing("client_id", CREDENTIALS_NEEDED)),
            },
            secret: secret.ok_or_else(|| section.missing("secret", CREDENTIALS_NEEDED))?,
        };
        section.finish()?;
        Ok(config)
    }
}

/// Checks a URL of the issuer and returns it unchanged: it is compared with tokens byte by byte.
fn checked_url(found: Option<ConfigValue<String>>) -> Result<Option<String>> {
    let Some(found) = found else { return Ok(None) };
    secure_url(&found, "an issuer")?;
    Ok(Some(found.value))
}
