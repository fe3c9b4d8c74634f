//! Agents: whoever does the work, and how work finds its way to them.

use crate::error::HubError;
use crate::task::Task;
use async_trait::async_trait;
use interzone_protocol::vocab::{AgentId, Artifact, Message, TaskState};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What an agent can do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentInfo {
    /// Its id, which callers may ask for.
    pub id: AgentId,
    /// A name for people.
    pub name: String,
    /// What it does, for people.
    pub description: String,
    /// The skills by which it may be chosen.
    pub skills: Vec<Skill>,
    /// How many runs it takes at once on one node.
    pub concurrency: usize,
}

/// Something an agent is good at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skill {
    /// By which it may be chosen: lower-case letters, digits and hyphens.
    pub id: String,
    /// A name for people.
    pub name: String,
    /// What it is, for people.
    pub description: String,
}

/// One turn of a task: all that an agent is given.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The task.
    pub task: Task,
    /// What to answer now: the last message that is not the agent's own.
    pub message: Message,
    /// What was said before, oldest first.
    pub history: Vec<Message>,
    /// How often this turn has been begun, this time included; above one, a node died at it.
    pub attempt: u32,
    /// Set when the work must stop: cancelled, out of time, or taken over by another node. An agent
    /// that goes on regardless is cut off.
    pub stop: CancellationToken,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It is done.
    Completed {
        /// The answer; none if all was said by artifacts.
        message: Option<Message>,
        /// Whether the answer stands for itself, so that a caller who can do without a task gets it
        /// alone.
        direct: bool,
    },
    /// A question must be answered first.
    InputRequired(Message),
    /// Somebody must sign in first.
    AuthRequired(Message),
    /// The agent will not do it.
    Rejected(Option<Message>),
    /// It could not be done, for a reason that the caller may read.
    Failed(Message),
}

impl Outcome {
    /// A word for it.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::InputRequired(_) => "input_required",
            Self::AuthRequired(_) => "auth_required",
            Self::Rejected(_) => "rejected",
            Self::Failed(_) => "failed",
        }
    }

    /// The state that it puts a task into, and what is said with it, by this agent if by nobody else.
    pub(crate) fn told_by(self, agent: &AgentId) -> (TaskState, Option<Message>) {
        let (to, said) = match self {
            Self::Completed { message, .. } => (TaskState::Completed, message),
            Self::InputRequired(message) => (TaskState::InputRequired, Some(message)),
            Self::AuthRequired(message) => (TaskState::AuthRequired, Some(message)),
            Self::Rejected(message) => (TaskState::Rejected, message),
            Self::Failed(message) => (TaskState::Failed, Some(message)),
        };
        let said = said.map(|message| match message.agent_id() {
            Some(_) => message,
            None => message.with_agent_id(agent.clone()),
        });
        (to, said)
    }
}

/// Where an agent puts what it makes while it is at it.
///
/// An error means that the work must stop: nothing that is put from then on arrives.
#[async_trait]
pub trait Output: Send + Sync {
    /// Adds to the answer. Watchers see it at once; the log gets it in larger pieces.
    async fn text(&self, delta: &str) -> Result<(), HubError>;

    /// Says what is going on.
    async fn status(&self, text: &str) -> Result<(), HubError>;

    /// Hands over an artifact, or adds parts to one that was handed over before.
    async fn artifact(&self, artifact: Artifact, append: bool, last: bool) -> Result<(), HubError>;
}

/// Whoever does the work.
#[async_trait]
pub trait Agent: Send + Sync {
    /// What it can do.
    fn info(&self) -> &AgentInfo;

    /// Whether it can be given work now.
    fn is_available(&self) -> bool {
        true
    }

    /// When it is worth asking again, if it cannot be given work now and that is known.
    fn back_in(&self) -> Option<Duration> {
        None
    }

    /// What it answers without working for it: by what was said alone, at once, and with nothing changed
    /// anywhere. It is asked before anything is stored, so what it gives may be lost and asked for again,
    /// or given to nobody. `None` means that it takes a turn, which is always right.
    fn at_hand(&self, message: &Message, history: &[Message]) -> Option<Outcome> {
        let _ = (message, history);
        None
    }

    /// Does one turn. It may run more than once for the same turn, one after another, when a node
    /// dies; never twice at the same time.
    ///
    /// # Errors
    /// It broke. The caller of the task is told no details; whoever keeps the node running is.
    async fn run(&self, turn: Turn, output: Arc<dyn Output>) -> Result<Outcome, AgentError>;
}

/// An agent broke.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct AgentError {
    /// A stable word for what went wrong.
    pub code: &'static str,
    /// What went wrong, for whoever keeps the node running.
    pub detail: String,
}

/// What is known of a call when its agent is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The agent that the caller asked for.
    pub assign_to: Option<String>,
    /// The skill that the caller asked for.
    pub skill: Option<String>,
    /// The tenant that the caller addressed, which names an agent.
    pub tenant: Option<String>,
    /// Where the call came from, for rules such as "this channel asks that agent".
    pub channel: Option<String>,
}

/// The agents of a node, and the rules by which one is chosen.
#[derive(Default)]
pub struct Registry {
    agents: BTreeMap<AgentId, Arc<dyn Agent>>,
    channels: BTreeMap<String, AgentId>,
    default: Option<AgentId>,
}

impl Registry {
    /// Adds an agent; the first becomes the default.
    pub fn add(&mut self, agent: Arc<dyn Agent>) {
        let id = agent.info().id.clone();
        self.default.get_or_insert_with(|| id.clone());
        self.agents.insert(id, agent);
    }

    /// Chooses the default agent.
    ///
    /// # Errors
    /// There is no such agent.
    pub fn set_default(&mut self, id: &AgentId) -> Result<(), HubError> {
        self.default = Some(self.known(id)?);
        Ok(())
    }

    /// Sends what comes from a channel to an agent.
    ///
    /// # Errors
    /// There is no such agent.
    pub fn route_channel(
        &mut self,
        channel: impl Into<String>,
        id: &AgentId,
    ) -> Result<(), HubError> {
        let id = self.known(id)?;
        self.channels.insert(channel.into(), id);
        Ok(())
    }

    /// The agent with this id.
    pub fn get(&self, id: &AgentId) -> Option<&Arc<dyn Agent>> {
        self.agents.get(id)
    }

    /// All agents, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Agent>> {
        self.agents.values()
    }

    /// Chooses an agent: the one asked for by name, by skill or by tenant; else the one for the
    /// channel; else the default.
    ///
    /// # Errors
    /// Whoever was asked for is not there or cannot be given work now.
    pub fn route(&self, route: &Route) -> Result<AgentId, HubError> {
        let chosen = if let Some(name) = route.assign_to.as_deref().or(route.tenant.as_deref()) {
            self.agents.get_key_value(name).map(|(id, _)| id)
        } else if let Some(skill) = &route.skill {
            let able = |agent: &&Arc<dyn Agent>| {
                agent.is_available() && agent.info().skills.iter().any(|known| known.id == *skill)
            };
            self.agents
                .values()
                .find(able)
                .map(|agent| &agent.info().id)
        } else {
            let by_channel = route
                .channel
                .as_ref()
                .and_then(|channel| self.channels.get(channel));
            by_channel.or(self.default.as_ref())
        };
        let available = |id: &&AgentId| {
            self.agents
                .get(*id)
                .is_some_and(|agent| agent.is_available())
        };
        chosen
            .filter(available)
            .cloned()
            .ok_or(HubError::AgentUnavailable)
    }

    fn known(&self, id: &AgentId) -> Result<AgentId, HubError> {
        let found = self.agents.get_key_value(id).map(|(id, _)| id.clone());
        found.ok_or(HubError::AgentUnavailable)
    }
}

#[cfg(test)]
mod tests;
