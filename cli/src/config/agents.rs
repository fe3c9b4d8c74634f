//! `[[agents]]`: the agents.

use super::check::{Checker, KeyError};
use super::error::ConfigError;
use super::secrets::SecretRef;
use super::values::{self, constant_url, optional_positive};
use super::variable;
use interzone_execution::agents::{INHERITED_ENV_VARS, RemoteDialect};
use interzone_hub::{AgentProfile, Skill};
use interzone_protocol::vocab::AgentId;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use url::Url;

/// Size limit of a system prompt file.
const MAX_SYSTEM_PROMPT_SIZE: u64 = 256 * 1024;

/// Settings of an agent.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentConfig {
    #[serde(deserialize_with = "agent_id")]
    pub(crate) id: AgentId,
    /// Used for calls that name no agent.
    #[serde(default)]
    pub(crate) default: bool,
    /// Concurrent runs; default depends on the kind.
    #[serde(default, deserialize_with = "optional_positive")]
    pub(crate) concurrency: Option<usize>,
    /// Display name; default depends on the kind.
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) description: Option<String>,
    #[serde(default, deserialize_with = "skills")]
    pub(crate) skills: Vec<Skill>,
    /// Further details of its public description.
    #[serde(rename = "..profile")]
    pub(crate) profile: AgentProfile,
    #[serde(rename = "..kind")]
    pub(crate) kind: AgentKind,
}

/// Kind of agent, with its settings.
#[derive(Debug, Deserialize)]
#[serde(rename = "kind", rename_all = "lowercase")]
pub(crate) enum AgentKind {
    /// The built-in demo agent.
    Demo,
    /// An external program.
    Command(CommandConfig),
    /// A language model.
    Llm(Box<LlmConfig>),
    /// An agent on another server.
    Remote(Box<RemoteConfig>),
}

/// Settings of an external program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandConfig {
    /// The program and its arguments.
    #[serde(deserialize_with = "command")]
    pub(crate) command: Vec<String>,
    /// Working directory; default: the folder of the configuration file.
    #[serde(default, deserialize_with = "values::path")]
    pub(crate) cwd: Option<PathBuf>,
    /// Environment. The basic inherited variables are added when the configuration is checked.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
}

/// A language model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LlmConfig {
    #[serde(rename = "..provider")]
    pub(crate) provider: ProviderConfig,
    #[serde(deserialize_with = "model")]
    pub(crate) model: String,
    #[serde(rename = "..key")]
    pub(crate) key: Option<SecretRef>,
    /// System prompt; read from `system_file` when the configuration is checked, if that is set.
    #[serde(default)]
    pub(crate) system: Option<String>,
    #[serde(default, deserialize_with = "values::path")]
    system_file: Option<PathBuf>,
    #[serde(default, deserialize_with = "optional_positive")]
    pub(crate) max_tokens: Option<u32>,
    #[serde(default, deserialize_with = "temperature")]
    pub(crate) temperature: Option<f32>,
    pub(crate) connect_timeout: Option<Duration>,
    pub(crate) first_token_timeout: Option<Duration>,
    pub(crate) idle_timeout: Option<Duration>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retries: Option<u32>,
}

/// Provider of a model, and its address.
#[derive(Debug, Deserialize)]
#[serde(rename = "provider", rename_all = "lowercase")]
pub(crate) enum ProviderConfig {
    OpenAi {
        #[serde(default = "openai_url", deserialize_with = "values::base_url")]
        base_url: Url,
        #[serde(default)]
        native_files: bool,
        #[serde(default = "enabled")]
        images: bool,
    },
    Anthropic {
        #[serde(default = "anthropic_url", deserialize_with = "values::base_url")]
        base_url: Url,
    },
    Bedrock {
        #[serde(deserialize_with = "region")]
        region: String,
        #[serde(default, deserialize_with = "values::base_url")]
        endpoint: Option<Url>,
    },
}

/// An agent on another server.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoteConfig {
    #[serde(default, deserialize_with = "values::secure_url")]
    url: Option<Url>,
    #[serde(default, deserialize_with = "runtime")]
    runtime: Option<String>,
    qualifier: Option<String>,
    #[serde(default, deserialize_with = "values::secure_url")]
    endpoint: Option<Url>,
    #[serde(default)]
    pub(crate) dialect: RemoteDialect,
    /// Id of the agent on the peer.
    pub(crate) assign_to: Option<String>,
    client_id: Option<String>,
    #[serde(rename = "..client_secret")]
    client_secret: Option<SecretRef>,
    #[serde(default, deserialize_with = "values::secure_url")]
    token_url: Option<Url>,
    #[serde(rename = "..token")]
    token: Option<SecretRef>,
    /// CA that the peer's certificate is verified with.
    #[serde(default, deserialize_with = "values::path")]
    pub(crate) ca: Option<PathBuf>,
    pub(crate) poll_interval: Option<Duration>,
}

/// Address of a remote agent.
#[derive(Debug)]
pub(crate) enum PeerAddress<'a> {
    /// HTTPS URL.
    Url(&'a Url),
    /// AgentCore runtime.
    Runtime {
        arn: &'a str,
        qualifier: Option<&'a str>,
        endpoint: Option<&'a Url>,
    },
}

/// Credentials for a remote agent.
#[derive(Debug)]
pub(crate) enum PeerCredentials<'a> {
    /// A fixed bearer token.
    Token(&'a SecretRef),
    /// OAuth2 client credentials.
    Client {
        id: &'a str,
        secret: &'a SecretRef,
        token_url: Option<&'a Url>,
    },
    /// No credentials.
    None,
}

/// The agent of a configuration that has none.
pub(super) fn default_agents() -> Vec<AgentConfig> {
    let demo = AgentId::new("demo").ok().map(|id| AgentConfig {
        id,
        default: false,
        concurrency: None,
        name: None,
        description: None,
        skills: Vec::new(),
        profile: AgentProfile::default(),
        kind: AgentKind::Demo,
    });
    demo.into_iter().collect()
}

/// Checks all agents, and returns the id of the default one.
pub(super) fn check(
    agents: &mut [AgentConfig],
    folder: &Path,
    checker: &Checker<'_>,
) -> Result<String, ConfigError> {
    let mut ids: Vec<String> = Vec::new();
    let mut default: Option<String> = None;
    for (index, agent) in agents.iter_mut().enumerate() {
        let table = format!("agents[{index}]");
        let id = agent.id.to_string();
        check_profile(&agent.profile, &agent.skills)
            .map_err(|error| checker.in_table(&table, &error))?;
        if ids.contains(&id) {
            let reason = format!("duplicate agent id \"{id}\"; rename one");
            return Err(checker.refuse(&table, reason));
        }
        if agent.default {
            if let Some(first) = &default {
                return Err(checker.refuse(
                    &table,
                    format!(
                        "\"{first}\" is already the default agent; remove one `default = true`"
                    ),
                ));
            }
            default = Some(id.clone());
        }
        match &mut agent.kind {
            AgentKind::Demo => agent.check_demo(),
            AgentKind::Command(command) => {
                command.complete(folder);
                Ok(())
            }
            AgentKind::Llm(model) => {
                model
                    .read_system_file()
                    .map_err(|reason| checker.refuse(&format!("{table}.system_file"), reason))?;
                Ok(())
            }
            AgentKind::Remote(peer) => peer.check(),
        }
        .map_err(|error| checker.in_table(&table, &error))?;
        ids.push(id);
    }
    default
        .or(ids.into_iter().next())
        .ok_or_else(|| checker.missing("agents", "a zone needs at least one agent; add [[agents]]"))
}

/// Checks the URL and the media types of an agent's public description.
fn check_profile(profile: &AgentProfile, skills: &[Skill]) -> Result<(), KeyError> {
    if let Some(url) = &profile.documentation_url {
        let url = Url::parse(url).ok();
        if !url.is_some_and(|url| matches!(url.scheme(), "https" | "http")) {
            const NOT_A_URL: &str = "write a URL that begins with https://";
            return Err(KeyError::refused("documentation_url", NOT_A_URL));
        }
    }
    let skill_modes = |modes: fn(&Skill) -> &Vec<String>| skills.iter().flat_map(modes);
    let input = profile.input_modes.iter();
    let output = profile.output_modes.iter();
    for (key, invalid) in [
        (
            "input_modes",
            input
                .chain(skill_modes(|skill| &skill.input_modes))
                .find(|mode| !is_media_type(mode)),
        ),
        (
            "output_modes",
            output
                .chain(skill_modes(|skill| &skill.output_modes))
                .find(|mode| !is_media_type(mode)),
        ),
    ] {
        if invalid.is_some() {
            const NOT_A_TYPE: &str = "write media types, as in [\"text/plain\", \"image/*\"]";
            return Err(KeyError::refused(key, NOT_A_TYPE));
        }
    }
    Ok(())
}

/// True for `type/subtype` in visible ASCII; either may be `*`.
fn is_media_type(text: &str) -> bool {
    let is_token = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_graphic() && c != '/' && c != ',')
    };
    text.split_once('/')
        .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

impl AgentConfig {
    /// The demo agent describes itself.
    fn check_demo(&self) -> Result<(), KeyError> {
        const FIXED: &str = "fixed for the demo agent; remove it";
        for (key, is_set) in [
            ("name", self.name.is_some()),
            ("description", self.description.is_some()),
            ("skills", !self.skills.is_empty()),
            ("version", self.profile.version.is_some()),
            (
                "documentation_url",
                self.profile.documentation_url.is_some(),
            ),
            ("tags", !self.profile.tags.is_empty()),
            ("examples", !self.profile.examples.is_empty()),
            ("input_modes", !self.profile.input_modes.is_empty()),
            ("output_modes", !self.profile.output_modes.is_empty()),
        ] {
            if is_set {
                return Err(KeyError::refused(key, FIXED));
            }
        }
        Ok(())
    }
}

impl CommandConfig {
    /// Adds the default working directory and the inherited variables.
    fn complete(&mut self, folder: &Path) {
        self.cwd.get_or_insert_with(|| folder.to_owned());
        for name in INHERITED_ENV_VARS {
            if let Some(value) = variable(name) {
                self.env.entry(name.to_owned()).or_insert(value);
            }
        }
    }
}

impl LlmConfig {
    fn read_system_file(&mut self) -> Result<(), String> {
        let Some(path) = &self.system_file else {
            return Ok(());
        };
        if self.system.is_some() {
            return Err("`system` is set too; keep one of the two".to_owned());
        }
        let text = fs::metadata(path).and_then(|meta| {
            if meta.len() > MAX_SYSTEM_PROMPT_SIZE {
                return Err(std::io::Error::other("too large for a system prompt"));
            }
            fs::read_to_string(path)
        });
        let text = text.map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        self.system = Some(text);
        Ok(())
    }
}

impl RemoteConfig {
    fn check(&self) -> Result<(), KeyError> {
        if self.assign_to.is_some() && self.dialect == RemoteDialect::Zone {
            const ACP_ONLY: &str = "only supported with `dialect = \"acp\"`; remove it";
            return Err(KeyError::refused("assign_to", ACP_ONLY));
        }
        self.address()?;
        self.credentials()?;
        Ok(())
    }

    /// Returns the address.
    ///
    /// # Errors
    /// None or two are set; never in a checked configuration.
    pub(crate) fn address(&self) -> Result<PeerAddress<'_>, KeyError> {
        match (&self.url, &self.runtime) {
            (Some(_), Some(_)) => Err(KeyError::refused(
                "url",
                "`runtime` is set too; keep one of the two",
            )),
            (None, None) => Err(KeyError::missing(
                "url",
                "set the agent's URL, or `runtime`",
            )),
            (Some(_), None) if self.qualifier.is_some() || self.endpoint.is_some() => {
                let key = match self.qualifier {
                    Some(_) => "qualifier",
                    None => "endpoint",
                };
                Err(KeyError::refused(
                    key,
                    "only used with `runtime`; remove it",
                ))
            }
            (Some(url), None) => Ok(PeerAddress::Url(url)),
            (None, Some(arn)) => Ok(PeerAddress::Runtime {
                arn,
                qualifier: self.qualifier.as_deref(),
                endpoint: self.endpoint.as_ref(),
            }),
        }
    }

    /// Returns the secret among the credentials.
    pub(crate) fn secret(&self) -> Option<&SecretRef> {
        self.token.as_ref().or(self.client_secret.as_ref())
    }

    /// Returns the credentials.
    ///
    /// # Errors
    /// They are incomplete or ambiguous; never in a checked configuration.
    pub(crate) fn credentials(&self) -> Result<PeerCredentials<'_>, KeyError> {
        match (&self.client_id, &self.client_secret, &self.token) {
            (Some(_), _, Some(_)) => Err(KeyError::refused(
                "client_id",
                "a token is set too; keep one of the two",
            )),
            (Some(id), Some(secret), None) => Ok(PeerCredentials::Client {
                id,
                secret,
                token_url: self.token_url.as_ref(),
            }),
            (Some(_), None, None) => Err(KeyError::refused(
                "client_id",
                "requires `client_secret_file` or `client_secret_env`",
            )),
            (None, Some(_), _) => Err(KeyError::missing(
                "client_id",
                "the secret cannot be used without it",
            )),
            (None, None, Some(token)) => Ok(PeerCredentials::Token(token)),
            (None, None, None) => Ok(PeerCredentials::None),
        }
    }
}

fn enabled() -> bool {
    true
}

fn openai_url() -> Url {
    constant_url("https://api.openai.com/v1")
}

fn anthropic_url() -> Url {
    constant_url("https://api.anthropic.com")
}

fn agent_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AgentId, D::Error> {
    AgentId::new(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

fn command<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let command = Vec::<String>::deserialize(deserializer)?;
    match command.first().is_none_or(String::is_empty) {
        false => Ok(command),
        true => Err(D::Error::missing_field("command")),
    }
}

fn model<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let model = String::deserialize(deserializer)?;
    match model.trim() {
        "" => Err(D::Error::custom("set the provider's model name")),
        _ => Ok(model),
    }
}

fn temperature<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f32>, D::Error> {
    let temperature = f32::deserialize(deserializer)?;
    match (0.0..=2.0).contains(&temperature) {
        true => Ok(Some(temperature)),
        false => Err(D::Error::custom("write a number between 0 and 2")),
    }
}

fn region<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let region = String::deserialize(deserializer)?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match !region.is_empty() && region.chars().all(plain) {
        true => Ok(region),
        false => Err(D::Error::custom(
            "write an AWS region, as in \"eu-central-1\"",
        )),
    }
}

fn runtime<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let arn = String::deserialize(deserializer)?;
    match arn.starts_with("arn:") {
        true => Ok(Some(arn)),
        false => Err(D::Error::custom("write the ARN of an AgentCore runtime")),
    }
}

/// `[[agents.skills]]`: a skill, by which callers can select the agent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SkillConfig {
    #[serde(deserialize_with = "skill_id")]
    id: String,
    name: Option<String>,
    description: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    examples: Vec<String>,
    #[serde(default)]
    input_modes: Vec<String>,
    #[serde(default)]
    output_modes: Vec<String>,
}

fn skills<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Skill>, D::Error> {
    let skills = Vec::<SkillConfig>::deserialize(deserializer)?;
    let skill = |skill: SkillConfig| {
        let name = skill.name.unwrap_or_else(|| skill.id.clone());
        Skill {
            description: skill.description.unwrap_or_else(|| name.clone()),
            id: skill.id,
            name,
            tags: skill.tags,
            examples: skill.examples,
            input_modes: skill.input_modes,
            output_modes: skill.output_modes,
        }
    };
    Ok(skills.into_iter().map(skill).collect())
}

fn skill_id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let id = String::deserialize(deserializer)?;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match !id.is_empty() && id.chars().all(plain) {
        true => Ok(id),
        false => Err(D::Error::custom(
            "write lower-case letters, digits and hyphens",
        )),
    }
}
