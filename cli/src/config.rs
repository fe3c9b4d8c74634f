//! Configuration: from the defaults, a file and the environment to values that have been checked.
//!
//! `config.default.toml` is compiled in and is the reference of every key; the file comes on top of
//! it, the environment (`INTERZONE__SECTION__KEY`) on top of that. Nobody else in the house reads
//! the environment. Nothing is opened or started here.

mod agents;
mod around;
mod connection;
mod console;
mod contract;
mod error;
mod layer;
mod nearest;
mod oauth;
mod outline;
mod section;
mod slack;
mod store;
mod units;
mod url;
mod verification;
mod zone;

#[cfg(test)]
pub(crate) mod asked;
#[cfg(test)]
mod tests;

pub(crate) use agents::{
    AgentConfig, AgentKind, CommandConfig, LlmConfig, PeerPlace, ProofConfig, ProviderConfig,
    RemoteConfig,
};
pub(crate) use around::{Alone, ModelAround, SlackAround};
pub(crate) use connection::{FOLDER, Profile, ProfileError, Surroundings};
pub(crate) use console::{ConsoleConfig, ConsoleIssuer};
pub(crate) use contract::AgentCoreConfig;
pub(crate) use error::ConfigError;
pub(crate) use oauth::OAuthConfig;
pub(crate) use outline::{Holds, NamedFile, Outline};
pub(crate) use section::Elsewhere;
pub(crate) use slack::{InstallConfig, PolicyConfig, SlackConfig, SlackMode};
pub(crate) use store::{StoreConfig, StoreUrl};
pub(crate) use verification::{VerificationConfig, VerifyConfig, Words};
pub(crate) use zone::{
    AuditConfig, CardConfig, ExecutionConfig, IssuerConfig, LimitsConfig, LogConfig, LogFormat,
    ServerConfig, TlsConfig, WebhookConfig, WorkConfig,
};

use error::Wrong;
use interzone_execution::files::{FileRules, InputRules};
use interzone_execution::pairs::Recorded;
use interzone_hub::Retention;
use layer::{Place, Table};
use section::Section;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Every key with its default. The comments in it are the reference for people.
const DEFAULTS: &str = include_str!("../../config.default.toml");

/// What the names of our variables begin with. Two underscores stand between the parts, as keys
/// have single ones.
const PREFIX: &str = "INTERZONE__";

/// The sections that are an Execution Zone's alone. Each zone leaves those of the other unread: they may
/// name secrets that are none of its business.
pub(crate) const OF_EXECUTION: [&str; 13] = [
    "execution",
    "card",
    "oauth",
    "issuer",
    "egress",
    "webhooks",
    "work",
    "files",
    "attachments",
    "pairs",
    "agentcore",
    "console",
    "agents",
];

/// The sections that are a Verification Zone's alone.
pub(crate) const OF_VERIFICATION: [&str; 3] = ["verification", "slack", "policy"];

/// Everything an Execution Zone is told, checked.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) store: StoreConfig,
    pub(crate) tls: TlsConfig,
    pub(crate) execution: ExecutionConfig,
    pub(crate) card: CardConfig,
    pub(crate) oauth: OAuthConfig,
    pub(crate) issuer: IssuerConfig,
    /// Exceptions from the guard on outgoing connections: `host:port`.
    pub(crate) egress_allow: Vec<String>,
    pub(crate) webhooks: WebhookConfig,
    pub(crate) limits: LimitsConfig,
    pub(crate) work: WorkConfig,
    pub(crate) retention: Retention,
    /// The files that agents may hand out.
    pub(crate) files: FileRules,
    /// The files that callers may send.
    pub(crate) attachments: InputRules,
    /// Which answered requests are noted, if any.
    pub(crate) pairs: Option<Recorded>,
    pub(crate) agentcore: AgentCoreConfig,
    pub(crate) console: ConsoleConfig,
    pub(crate) log: LogConfig,
    /// Whether the metrics are shown to everybody.
    pub(crate) metrics_public: bool,
    pub(crate) audit: AuditConfig,
    /// At least one.
    pub(crate) agents: Vec<AgentConfig>,
    /// The agent that answers those who name none.
    pub(crate) default_agent: String,
}

impl Config {
    /// Reads a file, with the environment on top.
    ///
    /// # Errors
    /// The file cannot be read, or something in it or in the environment is wrong.
    pub(crate) fn load(file: &Path) -> Result<Self, ConfigError> {
        Self::load_with(file, &[])
    }

    /// Reads a file, with the environment on top, and on top of that what the command line says: names
    /// as in the environment.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub(crate) fn load_with(file: &Path, said: &[(&str, &str)]) -> Result<Self, ConfigError> {
        let (text, folder) = open(file)?;
        let said = said
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self::read(&text, variables().into_iter().chain(said), folder)
            .map_err(|error| error.in_file(file.to_owned()))
    }

    /// Reads a text, with these variables on top. Relative paths are relative to `folder`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub(crate) fn read(
        text: &str,
        variables: impl IntoIterator<Item = (String, String)>,
        folder: &Path,
    ) -> Result<Self, ConfigError> {
        let Layers { table, written } = Layers::read(text, variables)?;
        let is_there = |names: &[&str]| written.iter().any(|name| names.contains(&name.as_str()));
        if is_there(&OF_VERIFICATION) && !is_there(&OF_EXECUTION) {
            return Err(ConfigError::new(
                "execution",
                Place::Default,
                Wrong::Missing(
                    "this file is for a Verification Zone; run `interzone verify`, or add \
                     [execution] and whoever answers in [[agents]]",
                ),
            ));
        }
        let mut whole = Section::whole(table, folder);
        whole.leave(&OF_VERIFICATION);
        let config = Self::check(&mut whole, folder)?;
        whole.end()?;
        Ok(config)
    }

    /// Reads a text that nobody wrote, with the environment on top.
    ///
    /// # Errors
    /// Something in the environment is wrong.
    pub(crate) fn made_up(text: &str, folder: &Path) -> Result<Self, ConfigError> {
        Self::read(text, variables(), folder)
    }

    /// Puts the port that was found in place of 0, which asks for any.
    pub(crate) fn settle_port(&mut self, port: u16) {
        let unsettled = self
            .execution
            .public_url
            .as_str()
            .trim_end_matches('/')
            .to_owned();
        if self.execution.public_url.port() != Some(0) {
            return;
        }
        // It fails only for addresses without a host, and this one has one.
        let _ = self.execution.public_url.set_port(Some(port));
        let settled = self
            .execution
            .public_url
            .as_str()
            .trim_end_matches('/')
            .to_owned();
        for audience in &mut self.oauth.audience {
            if *audience == unsettled {
                audience.clone_from(&settled);
            }
        }
    }

    fn check(whole: &mut Section<'_>, folder: &Path) -> Result<Self, ConfigError> {
        let execution = ExecutionConfig::read(whole.section("execution")?)?;
        let (agents, default_agent) = agents::read(whole, folder)?;
        let mut egress = whole.section("egress")?;
        let egress_allow = zone::allowed(&mut egress)?;
        egress.end()?;
        let mut metrics = whole.section("metrics")?;
        let metrics_public = metrics.flag("public")?.unwrap_or(false);
        metrics.end()?;
        let agentcore = AgentCoreConfig::read(whole.section("agentcore")?)?;
        let mut retention = zone::retention(whole.section("retention")?)?;
        let pairs = contract::pairs(whole.section("pairs")?, &mut retention)?;
        for (channel, agent) in &execution.channels {
            if !agents.iter().any(|known| known.id.as_str() == agent) {
                let why = format!("there is no agent \"{agent}\"; add one, or name another");
                return Err(ConfigError::new(
                    &format!("execution.channels.{channel}"),
                    Place::Default,
                    Wrong::Value(why),
                ));
            }
        }
        Ok(Self {
            store: StoreConfig::read(whole.section("store")?, folder)?,
            tls: TlsConfig::read(whole.section("tls")?, folder, !agentcore.enabled)?,
            card: CardConfig::read(whole.section("card")?)?,
            oauth: OAuthConfig::read(whole.section("oauth")?, &execution)?,
            issuer: IssuerConfig::read(whole.section("issuer")?)?,
            egress_allow,
            webhooks: WebhookConfig::read(whole.section("webhooks")?)?,
            limits: LimitsConfig::read(whole.section("limits")?)?,
            work: WorkConfig::read(whole.section("work")?)?,
            retention,
            files: contract::files(whole.section("files")?)?,
            attachments: contract::attachments(whole.section("attachments")?)?,
            pairs,
            agentcore,
            console: ConsoleConfig::read(whole.section("console")?)?,
            log: LogConfig::read(whole.section("log")?)?,
            metrics_public,
            audit: AuditConfig::read(whole.section("audit")?)?,
            execution,
            agents,
            default_agent,
        })
    }
}

/// The defaults, a file and the environment on top of each other.
struct Layers {
    table: Table,
    /// The sections that the file has.
    written: Vec<String>,
}

impl Layers {
    fn read(
        text: &str,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut table = layer::parse(DEFAULTS, |_| Place::Default)?;
        let file = layer::parse(text, Place::Line)?;
        let written = file.keys().cloned().collect();
        layer::lay(&mut table, file);
        for (name, word) in variables {
            let Some(path) = name.strip_prefix(PREFIX) else {
                continue;
            };
            let path: Vec<String> = path.split("__").map(str::to_lowercase).collect();
            layer::put(&mut table, &path, &name, word)?;
        }
        Ok(Self { table, written })
    }
}

/// The text of a configuration, and the folder that its relative paths begin at.
fn open(file: &Path) -> Result<(String, &Path), ConfigError> {
    let text = fs::read_to_string(file)
        .map_err(|error| ConfigError::unreadable(file.to_owned(), error))?;
    // Not the folder of where a link leads: people mean the place that they see.
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    Ok((text, folder))
}

/// Our variables. One whose value is no text is left out: no key takes it.
fn variables() -> Vec<(String, String)> {
    let mut variables: Vec<_> = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with(PREFIX))
        .collect();
    // Of several mistakes always the same is told.
    variables.sort();
    variables
}

/// One variable, if it is there and says something.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the file that reads the environment"
)]
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Reads a time as the configuration writes it.
pub(crate) fn time_of(text: &str) -> Option<std::time::Duration> {
    units::time(text)
}

/// One variable that holds a path.
fn variable_path(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from)
}
