//! Creates the configured agents.

mod llm;
mod remote;

use super::StartError;
use crate::config::{
    AgentConfig, AgentKind, CommandConfig, Config, PeerAddress, ProviderConfig, SecretRef,
};
use interzone_edge::Secret;
use interzone_edge::tls::TrustRoots;
use interzone_execution::agents::{CommandAgent, CommandOptions, DemoAgent, Supervisor};
use interzone_execution::files::{FileReader, FileRules, InputRules};
use interzone_hub::{Agent, Registry};
use interzone_protocol::vocab::AgentId;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Default concurrent runs of the demo agent, which costs nearly nothing.
const DEMO_CONCURRENCY: usize = 256;

/// Whether this binary was built with the feature `aws`.
pub(crate) const HAS_AWS_SUPPORT: bool = cfg!(feature = "aws");

/// The agents, and those that are external programs and must be stopped.
pub(super) struct AgentSet {
    pub(super) registry: Registry,
    command_agents: Vec<Arc<CommandAgent>>,
}

/// Dependencies of agents.
pub(super) struct AgentDeps<'a> {
    pub(super) stop: &'a CancellationToken,
    pub(super) trust: &'a TrustRoots,
    pub(super) files: Arc<FileRules>,
    pub(super) reader: &'a FileReader,
    pub(super) input_rules: &'a InputRules,
}

impl AgentSet {
    pub(super) async fn start(config: &Config, deps: &AgentDeps<'_>) -> Result<Self, StartError> {
        let mut registry = Registry::default();
        let mut command_agents = Vec::new();
        for agent in &config.agents {
            check_aws_support(agent, HAS_AWS_SUPPORT)?;
            registry.add(create_agent(agent, deps, &mut command_agents).await?);
            if agent.id.as_str() == config.default_agent {
                registry.set_default(&agent.id).map_err(StartError::Hub)?;
            }
        }
        for (channel, agent) in &config.execution.channels {
            // The configuration was checked: the agent exists.
            if let Ok(id) = AgentId::new(agent) {
                registry
                    .route_channel(channel, &id)
                    .map_err(StartError::Hub)?;
            }
        }
        Ok(Self {
            registry,
            command_agents,
        })
    }

    /// Returns the external programs, to be stopped on shutdown.
    pub(super) fn command_agents(&self) -> Vec<Arc<CommandAgent>> {
        self.command_agents.clone()
    }
}

/// Checks that a binary with or without AWS support can run the agent.
///
/// # Errors
/// The agent needs AWS support, and the binary has none.
pub(crate) fn check_aws_support(config: &AgentConfig, has_support: bool) -> Result<(), StartError> {
    let needs_aws = match &config.kind {
        AgentKind::Demo | AgentKind::Command(_) => false,
        AgentKind::Llm(model) => matches!(model.provider, ProviderConfig::Bedrock { .. }),
        AgentKind::Remote(peer) => matches!(peer.address(), Ok(PeerAddress::Runtime { .. })),
    };
    match needs_aws && !has_support {
        true => Err(StartError::NoAws {
            id: config.id.to_string(),
        }),
        false => Ok(()),
    }
}

async fn create_agent(
    config: &AgentConfig,
    deps: &AgentDeps<'_>,
    command_agents: &mut Vec<Arc<CommandAgent>>,
) -> Result<Arc<dyn Agent>, StartError> {
    match &config.kind {
        AgentKind::Demo => {
            let runs = config.concurrency.unwrap_or(DEMO_CONCURRENCY);
            let demo = DemoAgent::new(config.id.clone(), runs);
            let demo = demo.with_reader(deps.reader.clone(), deps.input_rules.clone());
            Ok(Arc::new(demo))
        }
        AgentKind::Command(command) => {
            let agent = Arc::new(create_command_agent(config, command, deps.stop)?);
            command_agents.push(agent.clone());
            Ok(agent)
        }
        AgentKind::Llm(model) => llm::create_agent(config, model, deps).await,
        AgentKind::Remote(peer) => remote::create_agent(config, peer).await,
    }
}

fn create_command_agent(
    config: &AgentConfig,
    command: &CommandConfig,
    stop: &CancellationToken,
) -> Result<CommandAgent, StartError> {
    let defaults = CommandOptions::new(config.id.clone(), command.command.clone());
    let options = CommandOptions {
        name: config.name.clone().unwrap_or(defaults.name),
        description: config.description.clone().unwrap_or(defaults.description),
        skills: config.skills.clone(),
        profile: config.profile.clone(),
        supervisor: supervisor(),
        cwd: command.cwd.clone(),
        env: command.env.clone(),
        concurrency: config.concurrency.unwrap_or(defaults.concurrency),
        ..defaults
    };
    CommandAgent::start(options, stop).map_err(|error| StartError::Agent {
        id: config.id.to_string(),
        source: Box::new(error),
    })
}

/// Runs this executable as supervisor between the zone and a program, so that no subprocess of the program
/// outlives it. `/proc/self/exe` is the running file, even after an update has replaced it.
#[cfg(target_os = "linux")]
fn supervisor() -> Option<Supervisor> {
    let program = PathBuf::from("/proc/self/exe");
    if !program.exists() {
        tracing::warn!("/proc not mounted, agent subprocesses may outlive agents");
        return None;
    }
    let parent = std::process::id().to_string();
    let arguments = ["run-program", "--parent", &parent].map(str::to_owned);
    Some(Supervisor {
        program,
        name: "interzone".to_owned(),
        arguments: arguments.to_vec(),
    })
}

/// Other systems only have the process group.
#[cfg(not(target_os = "linux"))]
fn supervisor() -> Option<Supervisor> {
    None
}

/// Returns the secret that the configuration refers to.
///
/// # Errors
/// The secret is missing.
fn require_secret<'a>(
    config: &AgentConfig,
    secret_ref: &'a SecretRef,
) -> Result<&'a Secret, StartError> {
    secret_ref
        .secret()
        .ok_or_else(|| StartError::MissingSecret {
            id: config.id.to_string(),
            location: secret_ref.location.clone(),
        })
}

#[cfg(test)]
mod tests {
    use super::check_aws_support;
    use crate::config::Config;
    use std::path::Path;

    #[test]
    fn agent_that_needs_aws_is_refused_by_a_build_without_it() {
        let config = "[execution]\npublic_url = \"https://localhost:8443\"\n\
            [tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n\
            [[agents]]\nid = \"demo\"\nkind = \"demo\"\ndefault = true\n\
            [[agents]]\nid = \"model\"\nkind = \"llm\"\nprovider = \"bedrock\"\nmodel = \"m\"\n\
            region = \"eu-west-1\"\n\
            [[agents]]\nid = \"cloud\"\nkind = \"remote\"\nruntime = \"arn:aws:x\"\n\
            [[agents]]\nid = \"peer\"\nkind = \"remote\"\nurl = \"https://peer.example\"\n";
        let config = Config::read(config, [], Path::new(".")).unwrap();
        let refused: Vec<String> = (config.agents.iter())
            .filter_map(|agent| check_aws_support(agent, false).err())
            .map(|error| error.to_string())
            .collect();
        assert_eq!(refused.len(), 2, "{refused:?}");
        assert!(refused[0].starts_with("agent \"model\" needs AWS support"));
        assert!(refused[1].contains("build it with `--features aws`"));
        let supported = |agent| check_aws_support(agent, true).is_ok();
        assert!(config.agents.iter().all(supported));
    }
}
