//! `[[agents]]`: who does the work, and who of them answers those who name nobody.

mod llm;
mod remote;

pub(crate) use llm::{LlmConfig, ProviderConfig};
pub(crate) use remote::{PeerPlace, ProofConfig, RemoteConfig};

use super::error::ConfigError;
use super::section::Section;
use super::variable;
use interzone_execution::agents::INHERITED;
use interzone_hub::Skill;
use interzone_protocol::vocab::AgentId;
use std::path::{Path, PathBuf};

/// Every kind there is.
const KINDS: &str = "write \"demo\", \"command\", \"llm\" or \"remote\"";

type Result<T> = std::result::Result<T, ConfigError>;

/// An agent.
#[derive(Debug)]
pub(crate) struct AgentConfig {
    pub(crate) id: AgentId,
    /// Runs at once; the kind's own default if not said.
    pub(crate) concurrency: Option<usize>,
    /// For people; else the kind's own.
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) skills: Vec<Skill>,
    pub(crate) kind: AgentKind,
}

/// What kind of agent.
#[derive(Debug)]
pub(crate) enum AgentKind {
    /// The built-in one.
    Demo,
    /// A program.
    Command(CommandConfig),
    /// A language model.
    Llm(Box<LlmConfig>),
    /// Somebody else's agent.
    Remote(Box<RemoteConfig>),
}

/// A program that answers.
#[derive(Debug)]
pub(crate) struct CommandConfig {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Where it runs.
    pub(crate) cwd: PathBuf,
    /// Its environment: what any program needs to run at all, and what the configuration adds.
    pub(crate) env: Vec<(String, String)>,
}

/// Reads all agents, and the id of the default one.
pub(super) fn read(whole: &mut Section<'_>, folder: &Path) -> Result<(Vec<AgentConfig>, String)> {
    let mut agents: Vec<AgentConfig> = Vec::new();
    let mut default: Option<String> = None;
    for mut section in whole.sections("agents")? {
        let is_default = section.flag("default")?.unwrap_or(false);
        let agent = AgentConfig::read(&mut section, folder)?;
        let id = agent.id.as_str();
        if agents.iter().any(|other| other.id == agent.id) {
            return Err(section.refuse(format!("there are two agents \"{id}\"; rename one")));
        }
        if is_default {
            if let Some(first) = &default {
                return Err(section.refuse(format!(
                    "\"{first}\" is the default agent already; remove one `default = true`"
                )));
            }
            default = Some(id.to_owned());
        }
        agents.push(agent);
        section.end()?;
    }
    let first = agents.first().map(|agent| agent.id.as_str().to_owned());
    match default.or(first) {
        Some(default) => Ok((agents, default)),
        None => Err(whole.missing(
            "agents",
            "a zone needs somebody who answers; add [[agents]]",
        )),
    }
}

impl AgentConfig {
    fn read(section: &mut Section<'_>, folder: &Path) -> Result<Self> {
        let Some(id) = section.text("id")? else {
            return Err(section.missing("id", "callers ask for an agent by it"));
        };
        let id = AgentId::new(&id.value).map_err(|error| id.refuse(error.to_string()))?;
        let Some(kind) = section.text("kind")? else {
            return Err(section.missing("kind", KINDS));
        };
        let kind = match kind.value.as_str() {
            "demo" => AgentKind::Demo,
            "command" => AgentKind::Command(CommandConfig::read(section, folder)?),
            "llm" => AgentKind::Llm(Box::new(LlmConfig::read(section)?)),
            "remote" => AgentKind::Remote(Box::new(RemoteConfig::read(section)?)),
            _ => return Err(kind.refuse(KINDS)),
        };
        let concurrency = section.number("concurrency", 1)?;
        // The built-in one says itself who it is.
        let named = !matches!(kind, AgentKind::Demo);
        let word = |section: &mut Section<'_>, key| match named {
            true => Ok(section.text(key)?.map(|found| found.value)),
            false => Ok(None),
        };
        Ok(Self {
            id,
            concurrency: concurrency.and_then(|number| usize::try_from(number).ok()),
            name: word(section, "name")?,
            description: word(section, "description")?,
            skills: if named { skills(section)? } else { Vec::new() },
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
        let mut env: Vec<(String, String)> = INHERITED
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), variable(name)?)))
            .collect();
        env.extend(section.named_texts("env")?);
        Ok(Self {
            command,
            cwd: section.path("cwd")?.unwrap_or_else(|| folder.to_owned()),
            env,
        })
    }
}

/// `[[agents.skills]]`: what an agent is good at.
fn skills(section: &mut Section<'_>) -> Result<Vec<Skill>> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let read = |mut section: Section<'_>| {
        let id = section.text("id")?;
        let id = match id {
            Some(id) if !id.value.is_empty() && id.value.chars().all(plain) => id.value,
            Some(id) => return Err(id.refuse("write lower-case letters, digits and hyphens")),
            None => return Err(section.missing("id", "callers ask for a skill by it")),
        };
        let name = section
            .text("name")?
            .map_or_else(|| id.clone(), |found| found.value);
        let description = section.text("description")?;
        let skill = Skill {
            description: description.map_or_else(|| name.clone(), |found| found.value),
            id,
            name,
        };
        section.end()?;
        Ok(skill)
    };
    section.sections("skills")?.into_iter().map(read).collect()
}
