//! The remote agent: another Interzone, any other ACP server, or a zone by `execute_task`, as an agent
//! of this one.
//!
//! What the peer says and makes is passed on as it comes; what is asked of this agent is asked of the
//! peer, its end included. The peer is the operator's choice, so its address is not judged here; what
//! it says is still from outside.

mod acp;
mod carried;
mod faults;
mod passing;
mod zone;

use super::stopped;
use async_trait::async_trait;
use carried::Carried;
use interzone_client::Client;
use interzone_hub::{Agent, AgentError, AgentInfo, Outcome, Output, Skill, Turn, failure};
use interzone_protocol::vocab::AgentId;
use interzone_protocol::zone::ErrorWord;
use std::sync::Arc;
use std::time::Duration;

/// A task may be passed on so often. Zones that pass work around in a ring end there.
pub const MOST_HOPS: u32 = 8;

/// How long it may take to call off what the peer does, each step of it. Less than an agent that was
/// told to stop may take.
const FAREWELL: Duration = Duration::from_secs(3);

/// In which words the peer is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RemoteDialect {
    /// ACP: `tasks.create` and what follows.
    #[default]
    Acp,
    /// `execute_task`.
    Zone,
}

/// How a peer is reached.
#[derive(Clone)]
pub struct RemoteOptions {
    /// The agent's id here.
    pub id: AgentId,
    /// A name for people.
    pub name: String,
    /// What it does, for people.
    pub description: String,
    /// What it is good at.
    pub skills: Vec<Skill>,
    /// Calls the peer, with this zone's own credentials.
    pub client: Client,
    /// In which words.
    pub dialect: RemoteDialect,
    /// The peer's agent that is wanted; only ACP has a word for it.
    pub assign_to: Option<String>,
    /// How soon a peer that cannot be watched is asked again; each time half as long again, up to five
    /// times as long.
    pub poll: Duration,
    /// How many runs it takes at once.
    pub concurrency: usize,
}

impl RemoteOptions {
    /// The usual settings for a peer.
    pub fn new(id: AgentId, client: Client) -> Self {
        let name = id.to_string();
        Self {
            id,
            description: format!("The agent behind {name}, elsewhere."),
            name,
            skills: Vec::new(),
            client,
            dialect: RemoteDialect::default(),
            assign_to: None,
            poll: Duration::from_secs(2),
            concurrency: 16,
        }
    }
}

/// An agent that is somebody else's.
pub struct RemoteAgent {
    info: AgentInfo,
    client: Client,
    dialect: RemoteDialect,
    assign_to: Option<String>,
    poll: Duration,
}

impl RemoteAgent {
    /// An agent that stands for a peer. It calls nobody yet.
    pub fn new(options: RemoteOptions) -> Self {
        Self {
            info: AgentInfo {
                id: options.id,
                name: options.name,
                description: options.description,
                skills: options.skills,
                concurrency: options.concurrency.max(1),
            },
            client: options.client,
            dialect: options.dialect,
            assign_to: options.assign_to,
            poll: options.poll,
        }
    }
}

#[async_trait]
impl Agent for RemoteAgent {
    fn info(&self) -> &AgentInfo {
        &self.info
    }

    async fn run(&self, turn: Turn, output: Arc<dyn Output>) -> Result<Outcome, AgentError> {
        let carried = Carried::of(&turn);
        if carried.hops >= MOST_HOPS {
            let text = "This was passed on from agent to agent too often.";
            let said = failure(ErrorWord::AgentRejected.name(), text);
            return Ok(Outcome::Rejected(Some(said)));
        }
        if turn.stop.is_cancelled() {
            return Err(stopped());
        }
        let client = carried.client(&self.client);
        match self.dialect {
            RemoteDialect::Acp => acp::run(self, &client, &carried, &turn, output.as_ref()).await,
            RemoteDialect::Zone => zone::run(self, &client, &carried, &turn, output.as_ref()).await,
        }
    }
}

#[cfg(test)]
mod tests;
