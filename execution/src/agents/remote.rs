//! Remote agent: another Interzone, another ACP server, or a zone (`execute_task`) as an agent of this one.
//!
//! The peer's output is relayed while it arrives, and cancellation is forwarded to the peer. The operator chose the
//! peer, so its URL is not checked here; its output is still untrusted.

mod acp;
mod errors;
mod forwarding;
mod relay;
mod zone;

use super::stopped_error;
use async_trait::async_trait;
use forwarding::ForwardingContext;
use interzone_client::Client;
use interzone_hub::{
    Agent, AgentError, AgentInfo, AgentProfile, Skill, Turn, TurnOutcome, TurnOutput,
    failure_message,
};
use interzone_protocol::vocab::AgentId;
use interzone_protocol::zone::ErrorReason;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of times that a task may be forwarded. It ends forwarding loops between zones.
pub const MAX_HOPS: u32 = 8;

/// Time limit of each step of canceling the peer's task. Less than the grace period of a canceled agent.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(3);

/// Dialect of a peer.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum RemoteDialect {
    /// ACP: `tasks.create` and what follows.
    #[default]
    Acp,
    /// `execute_task`.
    Zone,
}

/// Options of a remote agent.
#[derive(Clone)]
pub struct RemoteOptions {
    /// The agent's id here.
    pub id: AgentId,
    /// Display name.
    pub name: String,
    /// Description shown to users.
    pub description: String,
    /// Advertised skills.
    pub skills: Vec<Skill>,
    /// Further details of its public description.
    pub profile: AgentProfile,
    /// Client for the peer, with this zone's own credentials.
    pub client: Client,
    /// Dialect of the peer.
    pub dialect: RemoteDialect,
    /// Agent to assign at the peer; only ACP supports it.
    pub assign_to: Option<String>,
    /// First polling interval for a peer that cannot be watched; multiplied by 1.5 each time, up to five times the
    /// first.
    pub poll_interval: Duration,
    /// Maximum number of concurrent runs.
    pub concurrency: usize,
}

impl RemoteOptions {
    /// Default options for a peer.
    pub fn new(id: AgentId, client: Client) -> Self {
        let name = id.to_string();
        Self {
            id,
            description: format!("Remote agent {name}."),
            name,
            skills: Vec::new(),
            profile: AgentProfile::default(),
            client,
            dialect: RemoteDialect::default(),
            assign_to: None,
            poll_interval: Duration::from_secs(2),
            concurrency: 16,
        }
    }
}

/// Agent that runs at a peer.
pub struct RemoteAgent {
    info: AgentInfo,
    client: Client,
    dialect: RemoteDialect,
    assign_to: Option<String>,
    poll_interval: Duration,
}

impl RemoteAgent {
    /// Creates an agent for a peer. It does not connect yet.
    pub fn new(options: RemoteOptions) -> Self {
        Self {
            info: AgentInfo {
                id: options.id,
                name: options.name,
                description: options.description,
                skills: options.skills,
                concurrency: options.concurrency.max(1),
                profile: options.profile,
            },
            client: options.client,
            dialect: options.dialect,
            assign_to: options.assign_to,
            poll_interval: options.poll_interval,
        }
    }
}

#[async_trait]
impl Agent for RemoteAgent {
    fn info(&self) -> &AgentInfo {
        &self.info
    }

    async fn run(
        &self,
        turn: Turn,
        output: Arc<dyn TurnOutput>,
    ) -> Result<TurnOutcome, AgentError> {
        let forwarding = ForwardingContext::from_turn(&turn);
        if forwarding.hops >= MAX_HOPS {
            let text = "The task was forwarded between agents too many times.";
            let message = failure_message(ErrorReason::AgentRejected.name(), text);
            return Ok(TurnOutcome::Rejected(Some(message)));
        }
        if turn.cancel_token.is_cancelled() {
            return Err(stopped_error());
        }
        let client = forwarding.client(&self.client);
        match self.dialect {
            RemoteDialect::Acp => {
                acp::run(self, &client, &forwarding, &turn, output.as_ref()).await
            }
            RemoteDialect::Zone => {
                zone::run(self, &client, &forwarding, &turn, output.as_ref()).await
            }
        }
    }
}

#[cfg(test)]
mod tests;
