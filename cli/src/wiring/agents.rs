//! Making the agents that the configuration names.

use super::StartError;
use crate::config::{AgentConfig, AgentKind, Config};
use interzone_execution::agents::{CommandAgent, CommandOptions, DemoAgent};
use interzone_hub::{Agent, Registry};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Runs of the demo agent at once: it costs nearly nothing.
const DEMO_RUNS: usize = 256;

/// The agents, and those among them that are programs and must be ended.
pub(super) struct Agents {
    pub(super) registry: Registry,
    programs: Vec<Arc<CommandAgent>>,
}

impl Agents {
    pub(super) fn start(config: &Config, stop: &CancellationToken) -> Result<Self, StartError> {
        let mut registry = Registry::default();
        let mut programs = Vec::new();
        for agent in &config.agents {
            registry.add(make(agent, stop, &mut programs)?);
            if agent.id.as_str() == config.default_agent {
                registry.set_default(&agent.id).map_err(StartError::Hub)?;
            }
        }
        Ok(Self { registry, programs })
    }

    /// The programs, to be ended when nobody needs them any more.
    pub(super) fn programs(&self) -> Vec<Arc<CommandAgent>> {
        self.programs.clone()
    }
}

fn make(
    config: &AgentConfig,
    stop: &CancellationToken,
    programs: &mut Vec<Arc<CommandAgent>>,
) -> Result<Arc<dyn Agent>, StartError> {
    let command = match &config.kind {
        AgentKind::Demo => {
            let runs = config.concurrency.unwrap_or(DEMO_RUNS);
            return Ok(Arc::new(DemoAgent::new(config.id.clone(), runs)));
        }
        AgentKind::Command(command) => command,
    };
    let usual = CommandOptions::new(config.id.clone(), command.command.clone());
    let options = CommandOptions {
        name: command.name.clone().unwrap_or(usual.name),
        description: command.description.clone().unwrap_or(usual.description),
        skills: command.skills.clone(),
        cwd: Some(command.cwd.clone()),
        env: command.env.iter().cloned().collect(),
        concurrency: config.concurrency.unwrap_or(usual.concurrency),
        ..usual
    };
    let agent = CommandAgent::start(options, stop).map_err(|error| StartError::Agent {
        id: config.id.to_string(),
        source: error,
    })?;
    let agent = Arc::new(agent);
    programs.push(agent.clone());
    Ok(agent)
}
