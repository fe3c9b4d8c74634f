//! `[slack]` and `[policy]`: where Slack is and what opens it, and who may ask.

use super::error::ConfigError;
use super::section::{Found, Section};
use super::url::secure_url;
use super::verification::VerificationConfig;
use super::zone::{HAS_A_DEFAULT, number, public_url, time};
use interzone_edge::Secret;
use std::time::Duration;
use url::Url;

type Result<T> = std::result::Result<T, ConfigError>;

/// What ids of Slack look like, for those who wrote something else.
const AN_ID: &str = "write ids as Slack shows them, as in";

/// Where Slack is, and what opens it.
#[derive(Debug)]
pub(crate) struct SlackConfig {
    pub(crate) mode: SlackMode,
    pub(crate) api_url: Url,
    /// Proves that requests are Slack's. Without it, nothing comes in by HTTP.
    pub(crate) signing_secret: Option<Secret>,
    /// The token of the one workspace that did not install the app by our own page.
    pub(crate) bot_token: Option<Secret>,
    /// Opens Socket Mode.
    pub(crate) app_token: Option<Secret>,
    /// For workspaces that install the app by our own page.
    pub(crate) install: Option<InstallConfig>,
    pub(crate) auto_reply_channels: Vec<String>,
    pub(crate) follow_threads: bool,
    /// Whether answers grow while the agent speaks.
    pub(crate) live: bool,
    pub(crate) offer_stop_after: Duration,
}

/// How events come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlackMode {
    /// Slack calls us.
    Events,
    /// We call Slack, and keep the line open.
    Socket,
}

/// How workspaces install the app.
#[derive(Debug)]
pub(crate) struct InstallConfig {
    pub(crate) client_id: String,
    pub(crate) client_secret: Secret,
    /// Seals the tokens that are kept.
    pub(crate) token_key: Secret,
    /// Where Slack sends the browser back to.
    pub(crate) redirect_url: Url,
}

impl SlackConfig {
    pub(super) fn read(mut section: Section<'_>, zone: &VerificationConfig) -> Result<Self> {
        let mode = match section.text("mode")? {
            None => return Err(section.missing("mode", HAS_A_DEFAULT)),
            Some(found) => match found.value.as_str() {
                "events" => SlackMode::Events,
                "socket" => SlackMode::Socket,
                _ => return Err(found.refuse("write \"events\" or \"socket\"")),
            },
        };
        let api_url = match section.text("api_url")? {
            None => return Err(section.missing("api_url", HAS_A_DEFAULT)),
            Some(found) => api_url(&found)?,
        };
        let signing_secret = section.kept_secret(
            "signing_secret",
            "signing_secret_file",
            "signing_secret_env",
        )?;
        let bot_token = section.kept_secret("bot_token", "bot_token_file", "bot_token_env")?;
        let app_token = section.kept_secret("app_token", "app_token_file", "app_token_env")?;
        if mode == SlackMode::Events && signing_secret.is_none() {
            return Err(section.missing(
                "signing_secret_file",
                "what is not signed is refused; Slack shows it under Basic Information, Signing \
                 Secret",
            ));
        }
        if mode == SlackMode::Socket && app_token.is_none() {
            return Err(section.missing(
                "app_token_file",
                "Socket Mode needs an app-level token with connections:write; Slack makes it under \
                 Basic Information, App-Level Tokens",
            ));
        }
        let install = InstallConfig::read(&mut section, zone)?;
        if bot_token.is_none() && install.is_none() {
            return Err(section.missing(
                "bot_token_file",
                "nobody can be answered without; Slack shows it under OAuth & Permissions. An app \
                 that workspaces install themselves needs `client_id` instead",
            ));
        }
        let config = Self {
            mode,
            api_url,
            signing_secret,
            bot_token,
            app_token,
            install,
            auto_reply_channels: ids(&mut section, "auto_reply_channels", false)?,
            follow_threads: section.flag("follow_threads")?.unwrap_or(false),
            live: section.flag("live")?.unwrap_or(true),
            offer_stop_after: time(&mut section, "offer_stop_after")?,
        };
        section.end()?;
        Ok(config)
    }
}

impl InstallConfig {
    fn read(section: &mut Section<'_>, zone: &VerificationConfig) -> Result<Option<Self>> {
        let id = section.text("client_id")?;
        let client_secret =
            section.kept_secret("client_secret", "client_secret_file", "client_secret_env")?;
        let token_key = section.kept_secret("token_key", "token_key_file", "token_key_env")?;
        let redirect = section.text("redirect_url")?;
        let Some(id) = id else {
            if let Some(found) = redirect {
                return Err(
                    found.refuse("only apps with `client_id` are installed by a page of ours")
                );
            }
            return match client_secret.or(token_key) {
                Some(_) => {
                    Err(section.missing("client_id", "the secret is worth nothing without it"))
                }
                None => Ok(None),
            };
        };
        let Some(client_secret) = client_secret else {
            return Err(section.missing(
                "client_secret_file",
                "Slack shows it under Basic Information, beside the client id",
            ));
        };
        let Some(token_key) = token_key else {
            return Err(section.missing(
                "token_key_file",
                "tokens of workspaces are kept sealed; make a key with `openssl rand -base64 32`",
            ));
        };
        let redirect_url = match redirect {
            Some(found) => public_url(&found)?,
            None => {
                let mut url = zone.public_url.clone();
                let path = url.path().trim_end_matches('/').to_owned();
                url.set_path(&format!("{path}/slack/oauth_redirect"));
                url
            }
        };
        Ok(Some(Self {
            client_id: id.value,
            client_secret,
            token_key,
            redirect_url,
        }))
    }
}

/// Who may ask. A list that is empty lets nobody through.
#[derive(Debug)]
pub(crate) struct PolicyConfig {
    pub(crate) teams: Vec<String>,
    pub(crate) channels: Vec<String>,
    pub(crate) users: Vec<String>,
    /// Of one user; 0 is no limit.
    pub(crate) requests_per_minute: u32,
}

impl PolicyConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let config = Self {
            teams: ids(&mut section, "teams", true)?,
            channels: ids(&mut section, "channels", true)?,
            users: ids(&mut section, "users", true)?,
            requests_per_minute: number(&mut section, "requests_per_minute", 0)?,
        };
        section.end()?;
        Ok(config)
    }
}

/// Slack's API, as an address that names of methods are added to.
fn api_url(found: &Found<String>) -> Result<Url> {
    let mut url = secure_url(found, "a Slack")?;
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
        return Err(found.refuse("leave out user, query and fragment"));
    }
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

/// Ids of Slack, or the star that stands for all.
fn ids(section: &mut Section<'_>, key: &'static str, open: bool) -> Result<Vec<String>> {
    let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    let example = match key {
        "teams" => "T0123ABCD",
        "users" => "U0123ABCD",
        _ => "C0123ABCD",
    };
    let check = |found: Found<String>| {
        let id = found.value.as_str();
        if (open && id == "*") || ((1..=32).contains(&id.len()) && id.chars().all(plain)) {
            return Ok(found.value);
        }
        let or = if open { ", or \"*\" for all" } else { "" };
        Err(found.refuse(format!("{AN_ID} \"{example}\"{or}")))
    };
    section.texts(key)?.into_iter().map(check).collect()
}
