//! `[[agents]]`: who does the work, and who of them answers those who name nobody.

use super::error::ConfigError;
use super::section::Section;
use interzone_protocol::vocab::AgentId;
use std::path::{Path, PathBuf};

type Result<T> = std::result::Result<T, ConfigError>;

/// An agent.
#[derive(Debug)]
pub(crate) struct AgentConfig {
    pub(crate) id: AgentId,
    pub(crate) name: Option<String>,
    pub(crate) description: Option<String>,
    /// Runs at once; the kind's own default if not said.
    pub(crate) concurrency: Option<usize>,
    pub(crate) kind: AgentKind,
}

/// What kind of agent.
#[derive(Debug)]
pub(crate) enum AgentKind {
    /// The built-in one.
    Demo,
    /// A program.
    Command(CommandConfig),
}

/// A program that answers.
#[derive(Debug)]
pub(crate) struct CommandConfig {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Where it runs.
    pub(crate) cwd: PathBuf,
    /// What it gets in its environment besides what it needs to run at all.
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
        None => Err(whole.missing("agents", "a zone needs somebody who answers; add [[agents]]")),
    }
}

impl AgentConfig {
    fn read(section: &mut Section<'_>, folder: &Path) -> Result<Self> {
        let Some(id) = section.text("id")? else {
            return Err(section.missing("id", "callers ask for an agent by it"));
        };
        let id = AgentId::new(&id.value).map_err(|error| id.refuse(error.to_string()))?;
        let Some(kind) = section.text("kind")? else {
            return Err(section.missing("kind", "write \"demo\" or \"command\""));
        };
        let kind = match kind.value.as_str() {
            "demo" => AgentKind::Demo,
            "command" => AgentKind::Command(CommandConfig::read(section, folder)?),
            _ => return Err(kind.refuse("write \"demo\" or \"command\"")),
        };
        let concurrency = section.number("concurrency", 1)?;
        Ok(Self {
            id,
            name: section.text("name")?.map(|found| found.value),
            description: section.text("description")?.map(|found| found.value),
            concurrency: concurrency.and_then(|number| usize::try_from(number).ok()),
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
        Ok(Self {
            command,
            cwd: section.path("cwd")?.unwrap_or_else(|| folder.to_owned()),
            env: section.named_texts("env")?,
        })
    }
}
