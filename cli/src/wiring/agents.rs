//! Making the agents that the configuration names.

mod llm;
mod remote;

use super::StartError;
use crate::config::{AgentConfig, AgentKind, CommandConfig, Config, Elsewhere};
use interzone_edge::Secret;
use interzone_edge::tls::Trust;
use interzone_execution::agents::{CommandAgent, CommandOptions, DemoAgent};
use interzone_execution::files::{FileReader, FileRules, InputRules};
use interzone_hub::{Agent, Registry};
use interzone_protocol::vocab::AgentId;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Runs of the demo agent at once: it costs nearly nothing.
const DEMO_RUNS: usize = 256;

/// The agents, and those among them that are programs and must be ended.
pub(super) struct Agents {
    pub(super) registry: Registry,
    programs: Vec<Arc<CommandAgent>>,
}

/// What agents share.
pub(super) struct Surroundings<'a> {
    pub(super) stop: &'a CancellationToken,
    pub(super) trust: &'a Trust,
    pub(super) files: Arc<FileRules>,
    pub(super) reader: &'a FileReader,
    pub(super) input: &'a InputRules,
}

impl Agents {
    pub(super) async fn start(
        config: &Config,
        around: &Surroundings<'_>,
    ) -> Result<Self, StartError> {
        let mut registry = Registry::default();
        let mut programs = Vec::new();
        for agent in &config.agents {
            registry.add(make(agent, around, &mut programs).await?);
            if agent.id.as_str() == config.default_agent {
                registry.set_default(&agent.id).map_err(StartError::Hub)?;
            }
        }
        for (channel, agent) in &config.execution.channels {
            // The configuration was checked to name one that is there.
            if let Ok(id) = AgentId::new(agent) {
                registry
                    .route_channel(channel, &id)
                    .map_err(StartError::Hub)?;
            }
        }
        Ok(Self { registry, programs })
    }

    /// The programs, to be ended when nobody needs them any more.
    pub(super) fn programs(&self) -> Vec<Arc<CommandAgent>> {
        self.programs.clone()
    }
}

async fn make(
    config: &AgentConfig,
    around: &Surroundings<'_>,
    programs: &mut Vec<Arc<CommandAgent>>,
) -> Result<Arc<dyn Agent>, StartError> {
    match &config.kind {
        AgentKind::Demo => {
            let runs = config.concurrency.unwrap_or(DEMO_RUNS);
            let demo = DemoAgent::new(config.id.clone(), runs);
            let demo = demo.with_reader(around.reader.clone(), around.input.clone());
            Ok(Arc::new(demo))
        }
        AgentKind::Command(command) => {
            let agent = Arc::new(program(config, command, around.stop)?);
            programs.push(agent.clone());
            Ok(agent)
        }
        AgentKind::Llm(model) => llm::make(config, model, around).await,
        AgentKind::Remote(peer) => remote::make(config, peer).await,
    }
}

fn program(
    config: &AgentConfig,
    command: &CommandConfig,
    stop: &CancellationToken,
) -> Result<CommandAgent, StartError> {
    let usual = CommandOptions::new(config.id.clone(), command.command.clone());
    let options = CommandOptions {
        name: config.name.clone().unwrap_or(usual.name),
        description: config.description.clone().unwrap_or(usual.description),
        skills: config.skills.clone(),
        cwd: Some(command.cwd.clone()),
        env: command.env.iter().cloned().collect(),
        concurrency: config.concurrency.unwrap_or(usual.concurrency),
        ..usual
    };
    CommandAgent::start(options, stop).map_err(|error| StartError::Agent {
        id: config.id.to_string(),
        source: Box::new(error),
    })
}

/// The secret that is kept elsewhere.
///
/// # Errors
/// It is not there.
fn secret<'a>(config: &AgentConfig, kept: &'a Elsewhere) -> Result<&'a Secret, StartError> {
    kept.secret.as_ref().ok_or_else(|| StartError::NoSecret {
        id: config.id.to_string(),
        place: kept.place.clone(),
    })
}
