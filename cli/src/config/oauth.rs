//! Who vouches for callers: an issuer outside, or the built-in one.

use super::error::ConfigError;
use super::section::{Found, Section};
use super::url::secure_url;
use super::zone::ExecutionConfig;
use interzone_edge::Secret;
use std::time::Duration;

type Result<T> = std::result::Result<T, ConfigError>;

/// Whose tokens are taken.
#[derive(Debug)]
pub(crate) struct OAuthConfig {
    /// The issuer as tokens name it; none means the built-in one.
    pub(crate) issuer: Option<String>,
    /// Where its keys are; if not said, its metadata tells.
    pub(crate) jwks_url: Option<String>,
    /// Whom a token must be meant for. At least one.
    pub(crate) audience: Vec<String>,
    pub(crate) leeway: Duration,
    pub(crate) introspection: Option<IntrospectionConfig>,
}

/// Where opaque tokens are asked about.
#[derive(Debug)]
pub(crate) struct IntrospectionConfig {
    pub(crate) url: String,
    pub(crate) client_id: String,
    pub(crate) secret: Secret,
}

impl OAuthConfig {
    pub(super) fn read(mut section: Section<'_>, execution: &ExecutionConfig) -> Result<Self> {
        let issuer = address(section.text("issuer")?)?;
        if issuer.is_none() && execution.public_url.path() != "/" {
            return Err(section.missing(
                "issuer",
                "the built-in issuer needs an `execution.public_url` without a path",
            ));
        }
        let jwks_url = section.text("jwks_url")?;
        if let (None, Some(url)) = (&issuer, &jwks_url) {
            return Err(url.refuse("it needs `oauth.issuer`; the built-in issuer has its own keys"));
        }
        let audience: Vec<String> = section
            .texts("audience")?
            .into_iter()
            .map(|found| found.value)
            .collect();
        let audience = match (&issuer, audience.is_empty()) {
            (_, false) => audience,
            // Without it, a token that the issuer gave for any other service would open this one.
            (Some(_), true) => {
                return Err(
                    section.missing("audience", "say whom the issuer's tokens are meant for")
                );
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
        let Some(leeway) = section.time("leeway")? else {
            return Err(section.missing("leeway", super::zone::HAS_A_DEFAULT));
        };
        let introspection = match section.optional_section("introspection")? {
            Some(inner) if issuer.is_none() => {
                return Err(inner.refuse("it needs `oauth.issuer`"));
            }
            Some(inner) => Some(IntrospectionConfig::read(inner)?),
            None => None,
        };
        let config = Self {
            issuer,
            jwks_url: address(jwks_url)?,
            audience,
            leeway,
            introspection,
        };
        section.end()?;
        Ok(config)
    }
}

impl IntrospectionConfig {
    fn read(mut section: Section<'_>) -> Result<Self> {
        const PROOF: &str = "the issuer tells nobody about tokens without it";
        let url = address(section.text("url")?)?;
        let client_id = section.text("client_id")?;
        let secret = section.secret("secret", "secret_file")?;
        let config = Self {
            url: url.ok_or_else(|| section.missing("url", "say where tokens are asked about"))?,
            client_id: match client_id {
                Some(found) => found.value,
                None => return Err(section.missing("client_id", PROOF)),
            },
            secret: secret.ok_or_else(|| section.missing("secret", PROOF))?,
        };
        section.end()?;
        Ok(config)
    }
}

/// A URL of the issuer, kept as it was written: tokens are compared with it letter by letter.
fn address(found: Option<Found<String>>) -> Result<Option<String>> {
    let Some(found) = found else { return Ok(None) };
    secure_url(&found, "an issuer")?;
    Ok(Some(found.value))
}
