//! The console: whether it is there, and who may sign in to it.

use super::error::ConfigError;
use super::section::Section;
use super::url::secure_url;
use interzone_edge::Secret;
use url::Url;

type Result<T> = std::result::Result<T, ConfigError>;

/// The console.
#[derive(Debug)]
pub(crate) struct ConsoleConfig {
    pub(crate) enabled: bool,
    /// Those who may sign in, as tokens name them; with an issuer outside, none means whoever has the
    /// scope.
    pub(crate) operators: Vec<String>,
    /// The issuer outside, as far as a browser is concerned.
    pub(crate) issuer: Option<ConsoleIssuer>,
}

/// How a person signs in at an issuer outside.
#[derive(Debug)]
pub(crate) struct ConsoleIssuer {
    pub(crate) authorize_url: Url,
    pub(crate) token_url: Url,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<Secret>,
    pub(crate) scope: Option<String>,
}

impl ConsoleConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        const TOGETHER: &str =
            "`authorize_url`, `token_url` and `client_id` say together how people sign in";
        let enabled = section.flag("enabled")?.unwrap_or(true);
        let operators = section.texts("operators")?;
        let authorize = section.text("authorize_url")?;
        let token = section.text("token_url")?;
        let client_id = section.text("client_id")?;
        let client_secret = section.secret("client_secret", "client_secret_file")?;
        let scope = section.text("scope")?.map(|found| found.value);
        let issuer = match (authorize, token, client_id) {
            (None, None, None) => None,
            (Some(authorize), Some(token), Some(client)) => Some(ConsoleIssuer {
                authorize_url: secure_url(&authorize, "an issuer")?,
                token_url: secure_url(&token, "an issuer")?,
                client_id: client.value,
                client_secret,
                scope,
            }),
            (None, ..) => return Err(section.missing("authorize_url", TOGETHER)),
            (_, None, _) => return Err(section.missing("token_url", TOGETHER)),
            (_, _, None) => return Err(section.missing("client_id", TOGETHER)),
        };
        section.end()?;
        Ok(Self {
            enabled,
            operators: operators.into_iter().map(|found| found.value).collect(),
            issuer,
        })
    }
}
