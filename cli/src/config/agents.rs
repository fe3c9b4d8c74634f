//! `[[agents]]`: the agents, and the default one.

mod llm;
mod remote;

pub(crate) use llm::{LlmConfig, ProviderConfig};
pub(crate) use remote::{PeerAddress, PeerCredentials, RemoteConfig};

use super::error::ConfigError;
use super::section::Section;
use super::variable;
use interzone_execution::agents::INHERITED_ENV_VARS;
use interzone_hub::Skill;
use interzone_protocol::vocab::AgentId;
use std::path::{Path, PathBuf};

/// Valid values of `kind`.
const KIND_HINT: &str = "write \"demo\", \"command\", \"llm\" or \"remote\"";

type Result<T> = std::result::Result<T, ConfigError>;

/// Settings of an agent.
#[derive(Debug)]
pub(crate) struct AgentConfig {
    pub(crate) id: AgentId,
    /// Concurrent runs; default depends on the kind.
    pub(crate) concurrency: Option<usize>,
    /// Display name; default depends on the kind.
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) skills: Vec<Skill>,
    pub(crate) kind: AgentKind,
}

/// Kind of agent, with its settings.
#[derive(Debug)]
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
#[derive(Debug)]
pub(crate) struct CommandConfig {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Working directory.
    pub(crate) cwd: PathBuf,
    /// Environment: the basic inherited variables, and those of the configuration.
    pub(crate) env: Vec<(String, String)>,
}

/// Reads all agents, and returns the id of the default one.
pub(super) fn read(root: &mut Section<'_>, folder: &Path) -> Result<(Vec<AgentConfig>, String)> {
    let mut agents: Vec<AgentConfig> = Vec::new();
    let mut default: Option<String> = None;
    for mut section in root.sections("agents")? {
        let is_default = section.flag("default")?.unwrap_or(false);
        let agent = AgentConfig::read(&mut section, folder)?;
        let id = agent.id.as_str();
        if agents.iter().any(|other| other.id == agent.id) {
            return Err(section.refuse(format!("duplicate agent id \"{id}\"; rename one")));
        }
        if is_default {
            if let Some(first) = &default {
                return Err(section.refuse(format!(
                    "\"{first}\" is already the default agent; remove one `default = true`"
                )));
            }
            default = Some(id.to_owned());
        }
        agents.push(agent);
        section.finish()?;
    }
    let first = agents.first().map(|agent| agent.id.as_str().to_owned());
    match default.or(first) {
        Some(default) => Ok((agents, default)),
        None => Err(root.missing("agents", "a zone needs at least one agent; add [[agents]]")),
    }
}

impl AgentConfig {
    fn read(section: &mut Section<'_>, folder: &Path) -> Result<Self> {
        let Some(id) = section.text("id")? else {
            return Err(section.missing("id", "callers select an agent by its id"));
        };
        let id = AgentId::new(&id.value).map_err(|error| id.refuse(error.to_string()))?;
        let Some(kind) = section.text("kind")? else {
            return Err(section.missing("kind", KIND_HINT));
        };
        let kind = match kind.value.as_str() {
            "demo" => AgentKind::Demo,
            "command" => AgentKind::Command(CommandConfig::read(section, folder)?),
            "llm" => AgentKind::Llm(Box::new(LlmConfig::read(section)?)),
            "remote" => AgentKind::Remote(Box::new(RemoteConfig::read(section)?)),
            _ => return Err(kind.refuse(KIND_HINT)),
        };
        let concurrency = section.number("concurrency", 1)?;
        // The demo agent describes itself.
        let is_configurable = !matches!(kind, AgentKind::Demo);
        let optional_text = |section: &mut Section<'_>, key| match is_configurable {
            true => Ok(section.text(key)?.map(|found| found.value)),
            false => Ok(None),
        };
        Ok(Self {
            id,
            concurrency: concurrency.and_then(|number| usize::try_from(number).ok()),
            name: optional_text(section, "name")?,
            description: optional_text(section, "description")?,
            skills: if is_configurable {
                skills(section)?
            } else {
                Vec::new()
            },
            kind,
        })
    }
}

impl CommandConfig {
    fn read(section: &mut Section<'_>, folder: &Path) -> Result<Self> {
        let command: Vec<String> = section
            .texts("command")?
            .into_iter()
            .map(|found| found.value)
            .collect();
        if command.first().is_none_or(String::is_empty) {
            return Err(section.missing(
                "command",
                "write the program and its arguments, as in [\"python3\", \"agent.py\"]",
            ));
        }
        let mut env: Vec<(String, String)> = INHERITED_ENV_VARS
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), variable(name)?)))
            .collect();
        env.extend(section.string_map("env")?);
        Ok(Self {
            command,
            cwd: section.path("cwd")?.unwrap_or_else(|| folder.to_owned()),
            env,
        })
    }
}

/// `[[agents.skills]]`: skills of an agent.
fn skills(section: &mut Section<'_>) -> Result<Vec<Skill>> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let read = |mut section: Section<'_>| {
        let id = section.text("id")?;
        let id = match id {
            Some(id) if !id.value.is_empty() && id.value.chars().all(plain) => id.value,
            Some(id) => return Err(id.refuse("write lower-case letters, digits and hyphens")),
            None => return Err(section.missing("id", "callers select a skill by its id")),
        };
        let name = section
            .text("name")?
            .map_or_else(|| id.clone(), |found| found.value);
        let description = section.text("description")?;
        let skill = Skill {
            description: description.map_or_else(|| name.clone(), |found| found.value),
            id,
            name,
            ..Skill::default()
        };
        section.finish()?;
        Ok(skill)
    };
    section.sections("skills")?.into_iter().map(read).collect()
}
