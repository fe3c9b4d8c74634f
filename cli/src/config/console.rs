//! `[console]`: enables the console and lists the operators who may sign in.

use super::error::ConfigError;
use super::section::Section;
use super::url::secure_url;
use interzone_edge::Secret;
use url::Url;

type Result<T> = std::result::Result<T, ConfigError>;

/// Settings of the console.
#[derive(Debug)]
pub(crate) struct ConsoleConfig {
    pub(crate) enabled: bool,
    /// Principals that may sign in. With an external issuer, an empty list admits every token with the scope.
    pub(crate) operators: Vec<String>,
    /// Sign-in settings for an external issuer.
    pub(crate) issuer: Option<ConsoleIssuer>,
}

/// OAuth2 client settings for signing in at an external issuer.
#[derive(Debug)]
pub(crate) struct ConsoleIssuer {
    /// Authorization and token endpoint; by default from the issuer's metadata.
    pub(crate) urls: Option<(Url, Url)>,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<Secret>,
    pub(crate) scope: Option<String>,
    /// `resource` parameter of the authorization request, if the issuer needs one.
    pub(crate) resource: Option<String>,
}

impl ConsoleConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        const BOTH_URLS: &str = "set both `authorize_url` and `token_url`, or neither";
        const CLIENT_ID_NEEDED: &str = "the issuer identifies the console by it";
        let enabled = section.flag("enabled")?.unwrap_or(true);
        let operators = section.texts("operators")?;
        let authorize = section.text("authorize_url")?;
        let token = section.text("token_url")?;
        let client_id = section.text("client_id")?;
        let client_secret = section.secret("client_secret", "client_secret_file")?;
        let scope = section.text("scope")?.map(|found| found.value);
        let resource = section.text("resource")?.map(|found| found.value);
        let urls = match (authorize, token) {
            (None, None) => None,
            (Some(authorize), Some(token)) => Some((
                secure_url(&authorize, "an issuer")?,
                secure_url(&token, "an issuer")?,
            )),
            (None, _) => return Err(section.missing("authorize_url", BOTH_URLS)),
            (_, None) => return Err(section.missing("token_url", BOTH_URLS)),
        };
        let issuer = match (client_id, &urls) {
            (Some(client), _) => Some(ConsoleIssuer {
                urls,
                client_id: client.value,
                client_secret,
                scope,
                resource,
            }),
            (None, Some(_)) => return Err(section.missing("client_id", CLIENT_ID_NEEDED)),
            (None, None) => None,
        };
        section.finish()?;
        Ok(Self {
            enabled,
            operators: operators.into_iter().map(|found| found.value).collect(),
            issuer,
        })
    }
}
