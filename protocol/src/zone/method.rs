//! Methods between the zones and the scopes that each requires.

use crate::Scope;

/// A method between the zones.
///
/// ```
/// use interzone_protocol::{Scope, zone::Method};
///
/// let method = Method::from_name("execute_task").unwrap();
/// assert_eq!(method.scopes(), [Scope::AgentIdentify, Scope::TasksWrite]);
/// assert_eq!(Method::from_name("executeTask"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Runs a task and waits for its result up to a time limit.
    ExecuteTask,
    /// Returns the result of a task.
    GetTaskResult,
    /// Cancels a task.
    CancelTask,
    /// Returns the agent card.
    GetAgentCard,
    /// Stores a user's feedback on a task. Interzone extension: not in the founding contract.
    Feedback,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 5] = [
        Self::ExecuteTask,
        Self::GetTaskResult,
        Self::CancelTask,
        Self::GetAgentCard,
        Self::Feedback,
    ];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ExecuteTask => "execute_task",
            Self::GetTaskResult => "get_task_result",
            Self::CancelTask => "cancel_task",
            Self::GetAgentCard => "get_agent_card",
            Self::Feedback => "interzone.feedback",
        }
    }

    /// Finds a method by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// The scopes that a token must have for this method, all of them.
    pub const fn scopes(self) -> &'static [Scope] {
        match self {
            Self::ExecuteTask | Self::Feedback => &[Scope::AgentIdentify, Scope::TasksWrite],
            Self::GetTaskResult => &[Scope::AgentIdentify, Scope::TasksRead],
            Self::CancelTask => &[Scope::AgentIdentify, Scope::TasksCancel],
            Self::GetAgentCard => &[Scope::AgentIdentify],
        }
    }
}
