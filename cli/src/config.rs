//! Configuration: merges the defaults, a file and the environment, and checks the values.
//!
//! `config.default.toml` is compiled in and is the reference of every key. The file overrides it, and the
//! environment (`INTERZONE__SECTION__KEY`) overrides the file. No other module reads the environment.
//! Nothing is opened or started here.

mod agents;
mod connection;
mod console;
mod env_detect;
mod error;
mod execution_sections;
mod layer;
mod oauth;
mod section;
mod slack;
mod store;
mod suggest;
mod summary;
mod units;
mod url;
mod verification;
mod zone;

#[cfg(test)]
pub(crate) mod key_recorder;
#[cfg(test)]
mod tests;

pub(crate) use agents::{
    AgentConfig, AgentKind, CommandConfig, LlmConfig, PeerAddress, PeerCredentials, ProviderConfig,
    RemoteConfig,
};
pub(crate) use connection::{CliEnvironment, ConnectionProfile, DATA_DIR, ProfileError};
pub(crate) use console::{ConsoleConfig, ConsoleIssuer};
pub(crate) use env_detect::{DetectedModel, DetectedSlack, IncompleteSlackEnv};
pub(crate) use error::ConfigError;
pub(crate) use execution_sections::AgentCoreConfig;
pub(crate) use oauth::OAuthConfig;
pub(crate) use section::SecretRef;
pub(crate) use slack::{InstallConfig, PolicyConfig, SlackConfig, SlackMode};
pub(crate) use store::{StoreConfig, StoreUrl};
pub(crate) use summary::{ConfigSummary, FileContent, FileRef};
pub(crate) use verification::{MessageLanguage, VerificationConfig, VerificationZoneConfig};
pub(crate) use zone::{
    AuditConfig, CardConfig, ExecutionConfig, IssuerConfig, LimitsConfig, LogConfig, LogFormat,
    ServerTlsConfig, TlsConfig, WebhookConfig, WorkConfig,
};

use error::ConfigErrorKind;
use interzone_execution::files::{FileRules, InputRules};
use interzone_execution::request_log::RequestLogScope;
use interzone_hub::Retention;
use layer::{Table, ValueSource};
use section::Section;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Every key with its default. Its comments are the reference documentation.
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

/// Checked configuration of an Execution Zone.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) store: StoreConfig,
    pub(crate) tls: TlsConfig,
    pub(crate) execution: ExecutionConfig,
    pub(crate) card: CardConfig,
    pub(crate) oauth: OAuthConfig,
    pub(crate) issuer: IssuerConfig,
    /// Exceptions from the egress filter for outgoing connections: `host:port`.
    pub(crate) egress_allow: Vec<String>,
    pub(crate) webhooks: WebhookConfig,
    pub(crate) limits: LimitsConfig,
    pub(crate) work: WorkConfig,
    pub(crate) retention: Retention,
    /// Rules for files that agents produce.
    pub(crate) files: FileRules,
    /// Rules for files that callers send.
    pub(crate) attachments: InputRules,
    /// Answered requests to record in the request log, if any.
    pub(crate) request_log: Option<RequestLogScope>,
    pub(crate) agentcore: AgentCoreConfig,
    pub(crate) console: ConsoleConfig,
    pub(crate) log: LogConfig,
    /// `/metrics` needs no token.
    pub(crate) metrics_public: bool,
    pub(crate) audit: AuditConfig,
    /// Never empty.
    pub(crate) agents: Vec<AgentConfig>,
    /// Agent used when the caller names none.
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
        let MergedConfig {
            table,
            file_sections: written,
        } = MergedConfig::read(text, variables)?;
        let has_section =
            |names: &[&str]| written.iter().any(|name| names.contains(&name.as_str()));
        if has_section(&VERIFICATION_SECTIONS) && !has_section(&EXECUTION_SECTIONS) {
            return Err(ConfigError::new(
                "execution",
                ValueSource::Default,
                ConfigErrorKind::Missing(
                    "this file configures a Verification Zone; run `interzone serve verification`, or add \
                     [execution] and [[agents]]",
                ),
            ));
        }
        let mut root = Section::root(table, folder);
        root.ignore(&VERIFICATION_SECTIONS);
        let config = Self::check(&mut root, folder)?;
        root.finish()?;
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
        let placeholder = self
            .execution
            .public_url
            .as_str()
            .trim_end_matches('/')
            .to_owned();
        if self.execution.public_url.port() != Some(0) {
            return;
        }
        // Fails only for URLs without a host, and this one has a host.
        let _ = self.execution.public_url.set_port(Some(port));
        let resolved = self
            .execution
            .public_url
            .as_str()
            .trim_end_matches('/')
            .to_owned();
        for audience in &mut self.oauth.audience {
            if *audience == placeholder {
                audience.clone_from(&resolved);
            }
        }
    }

    fn check(root: &mut Section<'_>, folder: &Path) -> Result<Self, ConfigError> {
        let execution = ExecutionConfig::read(root.section("execution")?)?;
        let (agents, default_agent) = agents::read(root, folder)?;
        let mut egress = root.section("egress")?;
        let egress_allow = zone::egress_allow(&mut egress)?;
        egress.finish()?;
        let mut metrics = root.section("metrics")?;
        let metrics_public = metrics.flag("public")?.unwrap_or(false);
        metrics.finish()?;
        let agentcore = AgentCoreConfig::read(root.section("agentcore")?)?;
        let mut retention = zone::retention(root.section("retention")?)?;
        let request_log =
            execution_sections::request_log(root.section("request_log")?, &mut retention)?;
        for (channel, agent) in &execution.channels {
            if !agents
                .iter()
                .any(|configured| configured.id.as_str() == agent)
            {
                let reason =
                    format!("no agent named \"{agent}\"; add it to [[agents]], or use another");
                return Err(ConfigError::new(
                    &format!("execution.channels.{channel}"),
                    ValueSource::Default,
                    ConfigErrorKind::InvalidValue(reason),
                ));
            }
        }
        Ok(Self {
            store: StoreConfig::read(root.section("store")?, folder)?,
            tls: TlsConfig::read(root.section("tls")?, folder, !agentcore.enabled)?,
            card: CardConfig::read(root.section("card")?)?,
            oauth: OAuthConfig::read(root.section("oauth")?, &execution)?,
            issuer: IssuerConfig::read(root.section("issuer")?)?,
            egress_allow,
            webhooks: WebhookConfig::read(root.section("webhooks")?)?,
            limits: LimitsConfig::read(root.section("limits")?)?,
            work: WorkConfig::read(root.section("work")?)?,
            retention,
            files: execution_sections::files(root.section("files")?)?,
            attachments: execution_sections::attachments(root.section("attachments")?)?,
            request_log,
            agentcore,
            console: ConsoleConfig::read(root.section("console")?)?,
            log: LogConfig::read(root.section("log")?)?,
            metrics_public,
            audit: AuditConfig::read(root.section("audit")?)?,
            execution,
            agents,
            default_agent,
        })
    }
}

/// Defaults, file and environment, merged.
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
        let mut table = layer::parse(DEFAULT_CONFIG, |_| ValueSource::Default)?;
        let file = layer::parse(text, ValueSource::Line)?;
        let written = file.keys().cloned().collect();
        layer::merge(&mut table, file);
        for (name, value) in variables {
            let Some(path) = name.strip_prefix(ENV_PREFIX) else {
                continue;
            };
            let path: Vec<String> = path.split("__").map(str::to_lowercase).collect();
            layer::set_env(&mut table, &path, &name, value)?;
        }
        Ok(Self {
            table,
            file_sections: written,
        })
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
pub(crate) fn parse_duration(text: &str) -> Option<std::time::Duration> {
    units::parse_duration(text)
}

/// Returns an environment variable that contains a path.
fn variable_path(name: &str) -> Option<PathBuf> {
    variable(name).map(PathBuf::from)
}
