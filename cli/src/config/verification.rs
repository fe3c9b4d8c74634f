//! Configuration of a Verification Zone: the shared sections and `[verification]`. `[slack]` and `[policy]`
//! are in `slack`.

use super::error::{ConfigError, ConfigErrorKind};
use super::layer::{Table, ValueSource};
use super::section::{ConfigValue, Section};
use super::slack::{PolicyConfig, SlackConfig};
use super::url::secure_url;
use super::zone::{
    DEFAULT_MISSING, public_url, required_count, required_duration, required_number, required_size,
};
use super::{
    AuditConfig, EXECUTION_SECTIONS, LimitsConfig, LogConfig, MergedConfig, StoreConfig, TlsConfig,
    VERIFICATION_SECTIONS, open, variables, zone,
};
use interzone_edge::Secret;
use interzone_hub::Retention;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use url::Url;

type Result<T> = std::result::Result<T, ConfigError>;

/// Checked configuration of a Verification Zone.
#[derive(Debug)]
pub(crate) struct VerificationZoneConfig {
    pub(crate) store: StoreConfig,
    pub(crate) tls: TlsConfig,
    pub(crate) verification: VerificationConfig,
    pub(crate) slack: SlackConfig,
    pub(crate) policy: PolicyConfig,
    pub(crate) limits: LimitsConfig,
    pub(crate) retention: Retention,
    pub(crate) log: LogConfig,
    /// `/metrics` needs no token.
    pub(crate) metrics_public: bool,
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
            if url.port() == Some(0) {
                // Fails only for URLs without a host, and these have a host.
                let _ = url.set_port(Some(port));
            }
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
        let mut root = Section::root(merge_layers(text, variables)?, folder);
        root.ignore(&EXECUTION_SECTIONS);
        let mut metrics = root.section("metrics")?;
        let metrics_public = metrics.flag("public")?.unwrap_or(false);
        metrics.finish()?;
        let verification = VerificationConfig::read(root.section("verification")?)?;
        let config = Self {
            store: StoreConfig::read(root.section("store")?, folder)?,
            tls: TlsConfig::read(root.section("tls")?, folder, true)?,
            slack: SlackConfig::read(root.section("slack")?, &verification)?,
            verification,
            policy: PolicyConfig::read(root.section("policy")?)?,
            limits: LimitsConfig::read(root.section("limits")?)?,
            retention: zone::retention(root.section("retention")?)?,
            log: LogConfig::read(root.section("log")?)?,
            metrics_public,
            audit: AuditConfig::read(root.section("audit")?)?,
        };
        root.finish()?;
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
        let policy = merge_layers(&text, variables())
            .and_then(|table| Self::read(Section::root(table, folder).section("policy")?));
        policy.map_err(|error| error.in_file(file.to_owned()))
    }
}

impl StoreConfig {
    /// Reads `[store]` of a Verification Zone only.
    ///
    /// # Errors
    /// The file cannot be read, or that section contains an invalid setting.
    pub(crate) fn load_for_verification(file: &Path) -> Result<Self> {
        let (text, folder) = open(file)?;
        let store = merge_layers(&text, variables())
            .and_then(|table| Self::read(Section::root(table, folder).section("store")?, folder));
        store.map_err(|error| error.in_file(file.to_owned()))
    }
}

/// Merges all layers and checks that the file configures a Verification Zone.
fn merge_layers(
    text: &str,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Table> {
    let MergedConfig {
        table,
        file_sections: written,
    } = MergedConfig::read(text, variables)?;
    let is_verification_section = |name: &String| VERIFICATION_SECTIONS.contains(&name.as_str());
    if written.iter().any(is_verification_section) {
        return Ok(table);
    }
    Err(ConfigError::new(
        "verification",
        ValueSource::Default,
        ConfigErrorKind::Missing(
            "this file does not configure a Verification Zone; add [verification], [slack] and [policy] \
             (see docs/slack.md), or run `interzone serve execution`",
        ),
    ))
}

/// `[verification]`.
#[derive(Debug)]
pub(crate) struct VerificationConfig {
    pub(crate) listen: SocketAddr,
    /// URL that Slack and browsers use.
    pub(crate) public_url: Url,
    /// URL of the Execution Zone.
    pub(crate) execution_url: Url,
    /// OAuth2 client for the Execution Zone.
    pub(crate) oauth: ZoneOAuthConfig,
    pub(crate) language: MessageLanguage,
    /// Forward the real bot token instead of a placeholder.
    pub(crate) forward_bot_token: bool,
    /// Time limit of an answer, in total.
    pub(crate) answer_timeout: Duration,
    /// Maximum characters of one question.
    pub(crate) input_chars: usize,
    /// Number of earlier thread messages sent with a question.
    pub(crate) context_messages: usize,
    /// Questions processed at once.
    pub(crate) concurrency: usize,
    /// Memory for files in transfer, in bytes.
    pub(crate) file_memory: usize,
    /// Attempts per question while the Execution Zone or Slack is unavailable.
    pub(crate) attempts: u32,
    pub(crate) shutdown_grace: Duration,
    pub(crate) threads: Option<usize>,
}

/// Language of our own messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageLanguage {
    /// The setting of each user.
    Auto,
    Ja,
    En,
}

/// OAuth2 client at the Execution Zone's issuer.
#[derive(Debug)]
pub(crate) struct ZoneOAuthConfig {
    /// Default: from the zone's metadata.
    pub(crate) token_url: Option<Url>,
    pub(crate) client_id: String,
    pub(crate) client_secret: Secret,
}

impl VerificationConfig {
    fn read(mut section: Section<'_>) -> Result<Self> {
        let listen = section.parsed("listen", "an address and a port, as in \"127.0.0.1:8444\"")?;
        let Some(ConfigValue { value: listen, .. }) = listen else {
            return Err(section.missing("listen", DEFAULT_MISSING));
        };
        let listen: SocketAddr = listen;
        let public_url = match section.text("public_url")? {
            Some(found) => public_url(&found)?,
            None => Url::parse(&format!("https://localhost:{}", listen.port()))
                .map_err(|_| section.missing("public_url", "write the URL that Slack uses"))?,
        };
        let execution_url = match section.text("execution_url")? {
            Some(found) => secure_url(&found, "an Execution Zone")?,
            None => return Err(section.missing("execution_url", DEFAULT_MISSING)),
        };
        let language = match section.text("language")? {
            None => return Err(section.missing("language", DEFAULT_MISSING)),
            Some(found) => match found.value.as_str() {
                "auto" => MessageLanguage::Auto,
                "ja" => MessageLanguage::Ja,
                "en" => MessageLanguage::En,
                _ => return Err(found.refuse("write \"ja\", \"en\" or \"auto\"")),
            },
        };
        let threads = section.number("threads", 0)?.unwrap_or(0);
        let config = Self {
            listen,
            public_url,
            execution_url,
            oauth: ZoneOAuthConfig::read(section.section("oauth")?)?,
            language,
            forward_bot_token: section.flag("forward_bot_token")?.unwrap_or(false),
            answer_timeout: required_duration(&mut section, "answer_timeout")?,
            input_chars: required_count(&mut section, "input_chars", 1)?,
            context_messages: required_count(&mut section, "context_messages", 0)?,
            concurrency: required_count(&mut section, "concurrency", 1)?,
            file_memory: required_size(&mut section, "file_memory")?,
            attempts: required_number(&mut section, "attempts", 1)?,
            shutdown_grace: required_duration(&mut section, "shutdown_grace")?,
            threads: usize::try_from(threads).ok().filter(|threads| *threads > 0),
        };
        section.finish()?;
        Ok(config)
    }
}

impl ZoneOAuthConfig {
    fn read(mut section: Section<'_>) -> Result<Self> {
        let token_url = match section.text("token_url")? {
            Some(found) => Some(secure_url(&found, "an issuer")?),
            None => None,
        };
        let Some(client_id) = section.text("client_id")? else {
            return Err(section.missing("client_id", DEFAULT_MISSING));
        };
        let secret =
            section.external_secret("client_secret", "client_secret_file", "client_secret_env")?;
        let Some(client_secret) = secret else {
            return Err(section.missing(
                "client_secret_file",
                "the Execution Zone requires it; create it there with \
                 `interzone client add --id verification --secret-file FILE verification`",
            ));
        };
        let config = Self {
            token_url,
            client_id: client_id.value,
            client_secret,
        };
        section.finish()?;
        Ok(config)
    }
}
