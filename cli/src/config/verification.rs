//! Configuration of a Verification Zone: the shared sections, `[verification]`, `[slack]` and `[policy]`.

use super::check::Checker;
use super::deserializer::{read, read_section};
use super::error::{ConfigError, ConfigErrorKind};
use super::layer::ValueSource;
use super::sections::{
    AuditConfig, LimitsConfig, LogConfig, MetricsConfig, StoreConfig, TlsConfig,
};
use super::values::{self, constant_url};
use super::{EXECUTION_SECTIONS, MergedConfig, VERIFICATION_SECTIONS, open, secrets, variables};
use interzone_edge::Secret;
use interzone_hub::Retention;
use interzone_options::positive;
use interzone_verification::workers::WorkerOptions;
use interzone_verification::{AskOptions, ReplyOptions};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;
use url::Url;

type Result<T> = std::result::Result<T, ConfigError>;

/// Checked configuration of a Verification Zone.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct VerificationZoneConfig {
    pub(crate) store: StoreConfig,
    pub(crate) tls: TlsConfig,
    pub(crate) verification: VerificationConfig,
    pub(crate) slack: SlackConfig,
    pub(crate) policy: PolicyConfig,
    pub(crate) limits: LimitsConfig,
    pub(crate) retention: Retention,
    pub(crate) log: LogConfig,
    pub(crate) metrics: MetricsConfig,
    pub(crate) audit: AuditConfig,
}

impl VerificationZoneConfig {
    /// Reads a file, overridden by the environment.
    ///
    /// # Errors
    /// The file cannot be read, or the file or the environment contains an invalid setting.
    pub(crate) fn load(file: &Path) -> Result<Self> {
        let (text, folder) = open(file)?;
        Self::read(&text, variables(), folder).map_err(|error| error.in_file(file.to_owned()))
    }

    /// Reads a generated text, overridden by the environment.
    ///
    /// # Errors
    /// The environment contains an invalid setting.
    pub(crate) fn read_with_env(text: &str, folder: &Path) -> Result<Self> {
        Self::read(text, variables(), folder)
    }

    /// Replaces port 0 (any free port) in the public and redirect URL by the port that was bound.
    pub(crate) fn resolve_port(&mut self, port: u16) {
        let redirect = self.slack.install.as_mut().map(|app| &mut app.redirect_url);
        for url in [Some(&mut self.verification.public_url), redirect]
            .into_iter()
            .flatten()
        {
            values::resolve_port(url, port);
        }
    }

    /// Reads a text, overridden by these variables. Relative paths are relative to `folder`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub(crate) fn read(
        text: &str,
        variables: impl IntoIterator<Item = (String, String)>,
        folder: &Path,
    ) -> Result<Self> {
        let merged = merge_layers(text, variables)?;
        let mut config: Self = read(&merged.table, folder, &EXECUTION_SECTIONS)?;
        let checker = Checker(&merged.table);
        config.store.resolve(folder);
        config.tls.check(true, &checker)?;
        let zone = &mut config.verification;
        if zone.oauth.client_secret.is_none() {
            return Err(checker.missing(
                "verification.oauth.client_secret_file",
                "the Execution Zone requires it; create it there with \
                 `interzone client add --id verification --secret-file FILE verification`",
            ));
        }
        values::resolve_port(&mut zone.public_url, zone.listen.port());
        config.slack.check(&config.verification, &checker)?;
        Ok(config)
    }
}

impl PolicyConfig {
    /// Reads `[policy]` only, from a file overridden by the environment: the command needs no access to the
    /// secrets.
    ///
    /// # Errors
    /// The file cannot be read, or that section contains an invalid setting.
    pub(crate) fn load(file: &Path) -> Result<Self> {
        let (text, folder) = open(file)?;
        merge_layers(&text, variables())
            .and_then(|merged| read_section(&merged.table, folder, "policy"))
            .map_err(|error| error.in_file(file.to_owned()))
    }
}

impl StoreConfig {
    /// Reads `[store]` of a Verification Zone only.
    ///
    /// # Errors
    /// The file cannot be read, or that section contains an invalid setting.
    pub(crate) fn load_for_verification(file: &Path) -> Result<Self> {
        let (text, folder) = open(file)?;
        merge_layers(&text, variables())
            .and_then(|merged| Self::from_merged(&merged, folder))
            .map_err(|error| error.in_file(file.to_owned()))
    }
}

/// Merges all layers and checks that the file configures a Verification Zone.
fn merge_layers(
    text: &str,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<MergedConfig> {
    let merged = MergedConfig::read(text, variables)?;
    if merged.has_section(&VERIFICATION_SECTIONS) {
        return Ok(merged);
    }
    Err(ConfigError::new(
        "verification",
        ValueSource::Default,
        ConfigErrorKind::Missing(
            "this file does not configure a Verification Zone; add [verification], [slack] and [policy] \
             (see docs/slack.md), or run `interzone serve execution`"
                .to_owned(),
        ),
    ))
}

/// `[verification]`.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct VerificationConfig {
    #[serde(deserialize_with = "values::address")]
    pub(crate) listen: SocketAddr,
    /// URL that Slack and browsers use. Port 0 is replaced by the port that is listened on.
    #[serde(deserialize_with = "values::public_url")]
    pub(crate) public_url: Url,
    /// URL of the Execution Zone.
    #[serde(deserialize_with = "values::secure_url")]
    pub(crate) execution_url: Url,
    /// OAuth2 client for the Execution Zone.
    pub(crate) oauth: ZoneOAuthConfig,
    pub(crate) language: MessageLanguage,
    #[serde(rename = "..ask")]
    pub(crate) ask: AskOptions,
    /// Maximum characters of one question.
    #[serde(deserialize_with = "positive")]
    pub(crate) input_chars: usize,
    /// Questions processed at once.
    #[serde(deserialize_with = "positive")]
    pub(crate) concurrency: usize,
    pub(crate) shutdown_grace: Duration,
    #[serde(deserialize_with = "values::threads")]
    pub(crate) threads: Option<usize>,
}

impl Default for VerificationConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8444).into(),
            public_url: constant_url("https://localhost:0"),
            execution_url: constant_url("https://localhost:8443"),
            oauth: ZoneOAuthConfig::default(),
            language: MessageLanguage::Auto,
            ask: AskOptions::default(),
            input_chars: 4000,
            concurrency: WorkerOptions::default().asks.concurrency,
            shutdown_grace: Duration::from_secs(30),
            threads: None,
        }
    }
}

/// Language of our own messages.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MessageLanguage {
    Ja,
    En,
    /// The setting of each user.
    Auto,
}

/// OAuth2 client at the Execution Zone's issuer.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ZoneOAuthConfig {
    /// Default: from the zone's metadata.
    #[serde(deserialize_with = "values::secure_url")]
    pub(crate) token_url: Option<Url>,
    pub(crate) client_id: String,
    /// Always set in a checked configuration.
    #[serde(rename = "..client_secret", deserialize_with = "secrets::external")]
    pub(crate) client_secret: Option<Secret>,
}

impl Default for ZoneOAuthConfig {
    fn default() -> Self {
        Self {
            token_url: None,
            client_id: "verification".to_owned(),
            client_secret: None,
        }
    }
}

/// `[slack]`: connection and credentials.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SlackConfig {
    pub(crate) mode: SlackMode,
    #[serde(deserialize_with = "api_url")]
    pub(crate) api_url: Url,
    /// Verifies that requests come from Slack. Without it, no events are accepted over HTTP.
    #[serde(rename = "..signing_secret", deserialize_with = "secrets::external")]
    pub(crate) signing_secret: Option<Secret>,
    /// Token of the one workspace that did not install the app through `/slack/install`.
    #[serde(rename = "..bot_token", deserialize_with = "secrets::external")]
    pub(crate) bot_token: Option<Secret>,
    /// App-level token for Socket Mode.
    #[serde(rename = "..app_token", deserialize_with = "secrets::external")]
    pub(crate) app_token: Option<Secret>,
    #[serde(deserialize_with = "channel_ids")]
    pub(crate) auto_reply_channels: Vec<String>,
    pub(crate) follow_threads: bool,
    #[serde(rename = "..reply")]
    pub(crate) reply: ReplyOptions,
    /// Client id of an app that workspaces install through `/slack/install`.
    client_id: Option<String>,
    #[serde(rename = "..client_secret", deserialize_with = "secrets::external")]
    client_secret: Option<Secret>,
    #[serde(rename = "..token_key", deserialize_with = "secrets::external")]
    token_key: Option<Secret>,
    #[serde(deserialize_with = "values::public_url")]
    redirect_url: Option<Url>,
    /// The keys from `client_id`, once they are checked.
    #[serde(skip)]
    pub(crate) install: Option<InstallConfig>,
}

impl Default for SlackConfig {
    fn default() -> Self {
        Self {
            mode: SlackMode::Events,
            api_url: constant_url("https://slack.com/api/"),
            signing_secret: None,
            bot_token: None,
            app_token: None,
            auto_reply_channels: Vec::new(),
            follow_threads: false,
            reply: ReplyOptions::default(),
            client_id: None,
            client_secret: None,
            token_key: None,
            redirect_url: None,
            install: None,
        }
    }
}

/// Transport of Slack events.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
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
    fn check(&mut self, zone: &VerificationConfig, checker: &Checker<'_>) -> Result<()> {
        if self.mode == SlackMode::Events && self.signing_secret.is_none() {
            return Err(checker.missing(
                "slack.signing_secret_file",
                "it verifies requests from Slack; find it in the app settings under Basic \
                 Information, Signing Secret",
            ));
        }
        if self.mode == SlackMode::Socket && self.app_token.is_none() {
            return Err(checker.missing(
                "slack.app_token_file",
                "Socket Mode needs an app-level token with connections:write; create it in the app \
                 settings under Basic Information, App-Level Tokens",
            ));
        }
        self.install = self.check_install(zone, checker)?;
        if self.bot_token.is_none() && self.install.is_none() {
            return Err(checker.missing(
                "slack.bot_token_file",
                "replies need it; find it in the app settings under OAuth & Permissions. An app \
                 that workspaces install themselves needs `client_id` instead",
            ));
        }
        Ok(())
    }

    fn check_install(
        &mut self,
        zone: &VerificationConfig,
        checker: &Checker<'_>,
    ) -> Result<Option<InstallConfig>> {
        let (client_secret, token_key) = (self.client_secret.take(), self.token_key.take());
        let Some(client_id) = self.client_id.take() else {
            if self.redirect_url.is_some() {
                return Err(checker.refuse(
                    "slack.redirect_url",
                    "only used with `client_id`, for apps that workspaces install",
                ));
            }
            return match client_secret.or(token_key) {
                Some(_) => {
                    Err(checker.missing("slack.client_id", "the secret cannot be used without it"))
                }
                None => Ok(None),
            };
        };
        let Some(client_secret) = client_secret else {
            return Err(checker.missing(
                "slack.client_secret_file",
                "find it in the app settings under Basic Information, next to the client id",
            ));
        };
        let Some(token_key) = token_key else {
            return Err(checker.missing(
                "slack.token_key_file",
                "workspace tokens are stored encrypted; create a key with `openssl rand -base64 32`",
            ));
        };
        let redirect_url = self.redirect_url.take().unwrap_or_else(|| {
            let mut url = zone.public_url.clone();
            let path = url.path().trim_end_matches('/').to_owned();
            url.set_path(&format!("{path}/slack/oauth_redirect"));
            url
        });
        Ok(Some(InstallConfig {
            client_id,
            client_secret,
            token_key,
            redirect_url,
        }))
    }
}

/// `[policy]`: the allowed teams, channels and users. An empty list allows none.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PolicyConfig {
    #[serde(deserialize_with = "team_ids")]
    pub(crate) teams: Vec<String>,
    #[serde(deserialize_with = "channel_ids_or_any")]
    pub(crate) channels: Vec<String>,
    #[serde(deserialize_with = "user_ids")]
    pub(crate) users: Vec<String>,
    /// Limit per user; 0 means no limit.
    pub(crate) requests_per_minute: u32,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            teams: Vec::new(),
            channels: Vec::new(),
            users: Vec::new(),
            requests_per_minute: 10,
        }
    }
}

/// Deserializes Slack's API URL. Method names are appended to it.
fn api_url<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Url, D::Error> {
    let mut url: Url = values::base_url(deserializer)?;
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    Ok(url)
}

type Ids<E> = std::result::Result<Vec<String>, E>;

fn team_ids<'de, D: Deserializer<'de>>(deserializer: D) -> Ids<D::Error> {
    slack_ids(deserializer, "T0123ABCD", true)
}

fn user_ids<'de, D: Deserializer<'de>>(deserializer: D) -> Ids<D::Error> {
    slack_ids(deserializer, "U0123ABCD", true)
}

fn channel_ids<'de, D: Deserializer<'de>>(deserializer: D) -> Ids<D::Error> {
    slack_ids(deserializer, "C0123ABCD", false)
}

fn channel_ids_or_any<'de, D: Deserializer<'de>>(deserializer: D) -> Ids<D::Error> {
    slack_ids(deserializer, "C0123ABCD", true)
}

/// Deserializes a list of Slack ids; `*` (all) is accepted if `allow_any`.
fn slack_ids<'de, D: Deserializer<'de>>(
    deserializer: D,
    example: &str,
    allow_any: bool,
) -> Ids<D::Error> {
    let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    let is_id = |id: &String| {
        (allow_any && id == "*") || ((1..=32).contains(&id.len()) && id.chars().all(plain))
    };
    let ids = Vec::<String>::deserialize(deserializer)?;
    if ids.iter().all(is_id) {
        return Ok(ids);
    }
    let or = if allow_any { ", or \"*\" for all" } else { "" };
    Err(D::Error::custom(format!(
        "write Slack ids, as in \"{example}\"{or}"
    )))
}
