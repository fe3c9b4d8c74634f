//! A Verification Zone's configuration: what it shares with the other zone, and what is its own.
//!
//! Where Slack is and who may ask is in `slack`.

use super::error::{ConfigError, Wrong};
use super::layer::{Place, Table};
use super::section::{Found, Section};
use super::slack::{PolicyConfig, SlackConfig};
use super::url::secure_url;
use super::zone::{HAS_A_DEFAULT, count, number, public_url, size, time};
use super::{
    AuditConfig, Layers, LimitsConfig, LogConfig, OF_EXECUTION, OF_VERIFICATION, StoreConfig,
    TlsConfig, open, variables, zone,
};
use interzone_edge::Secret;
use interzone_hub::Retention;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use url::Url;

type Result<T> = std::result::Result<T, ConfigError>;

/// Everything a Verification Zone is told, checked.
#[derive(Debug)]
pub(crate) struct VerifyConfig {
    pub(crate) store: StoreConfig,
    pub(crate) tls: TlsConfig,
    pub(crate) verification: VerificationConfig,
    pub(crate) slack: SlackConfig,
    pub(crate) policy: PolicyConfig,
    pub(crate) limits: LimitsConfig,
    pub(crate) retention: Retention,
    pub(crate) log: LogConfig,
    /// Whether the metrics are shown to everybody.
    pub(crate) metrics_public: bool,
    pub(crate) audit: AuditConfig,
}

impl VerifyConfig {
    /// Reads a file, with the environment on top.
    ///
    /// # Errors
    /// The file cannot be read, or something in it or in the environment is wrong.
    pub(crate) fn load(file: &Path) -> Result<Self> {
        let (text, folder) = open(file)?;
        Self::read(&text, variables(), folder).map_err(|error| error.in_file(file.to_owned()))
    }

    /// Reads a text that nobody wrote, with the environment on top.
    ///
    /// # Errors
    /// Something in the environment is wrong.
    pub(crate) fn made_up(text: &str, folder: &Path) -> Result<Self> {
        Self::read(text, variables(), folder)
    }

    /// Puts the port that was found in place of 0, which asks for any.
    pub(crate) fn settle_port(&mut self, port: u16) {
        let redirect = self.slack.install.as_mut().map(|app| &mut app.redirect_url);
        for url in [Some(&mut self.verification.public_url), redirect]
            .into_iter()
            .flatten()
        {
            if url.port() == Some(0) {
                // It fails only for addresses without a host, and these have one.
                let _ = url.set_port(Some(port));
            }
        }
    }

    /// Reads a text, with these variables on top. Relative paths are relative to `folder`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub(crate) fn read(
        text: &str,
        variables: impl IntoIterator<Item = (String, String)>,
        folder: &Path,
    ) -> Result<Self> {
        let mut whole = Section::whole(ours(text, variables)?, folder);
        whole.leave(&OF_EXECUTION);
        let mut metrics = whole.section("metrics")?;
        let metrics_public = metrics.flag("public")?.unwrap_or(false);
        metrics.end()?;
        let verification = VerificationConfig::read(whole.section("verification")?)?;
        let config = Self {
            store: StoreConfig::read(whole.section("store")?, folder)?,
            tls: TlsConfig::read(whole.section("tls")?, folder, true)?,
            slack: SlackConfig::read(whole.section("slack")?, &verification)?,
            verification,
            policy: PolicyConfig::read(whole.section("policy")?)?,
            limits: LimitsConfig::read(whole.section("limits")?)?,
            retention: zone::retention(whole.section("retention")?)?,
            log: LogConfig::read(whole.section("log")?)?,
            metrics_public,
            audit: AuditConfig::read(whole.section("audit")?)?,
        };
        whole.end()?;
        Ok(config)
    }
}

impl PolicyConfig {
    /// Reads who may ask from a file, with the environment on top, and nothing else: whoever asks for
    /// that need not be able to read the secrets.
    ///
    /// # Errors
    /// The file cannot be read, or something in that section is wrong.
    pub(crate) fn load(file: &Path) -> Result<Self> {
        let (text, folder) = open(file)?;
        let policy = ours(&text, variables())
            .and_then(|table| Self::read(Section::whole(table, folder).section("policy")?));
        policy.map_err(|error| error.in_file(file.to_owned()))
    }
}

impl StoreConfig {
    /// Reads where a Verification Zone keeps everything, and nothing else.
    ///
    /// # Errors
    /// The file cannot be read, or something in that section is wrong.
    pub(crate) fn of_verification(file: &Path) -> Result<Self> {
        let (text, folder) = open(file)?;
        let store = ours(&text, variables())
            .and_then(|table| Self::read(Section::whole(table, folder).section("store")?, folder));
        store.map_err(|error| error.in_file(file.to_owned()))
    }
}

/// All layers of a text that is for a Verification Zone.
fn ours(text: &str, variables: impl IntoIterator<Item = (String, String)>) -> Result<Table> {
    let Layers { table, written } = Layers::read(text, variables)?;
    let is_ours = |name: &String| OF_VERIFICATION.contains(&name.as_str());
    if written.iter().any(is_ours) {
        return Ok(table);
    }
    Err(ConfigError::new(
        "verification",
        Place::Default,
        Wrong::Missing(
            "nothing here is for a Verification Zone; add [verification], [slack] and [policy] as \
             docs/slack.md shows, or run `interzone execute`",
        ),
    ))
}

/// The zone itself.
#[derive(Debug)]
pub(crate) struct VerificationConfig {
    pub(crate) listen: SocketAddr,
    /// How Slack and browsers reach it.
    pub(crate) public_url: Url,
    /// Where questions are answered.
    pub(crate) execution_url: Url,
    /// How this zone proves there who it is.
    pub(crate) oauth: ZoneOAuthConfig,
    pub(crate) language: Words,
    /// Whether the real token is sent in place of one that opens nothing.
    pub(crate) forward_bot_token: bool,
    /// How long an answer may take in all.
    pub(crate) budget: Duration,
    /// Characters of one question.
    pub(crate) input_chars: usize,
    /// The newest so many messages of a thread go along.
    pub(crate) context_messages: usize,
    /// Questions that are worked at at once.
    pub(crate) asks: usize,
    /// Bytes of files that may be on their way at once.
    pub(crate) file_memory: usize,
    /// How often a question is tried while somebody whom it needs is away.
    pub(crate) attempts: u32,
    pub(crate) grace: Duration,
    pub(crate) threads: Option<usize>,
}

/// In which language people are told what our own words say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Words {
    /// By each user's own setting.
    Auto,
    Ja,
    En,
}

/// A client of the Execution Zone's issuer.
#[derive(Debug)]
pub(crate) struct ZoneOAuthConfig {
    /// Else found by the zone's metadata.
    pub(crate) token_url: Option<Url>,
    pub(crate) client_id: String,
    pub(crate) client_secret: Secret,
}

impl VerificationConfig {
    fn read(mut section: Section<'_>) -> Result<Self> {
        let listen = section.parsed("listen", "an address and a port, as in \"127.0.0.1:8444\"")?;
        let Some(Found { value: listen, .. }) = listen else {
            return Err(section.missing("listen", HAS_A_DEFAULT));
        };
        let listen: SocketAddr = listen;
        let public_url = match section.text("public_url")? {
            Some(found) => public_url(&found)?,
            None => Url::parse(&format!("https://localhost:{}", listen.port()))
                .map_err(|_| section.missing("public_url", "write the URL that Slack uses"))?,
        };
        let execution_url = match section.text("execution_url")? {
            Some(found) => secure_url(&found, "an Execution Zone")?,
            None => return Err(section.missing("execution_url", HAS_A_DEFAULT)),
        };
        let language = match section.text("language")? {
            None => return Err(section.missing("language", HAS_A_DEFAULT)),
            Some(found) => match found.value.as_str() {
                "auto" => Words::Auto,
                "ja" => Words::Ja,
                "en" => Words::En,
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
            budget: time(&mut section, "budget")?,
            input_chars: count(&mut section, "input_chars", 1)?,
            context_messages: count(&mut section, "context_messages", 0)?,
            asks: count(&mut section, "asks", 1)?,
            file_memory: size(&mut section, "file_memory")?,
            attempts: number(&mut section, "attempts", 1)?,
            grace: time(&mut section, "grace")?,
            threads: usize::try_from(threads).ok().filter(|threads| *threads > 0),
        };
        section.end()?;
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
            return Err(section.missing("client_id", HAS_A_DEFAULT));
        };
        let secret =
            section.kept_secret("client_secret", "client_secret_file", "client_secret_env")?;
        let Some(client_secret) = secret else {
            return Err(section.missing(
                "client_secret_file",
                "the Execution Zone lets nobody in without; make it there with \
                 `interzone client add --id verification --secret-file FILE verification`",
            ));
        };
        let config = Self {
            token_url,
            client_id: client_id.value,
            client_secret,
        };
        section.end()?;
        Ok(config)
    }
}
