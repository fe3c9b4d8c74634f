//! `[slack]` and `[policy]`: Slack connection and credentials, and who may ask questions.

use super::error::ConfigError;
use super::section::{ConfigValue, Section};
use super::url::secure_url;
use super::verification::VerificationConfig;
use super::zone::{DEFAULT_MISSING, public_url, required_duration, required_number};
use interzone_edge::Secret;
use std::time::Duration;
use url::Url;

type Result<T> = std::result::Result<T, ConfigError>;

/// Hint for a value that is not a Slack id.
const SLACK_ID_HINT: &str = "write Slack ids, as in";

/// Slack connection and credentials.
#[derive(Debug)]
pub(crate) struct SlackConfig {
    pub(crate) mode: SlackMode,
    pub(crate) api_url: Url,
    /// Verifies that requests come from Slack. Without it, no events are accepted over HTTP.
    pub(crate) signing_secret: Option<Secret>,
    /// Token of the one workspace that did not install the app through `/slack/install`.
    pub(crate) bot_token: Option<Secret>,
    /// App-level token for Socket Mode.
    pub(crate) app_token: Option<Secret>,
    /// Settings for workspaces that install the app through `/slack/install`.
    pub(crate) install: Option<InstallConfig>,
    pub(crate) auto_reply_channels: Vec<String>,
    pub(crate) follow_threads: bool,
    /// Update the posted answer while the agent is producing it.
    pub(crate) live_updates: bool,
    pub(crate) stop_button_delay: Duration,
}

/// Transport of Slack events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlackMode {
    /// Events API: Slack sends HTTP requests to us.
    Events,
    /// Socket Mode: we open a WebSocket to Slack.
    Socket,
}

/// OAuth installation of the app in other workspaces.
#[derive(Debug)]
pub(crate) struct InstallConfig {
    pub(crate) client_id: String,
    pub(crate) client_secret: Secret,
    /// Encrypts the stored workspace tokens.
    pub(crate) token_key: Secret,
    /// URL that Slack redirects the browser to after the installation.
    pub(crate) redirect_url: Url,
}

impl SlackConfig {
    pub(super) fn read(mut section: Section<'_>, zone: &VerificationConfig) -> Result<Self> {
        let mode = match section.text("mode")? {
            None => return Err(section.missing("mode", DEFAULT_MISSING)),
            Some(found) => match found.value.as_str() {
                "events" => SlackMode::Events,
                "socket" => SlackMode::Socket,
                _ => return Err(found.refuse("write \"events\" or \"socket\"")),
            },
        };
        let api_url = match section.text("api_url")? {
            None => return Err(section.missing("api_url", DEFAULT_MISSING)),
            Some(found) => api_url(&found)?,
        };
        let signing_secret = section.external_secret(
            "signing_secret",
            "signing_secret_file",
            "signing_secret_env",
        )?;
        let bot_token = section.external_secret("bot_token", "bot_token_file", "bot_token_env")?;
        let app_token = section.external_secret("app_token", "app_token_file", "app_token_env")?;
        if mode == SlackMode::Events && signing_secret.is_none() {
            return Err(section.missing(
                "signing_secret_file",
                "it verifies requests from Slack; find it in the app settings under Basic \
                 Information, Signing Secret",
            ));
        }
        if mode == SlackMode::Socket && app_token.is_none() {
            return Err(section.missing(
                "app_token_file",
                "Socket Mode needs an app-level token with connections:write; create it in the app \
                 settings under Basic Information, App-Level Tokens",
            ));
        }
        let install = InstallConfig::read(&mut section, zone)?;
        if bot_token.is_none() && install.is_none() {
            return Err(section.missing(
                "bot_token_file",
                "replies need it; find it in the app settings under OAuth & Permissions. An app \
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
            auto_reply_channels: slack_ids(&mut section, "auto_reply_channels", false)?,
            follow_threads: section.flag("follow_threads")?.unwrap_or(false),
            live_updates: section.flag("live_updates")?.unwrap_or(true),
            stop_button_delay: required_duration(&mut section, "stop_button_delay")?,
        };
        section.finish()?;
        Ok(config)
    }
}

impl InstallConfig {
    fn read(section: &mut Section<'_>, zone: &VerificationConfig) -> Result<Option<Self>> {
        let id = section.text("client_id")?;
        let client_secret =
            section.external_secret("client_secret", "client_secret_file", "client_secret_env")?;
        let token_key = section.external_secret("token_key", "token_key_file", "token_key_env")?;
        let redirect = section.text("redirect_url")?;
        let Some(id) = id else {
            if let Some(found) = redirect {
                return Err(
                    found.refuse("only used with `client_id`, for apps that workspaces install")
                );
            }
            return match client_secret.or(token_key) {
                Some(_) => {
                    Err(section.missing("client_id", "the secret cannot be used without it"))
                }
                None => Ok(None),
            };
        };
        let Some(client_secret) = client_secret else {
            return Err(section.missing(
                "client_secret_file",
                "find it in the app settings under Basic Information, next to the client id",
            ));
        };
        let Some(token_key) = token_key else {
            return Err(section.missing(
                "token_key_file",
                "workspace tokens are stored encrypted; create a key with `openssl rand -base64 32`",
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

/// Who may ask questions. An empty list allows no one.
#[derive(Debug)]
pub(crate) struct PolicyConfig {
    pub(crate) teams: Vec<String>,
    pub(crate) channels: Vec<String>,
    pub(crate) users: Vec<String>,
    /// Limit per user; 0 means no limit.
    pub(crate) requests_per_minute: u32,
}

impl PolicyConfig {
    pub(super) fn read(mut section: Section<'_>) -> Result<Self> {
        let config = Self {
            teams: slack_ids(&mut section, "teams", true)?,
            channels: slack_ids(&mut section, "channels", true)?,
            users: slack_ids(&mut section, "users", true)?,
            requests_per_minute: required_number(&mut section, "requests_per_minute", 0)?,
        };
        section.finish()?;
        Ok(config)
    }
}

/// Parses Slack's API URL. Method names are appended to it.
fn api_url(found: &ConfigValue<String>) -> Result<Url> {
    let mut url = secure_url(found, "a Slack API")?;
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
        return Err(found.refuse("leave out user, query and fragment"));
    }
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

/// Reads a list of Slack ids; `*` (all) is accepted if `allow_any`.
fn slack_ids(section: &mut Section<'_>, key: &'static str, allow_any: bool) -> Result<Vec<String>> {
    let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    let example = match key {
        "teams" => "T0123ABCD",
        "users" => "U0123ABCD",
        _ => "C0123ABCD",
    };
    let check = |found: ConfigValue<String>| {
        let id = found.value.as_str();
        if (allow_any && id == "*") || ((1..=32).contains(&id.len()) && id.chars().all(plain)) {
            return Ok(found.value);
        }
        let or = if allow_any { ", or \"*\" for all" } else { "" };
        Err(found.refuse(format!("{SLACK_ID_HINT} \"{example}\"{or}")))
    };
    section.texts(key)?.into_iter().map(check).collect()
}
