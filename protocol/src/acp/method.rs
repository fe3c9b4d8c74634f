//! ACP methods and the scopes that each requires.

use crate::Scope;

/// A method of ACP, or an Interzone extension of it.
///
/// ```
/// use interzone_protocol::{Scope, acp::Method};
///
/// let method = Method::from_name("tasks.cancel").unwrap();
/// assert_eq!(method.scopes(), [Scope::AgentIdentify, Scope::TasksCancel]);
/// assert_eq!(Method::from_name("tasks.getBatch"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// Creates a task.
    TasksCreate,
    /// Adds a message to a task.
    TasksSend,
    /// Reads a task.
    TasksGet,
    /// Cancels a task.
    TasksCancel,
    /// Sends a task's events to a webhook URL.
    TasksSubscribe,
    /// Starts a stream.
    StreamStart,
    /// Sends a message on a stream.
    StreamMessage,
    /// Ends a stream.
    StreamEnd,
    /// Reports a task event; sent by agents.
    TaskNotification,
    /// A chunk of a stream message; sent by agents.
    StreamChunk,
    /// Lists the caller's tasks. Interzone extension.
    TasksList,
    /// Removes a webhook subscription. Interzone extension.
    TasksUnsubscribe,
    /// Searches the request log. Interzone extension, for operators only.
    RequestsFind,
}

impl Method {
    /// All methods, ACP's ten first.
    pub const ALL: [Self; 13] = [
        Self::TasksCreate,
        Self::TasksSend,
        Self::TasksGet,
        Self::TasksCancel,
        Self::TasksSubscribe,
        Self::StreamStart,
        Self::StreamMessage,
        Self::StreamEnd,
        Self::TaskNotification,
        Self::StreamChunk,
        Self::TasksList,
        Self::TasksUnsubscribe,
        Self::RequestsFind,
    ];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TasksCreate => "tasks.create",
            Self::TasksSend => "tasks.send",
            Self::TasksGet => "tasks.get",
            Self::TasksCancel => "tasks.cancel",
            Self::TasksSubscribe => "tasks.subscribe",
            Self::StreamStart => "stream.start",
            Self::StreamMessage => "stream.message",
            Self::StreamEnd => "stream.end",
            Self::TaskNotification => "task.notification",
            Self::StreamChunk => "stream.chunk",
            Self::TasksList => "interzone.tasks.list",
            Self::TasksUnsubscribe => "interzone.tasks.unsubscribe",
            Self::RequestsFind => "interzone.requests.find",
        }
    }

    /// Finds a method by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// The scopes that a token must have for this method, all of them.
    pub const fn scopes(self) -> &'static [Scope] {
        match self {
            Self::TasksCreate | Self::TasksSend => &[Scope::AgentIdentify, Scope::TasksWrite],
            Self::TasksGet | Self::TasksList => &[Scope::AgentIdentify, Scope::TasksRead],
            Self::TasksCancel => &[Scope::AgentIdentify, Scope::TasksCancel],
            Self::StreamStart | Self::StreamMessage | Self::StreamEnd => {
                &[Scope::AgentIdentify, Scope::StreamsWrite]
            }
            Self::TasksSubscribe
            | Self::TasksUnsubscribe
            | Self::TaskNotification
            | Self::StreamChunk => &[Scope::AgentIdentify, Scope::NotificationsReceive],
            Self::RequestsFind => &[Scope::AgentIdentify, Scope::Operate],
        }
    }
}
