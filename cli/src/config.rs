//! Configuration: merges the defaults, a file and the environment, and checks the values.
//!
//! The defaults are those of the options structs, which most components declare themselves; `config.default.toml` is
//! the reference of every key. The file overrides the defaults, and the environment (`INTERZONE__SECTION__KEY`)
//! overrides the file. No other module reads the environment. Nothing is opened or started here.

mod agents;
mod check;
mod connection;
mod deserializer;
mod env_detect;
mod error;
pub(crate) mod key_recorder;
mod layer;
mod secrets;
mod sections;
mod summary;
mod values;
mod verification;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use agents::{
    AgentConfig, AgentKind, CommandConfig, LlmConfig, PeerAddress, PeerCredentials, ProviderConfig,
    RemoteConfig,
};
pub(crate) use connection::{CliEnvironment, ConnectionProfile, DATA_DIR, ProfileError};
pub(crate) use env_detect::{DetectedModel, DetectedSlack, IncompleteSlackEnv};
pub(crate) use error::ConfigError;
pub(crate) use secrets::SecretRef;
pub(crate) use sections::{
    AgentCoreConfig, AuditConfig, ConsoleConfig, LimitsConfig, LogConfig, StoreConfig, StoreUrl,
    TlsConfig,
};
pub(crate) use summary::{ConfigSummary, FileContent, FileRef};
pub(crate) use verification::{
    InstallConfig, MessageLanguage, PolicyConfig, SlackConfig, SlackMode, VerificationZoneConfig,
};

use check::Checker;
use error::ConfigErrorKind;
use interzone_execution::files::{FileRules, InputRules};
use interzone_hub::Retention;
use interzone_issuer::IssuerOptions;
use layer::{Table, ValueSource};
use sections::{
    CardConfig, EgressConfig, ExecutionConfig, MetricsConfig, OAuthConfig, RequestLogConfig,
    WebhookConfig, WorkConfig,
};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

/// Every key with its default. Its comments are the reference documentation. A test compares it with the defaults of
/// the options structs.
#[cfg(test)]
const DEFAULT_CONFIG: &str = include_str!("../../config.default.toml");

/// Prefix of our environment variables. The parts are separated by two underscores, as keys contain single
/// ones.
const ENV_PREFIX: &str = "INTERZONE__";

/// Sections used only by the Execution Zone. Each zone ignores the other's sections, as they may refer to
/// secrets that it should not read.
pub(crate) const EXECUTION_SECTIONS: [&str; 13] = [
    "execution",
    "card",
    "oauth",
    "issuer",
    "egress",
    "webhooks",
    "work",
    "files",
    "attachments",
    "request_log",
    "agentcore",
    "console",
    "agents",
];

/// Sections used only by the Verification Zone.
pub(crate) const VERIFICATION_SECTIONS: [&str; 3] = ["verification", "slack", "policy"];

/// Checked configuration of an Execution Zone: the options of its components.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    #[serde(default)]
    pub(crate) store: StoreConfig,
    #[serde(default)]
    pub(crate) tls: TlsConfig,
    #[serde(default)]
    pub(crate) execution: ExecutionConfig,
    #[serde(default)]
    pub(crate) card: CardConfig,
    #[serde(default)]
    pub(crate) oauth: OAuthConfig,
    #[serde(default)]
    pub(crate) issuer: IssuerOptions,
    #[serde(default)]
    pub(crate) egress: EgressConfig,
    #[serde(default)]
    pub(crate) webhooks: WebhookConfig,
    #[serde(default)]
    pub(crate) limits: LimitsConfig,
    #[serde(default)]
    pub(crate) work: WorkConfig,
    #[serde(default)]
    pub(crate) retention: Retention,
    #[serde(default)]
    pub(crate) request_log: RequestLogConfig,
    #[serde(default)]
    pub(crate) console: ConsoleConfig,
    /// Rules for files that agents produce.
    #[serde(default)]
    pub(crate) files: FileRules,
    /// Rules for files that callers send.
    #[serde(default)]
    pub(crate) attachments: InputRules,
    #[serde(default)]
    pub(crate) agentcore: AgentCoreConfig,
    #[serde(default)]
    pub(crate) log: LogConfig,
    #[serde(default)]
    pub(crate) metrics: MetricsConfig,
    #[serde(default)]
    pub(crate) audit: AuditConfig,
    /// Never empty once checked.
    #[serde(default = "agents::default_agents")]
    pub(crate) agents: Vec<AgentConfig>,
    /// Agent used when the caller names none.
    #[serde(skip)]
    pub(crate) default_agent: String,
}

impl Config {
    /// Reads a file, overridden by the environment.
    ///
    /// # Errors
    /// The file cannot be read, or the file or the environment contains an invalid setting.
    pub(crate) fn load(file: &Path) -> Result<Self, ConfigError> {
        Self::load_with(file, &[])
    }

    /// Reads a file, overridden by the environment and then by the command line. `overrides` uses the names of
    /// the environment variables.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub(crate) fn load_with(file: &Path, overrides: &[(&str, &str)]) -> Result<Self, ConfigError> {
        let (text, folder) = open(file)?;
        let overrides = overrides
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Self::read(&text, variables().into_iter().chain(overrides), folder)
            .map_err(|error| error.in_file(file.to_owned()))
    }

    /// Reads a text, overridden by these variables. Relative paths are relative to `folder`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub(crate) fn read(
        text: &str,
        variables: impl IntoIterator<Item = (String, String)>,
        folder: &Path,
    ) -> Result<Self, ConfigError> {
        let merged = MergedConfig::read(text, variables)?;
        if merged.has_section(&VERIFICATION_SECTIONS) && !merged.has_section(&EXECUTION_SECTIONS) {
            return Err(ConfigError::new(
                "execution",
                ValueSource::Default,
                ConfigErrorKind::Missing(
                    "this file configures a Verification Zone; run `interzone serve verification`, or add \
                     [execution] and [[agents]]"
                        .to_owned(),
                ),
            ));
        }
        let mut config: Self = deserializer::read(&merged.table, folder, &VERIFICATION_SECTIONS)?;
        config.check(folder, &Checker(&merged.table))?;
        Ok(config)
    }

    /// Reads a generated text, overridden by the environment.
    ///
    /// # Errors
    /// The environment contains an invalid setting.
    pub(crate) fn read_with_env(text: &str, folder: &Path) -> Result<Self, ConfigError> {
        Self::read(text, variables(), folder)
    }

    /// Replaces port 0 (any free port) in the public URL and the audience by the port that was bound.
    pub(crate) fn resolve_port(&mut self, port: u16) {
        let url = |config: &Self| {
            let url = config.execution.public_url.as_str();
            url.trim_end_matches('/').to_owned()
        };
        let placeholder = url(self);
        values::resolve_port(&mut self.execution.public_url, port);
        let resolved = url(self);
        for audience in &mut self.oauth.audience {
            if *audience == placeholder {
                audience.clone_from(&resolved);
            }
        }
    }

    /// Completes the values that depend on others, and checks that they fit together.
    fn check(&mut self, folder: &Path, checker: &Checker<'_>) -> Result<(), ConfigError> {
        self.store.resolve(folder);
        self.tls.check(!self.agentcore.enabled, checker)?;
        values::resolve_port(&mut self.execution.public_url, self.execution.listen.port());
        self.oauth.check(&self.execution.public_url, checker)?;
        check_issuer(&self.issuer, checker)?;
        self.console.check(checker)?;
        self.retention.requests = self.request_log.retention;
        self.retention.max_requests = self.request_log.max_entries;
        self.limits.hub.attempts = self.work.attempts;
        self.default_agent = agents::check(&mut self.agents, folder, checker)?;
        for (channel, agent) in &self.execution.channels {
            if !self.agents.iter().any(|known| known.id.as_str() == agent) {
                return Err(checker.refuse(
                    &format!("execution.channels.{channel}"),
                    format!("no agent named \"{agent}\"; add it to [[agents]], or use another"),
                ));
            }
        }
        Ok(())
    }
}

/// A key must outlive its tokens, and a revoked token must expire at some point.
fn check_issuer(issuer: &IssuerOptions, checker: &Checker<'_>) -> Result<(), ConfigError> {
    let (minute, day) = (Duration::from_secs(60), Duration::from_secs(86_400));
    if !(minute..=day).contains(&issuer.token_ttl) {
        return Err(checker.refuse(
            "issuer.token_lifetime",
            "write a duration between \"1m\" and \"1d\"",
        ));
    }
    if issuer.key_rotation < day {
        return Err(checker.refuse("issuer.key_rotation", "write a duration of at least \"1d\""));
    }
    Ok(())
}

/// File and environment, merged. The defaults are those of the options structs.
struct MergedConfig {
    table: Table,
    /// Top-level sections that the file contains.
    file_sections: Vec<String>,
}

impl MergedConfig {
    fn read(
        text: &str,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut table = layer::parse(text)?;
        let file_sections = table.keys().cloned().collect();
        for (name, value) in variables {
            let Some(path) = name.strip_prefix(ENV_PREFIX) else {
                continue;
            };
            let path: Vec<String> = path.split("__").map(str::to_lowercase).collect();
            layer::set_env(&mut table, &path, &name, value)?;
        }
        Ok(Self {
            table,
            file_sections,
        })
    }

    /// Returns true if the file contains any of these sections.
    fn has_section(&self, names: &[&str]) -> bool {
        let mut sections = self.file_sections.iter();
        sections.any(|name| names.contains(&name.as_str()))
    }
}

/// Returns the text of a configuration file and the folder that its relative paths start from.
fn open(file: &Path) -> Result<(String, &Path), ConfigError> {
    let text = fs::read_to_string(file)
        .map_err(|error| ConfigError::unreadable(file.to_owned(), error))?;
    // Symbolic links are not resolved: relative paths start from the folder the user sees.
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    Ok((text, folder))
}

/// Returns our environment variables, sorted. Variables that are not UTF-8 are skipped.
fn variables() -> Vec<(String, String)> {
    let mut variables: Vec<_> = env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with(ENV_PREFIX))
        .collect();
    // Sorted, so that the same error is reported first each time.
    variables.sort();
    variables
}

/// Returns an environment variable, if it is set and not empty.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the file that reads the environment"
)]
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// Parses a duration in the notation of the configuration.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    interzone_options::parse_duration(text)
}

/// Returns an environment variable that contains a path.
fn variable_path(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from)
}
