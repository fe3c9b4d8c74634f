//! Agents, the registry of a node's agents, and routing of work to them.

use crate::error::HubError;
use crate::task::Task;
use async_trait::async_trait;
use interzone_protocol::vocab::{AgentId, Artifact, Message, Metadata, TaskState, VerbatimJson};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Description of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentInfo {
    /// Agent id, by which callers may select it.
    pub id: AgentId,
    /// Display name.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// The skills by which it may be selected.
    pub skills: Vec<Skill>,
    /// Maximum number of concurrent runs on one node.
    pub concurrency: usize,
    /// What its public description contains beside name, description and skills.
    pub profile: AgentProfile,
}

/// Details of an agent's public description.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AgentProfile {
    /// Version of the agent; `None` for that of the server.
    pub version: Option<String>,
    /// Documentation for people.
    pub documentation_url: Option<String>,
    /// Keywords; also those of its skills that have none.
    pub tags: Vec<String>,
    /// Examples of what to ask; also those of its skills that have none.
    pub examples: Vec<String>,
    /// Media types that it accepts; empty for any.
    pub input_modes: Vec<String>,
    /// Media types that it produces; empty for any.
    pub output_modes: Vec<String>,
}

/// A skill of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skill {
    /// Skill id, by which it may be selected: lower-case letters, digits and hyphens.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Description for people.
    pub description: String,
    /// Keywords; empty for those of the agent.
    pub tags: Vec<String>,
    /// Examples of what to ask; empty for those of the agent.
    pub examples: Vec<String>,
    /// Media types that it accepts; empty for those of the agent.
    pub input_modes: Vec<String>,
    /// Media types that it produces; empty for those of the agent.
    pub output_modes: Vec<String>,
}

/// One turn of a task: the complete input of an agent run.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The task.
    pub task: Task,
    /// The message to answer: the last one that is not from the agent.
    pub message: Message,
    /// Earlier messages, oldest first.
    pub history: Vec<Message>,
    /// Number of times this turn has been started, including this one; above 1 if a node died during the turn.
    pub attempt: u32,
    /// Canceled when the work must stop: the task was canceled, timed out, or was claimed by another node. An
    /// agent that ignores it is aborted.
    pub cancel_token: CancellationToken,
}

/// Outcome of a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum TurnOutcome {
    /// The turn is done.
    Completed {
        /// The answer; `None` if everything was delivered as artifacts.
        message: Option<Message>,
        /// True if the answer is self-contained, so that a caller that can do without a task gets only the
        /// message.
        direct: bool,
    },
    /// The user must answer a question first.
    InputRequired(Message),
    /// The user must sign in first.
    AuthRequired(Message),
    /// The agent declines the task.
    Rejected(Option<Message>),
    /// The turn failed, with a reason that the caller may read.
    Failed(Message),
}

impl TurnOutcome {
    /// Stable label of the outcome.
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::InputRequired(_) => "input_required",
            Self::AuthRequired(_) => "auth_required",
            Self::Rejected(_) => "rejected",
            Self::Failed(_) => "failed",
        }
    }

    /// True if the answer is self-contained.
    pub(crate) const fn is_direct(&self) -> bool {
        matches!(
            self,
            Self::Completed {
                message: Some(_),
                direct: true
            }
        )
    }

    /// Splits the outcome into the task's new state and its message. A message without an agent id gets this one.
    pub(crate) fn into_transition(self, agent: &AgentId) -> (TaskState, Option<Message>) {
        let (to, message) = match self {
            Self::Completed { message, .. } => (TaskState::Completed, message),
            Self::InputRequired(message) => (TaskState::InputRequired, Some(message)),
            Self::AuthRequired(message) => (TaskState::AuthRequired, Some(message)),
            Self::Rejected(message) => (TaskState::Rejected, message),
            Self::Failed(message) => (TaskState::Failed, Some(message)),
        };
        let message = message.map(|message| message.with_author(None).with_answers(None));
        let message = message.map(|message| match message.agent_id() {
            Some(_) => message,
            None => message.with_agent_id(agent.clone()),
        });
        (to, message)
    }
}

/// Sink for the output that an agent produces during a turn.
///
/// An error means that the work must stop: any later output is discarded.
#[async_trait]
pub trait TurnOutput: Send + Sync {
    /// Appends to the answer. Watchers see it at once; the log gets it in larger pieces.
    async fn text(&self, delta: &str) -> Result<(), HubError>;

    /// Reports progress.
    async fn status(&self, text: &str) -> Result<(), HubError>;

    /// Adds an artifact, or appends parts to an existing one.
    async fn artifact(&self, artifact: Artifact, append: bool, last: bool) -> Result<(), HubError>;
}

/// An agent: performs the turns of tasks.
#[async_trait]
pub trait Agent: Send + Sync {
    /// Description of the agent.
    fn info(&self) -> &AgentInfo;

    /// Returns true if the agent accepts work now.
    fn is_available(&self) -> bool {
        true
    }

    /// Time after which to retry, if the agent is unavailable and the time is known.
    fn retry_after(&self) -> Option<Duration> {
        None
    }

    /// Answers from the message and history alone, immediately and without side effects. It is called before
    /// anything is stored, so its result may be dropped and requested again, or never delivered. `None` means
    /// that the agent needs a turn, which is always correct.
    fn answer_inline(&self, message: &Message, history: &[Message]) -> Option<TurnOutcome> {
        let _ = (message, history);
        None
    }

    /// Performs one turn. It may run several times for the same turn, sequentially, when a node fails; never
    /// concurrently.
    ///
    /// # Errors
    /// The agent failed. Details are for the operator only; the caller of the task does not see them.
    async fn run(&self, turn: Turn, output: Arc<dyn TurnOutput>)
    -> Result<TurnOutcome, AgentError>;
}

/// Internal failure of an agent.
#[derive(Debug, thiserror::Error)]
#[error("{code}: {detail}")]
pub struct AgentError {
    /// Stable error code.
    pub code: &'static str,
    /// Details for the operator.
    pub detail: String,
}

/// Routing criteria of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The agent that the caller requested.
    pub assign_to: Option<String>,
    /// The skill that the caller requested.
    pub skill: Option<String>,
    /// The tenant that the caller addressed, which names an agent.
    pub tenant: Option<String>,
    /// The channel that the call came from, for rules such as "this channel uses that agent".
    pub channel: Option<String>,
}

/// The agents of a node and the routing rules.
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

    /// Sets the default agent.
    ///
    /// # Errors
    /// There is no such agent.
    pub fn set_default(&mut self, id: &AgentId) -> Result<(), HubError> {
        self.default = Some(self.require_agent(id)?);
        Ok(())
    }

    /// Routes calls from a channel to an agent.
    ///
    /// # Errors
    /// There is no such agent.
    pub fn route_channel(
        &mut self,
        channel: impl Into<String>,
        id: &AgentId,
    ) -> Result<(), HubError> {
        let id = self.require_agent(id)?;
        self.channels.insert(channel.into(), id);
        Ok(())
    }

    /// Returns the agent with this id.
    pub fn get(&self, id: &AgentId) -> Option<&Arc<dyn Agent>> {
        self.agents.get(id)
    }

    /// All agents, by id.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Agent>> {
        self.agents.values()
    }

    /// Selects an agent: the one requested by name, skill or tenant; else the one for the channel; else the
    /// default.
    ///
    /// # Errors
    /// The requested agent does not exist or is not available.
    pub fn route(&self, route: &Route) -> Result<AgentId, HubError> {
        let is_available = |id: &&AgentId| {
            self.agents
                .get(*id)
                .is_some_and(|agent| agent.is_available())
        };
        self.select(route)
            .filter(is_available)
            .cloned()
            .ok_or(HubError::AgentUnavailable)
    }

    /// Selects an agent like [`Self::route`], whether it is available or not.
    pub fn select(&self, route: &Route) -> Option<&AgentId> {
        if let Some(name) = route.assign_to.as_deref().or(route.tenant.as_deref()) {
            self.agents.get_key_value(name).map(|(id, _)| id)
        } else if let Some(skill) = &route.skill {
            let has_skill = |agent: &&Arc<dyn Agent>| {
                let skills = &agent.info().skills;
                skills.iter().any(|candidate| candidate.id == *skill)
            };
            let mut agents = self.agents.values().filter(has_skill);
            let first = agents.clone().next();
            let chosen = agents.find(|agent| agent.is_available()).or(first);
            chosen.map(|agent| &agent.info().id)
        } else {
            let by_channel = route
                .channel
                .as_ref()
                .and_then(|channel| self.channels.get(channel));
            by_channel.or(self.default.as_ref())
        }
    }

    fn require_agent(&self, id: &AgentId) -> Result<AgentId, HubError> {
        let registered = self.agents.get_key_value(id).map(|(id, _)| id.clone());
        registered.ok_or(HubError::AgentUnavailable)
    }
}

/// The metadata field that contains the error code.
const ERROR_CODE_FIELD: &str = "errorCode";

/// Builds a failure message: text for people and a stable error code for programs.
///
/// ```
/// use interzone_hub::{failure_code, failure_message};
///
/// let message = failure_message("file_too_large", "The file is larger than 5 MiB.");
/// assert_eq!(message.text(), "The file is larger than 5 MiB.");
/// assert_eq!(failure_code(&message).as_deref(), Some("file_too_large"));
/// ```
pub fn failure_message(code: &str, text: impl AsRef<str>) -> Message {
    let message = Message::agent_text(text);
    let fields = BTreeMap::from([(ERROR_CODE_FIELD, code)]);
    match VerbatimJson::from_value(&fields).and_then(Metadata::new) {
        Ok(metadata) => message.with_metadata(metadata),
        // A string always has a JSON form.
        Err(_) => message,
    }
}

/// Returns the stable error code of a failure message.
pub fn failure_code(message: &Message) -> Option<String> {
    message.metadata()?.get(ERROR_CODE_FIELD)
}

#[cfg(test)]
mod tests;
