//! The methods, and the scopes that each needs.

use crate::acp::Scope;

/// A method between the zones.
///
/// ```
/// use interzone_protocol::{acp::Scope, zone::Method};
///
/// let method = Method::from_name("execute_task").unwrap();
/// assert_eq!(method.scopes(), [Scope::AgentIdentify, Scope::TasksWrite]);
/// assert_eq!(Method::from_name("executeTask"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Has something done, and waits for it as long as it may.
    ExecuteTask,
    /// Asks what came of it.
    GetTaskResult,
    /// Calls it off.
    CancelTask,
    /// Asks who is there.
    GetAgentCard,
    /// Tells what somebody thinks of what came of it. Ours: the founding contract has no such method.
    Feedback,
}

impl Method {
    /// All of them.
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

    /// The method with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// The scopes that a token must have, all of them, for this method.
    pub const fn scopes(self) -> &'static [Scope] {
        match self {
            Self::ExecuteTask | Self::Feedback => &[Scope::AgentIdentify, Scope::TasksWrite],
            Self::GetTaskResult => &[Scope::AgentIdentify, Scope::TasksRead],
            Self::CancelTask => &[Scope::AgentIdentify, Scope::TasksCancel],
            Self::GetAgentCard => &[Scope::AgentIdentify],
        }
    }
}
