//! ACP methods and scopes.

/// A method of ACP, or an Interzone extension of it.
///
/// ```
/// use interzone_protocol::acp::{Method, Scope};
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

/// OAuth scope of a token. Scopes are compared exactly; there are no wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Identify the agent; required by every method.
    AgentIdentify,
    /// Read and watch tasks.
    TasksRead,
    /// Create tasks and add messages to them.
    TasksWrite,
    /// Cancel tasks.
    TasksCancel,
    /// Watch streams.
    StreamsRead,
    /// Start, send on and end streams.
    StreamsWrite,
    /// Receive webhook events.
    NotificationsReceive,
    /// Operate the server. Interzone extension; callers of agents do not need it.
    Operate,
}

impl Scope {
    /// The scopes of ACP: all but [`Operate`](Self::Operate).
    pub const ALL: [Self; 7] = [
        Self::AgentIdentify,
        Self::TasksRead,
        Self::TasksWrite,
        Self::TasksCancel,
        Self::StreamsRead,
        Self::StreamsWrite,
        Self::NotificationsReceive,
    ];

    /// The name in a token.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AgentIdentify => "acp:agent:identify",
            Self::TasksRead => "acp:tasks:read",
            Self::TasksWrite => "acp:tasks:write",
            Self::TasksCancel => "acp:tasks:cancel",
            Self::StreamsRead => "acp:streams:read",
            Self::StreamsWrite => "acp:streams:write",
            Self::NotificationsReceive => "acp:notifications:receive",
            Self::Operate => "interzone:operate",
        }
    }
}
