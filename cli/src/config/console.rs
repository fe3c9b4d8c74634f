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
    /// Where people agree, and where a code becomes a token; else the issuer's metadata say so.
    pub(crate) urls: Option<(Url, Url)>,
    pub(crate) client_id: String,
    pub(crate) client_secret: Option<Secret>,
    pub(crate) scope: Option<String>,
    /// Whom the issuer is to make tokens for, if it must be told.
    pub(crate) resource: Option<String>,
}

impl ConsoleConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        const TOGETHER: &str = "`authorize_url` and `token_url` say together where people sign in";
        const NAMELESS: &str = "the issuer knows the console by it";
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
            (None, _) => return Err(section.missing("authorize_url", TOGETHER)),
            (_, None) => return Err(section.missing("token_url", TOGETHER)),
        };
        let issuer = match (client_id, &urls) {
            (Some(client), _) => Some(ConsoleIssuer {
                urls,
                client_id: client.value,
                client_secret,
                scope,
                resource,
            }),
            (None, Some(_)) => return Err(section.missing("client_id", NAMELESS)),
            (None, None) => None,
        };
        section.end()?;
        Ok(Self {
            enabled,
            operators: operators.into_iter().map(|found| found.value).collect(),
            issuer,
        })
    }
}
