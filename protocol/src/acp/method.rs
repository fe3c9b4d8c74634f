//! The methods, and the scope that each needs.

/// A method of ACP, or one of our own beside it.
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
    /// Begins a task.
    TasksCreate,
    /// Adds a message to a task.
    TasksSend,
    /// Reads a task.
    TasksGet,
    /// Calls a task off.
    TasksCancel,
    /// Has a task's events sent to a URL.
    TasksSubscribe,
    /// Begins a stream.
    StreamStart,
    /// Says something on a stream.
    StreamMessage,
    /// Ends a stream.
    StreamEnd,
    /// Tells of a task's event; comes from agents.
    TaskNotification,
    /// A piece of what is said on a stream; comes from agents.
    StreamChunk,
    /// Lists the caller's tasks. Ours: ACP has no such method.
    TasksList,
    /// Ends a subscription of a task. Ours: ACP has no such method.
    TasksUnsubscribe,
    /// Finds requests that were answered. Ours, and for operators alone.
    PairsFind,
}

impl Method {
    /// All of them, ACP's ten first.
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
        Self::PairsFind,
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
            Self::PairsFind => "interzone.pairs.find",
        }
    }

    /// The method with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// The scopes that a token must have, all of them, for this method.
    pub const fn scopes(self) -> [Scope; 2] {
        let own = match self {
            Self::TasksCreate | Self::TasksSend => Scope::TasksWrite,
            Self::TasksGet | Self::TasksList => Scope::TasksRead,
            Self::TasksCancel => Scope::TasksCancel,
            Self::StreamStart | Self::StreamMessage | Self::StreamEnd => Scope::StreamsWrite,
            Self::TasksSubscribe
            | Self::TasksUnsubscribe
            | Self::TaskNotification
            | Self::StreamChunk => Scope::NotificationsReceive,
            Self::PairsFind => Scope::Operate,
        };
        [Scope::AgentIdentify, own]
    }
}

/// What a token may be used for. They are matched whole: there are no wildcards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// To be known at all; every method needs it.
    AgentIdentify,
    /// To read and watch tasks.
    TasksRead,
    /// To begin tasks and add to them.
    TasksWrite,
    /// To call tasks off.
    TasksCancel,
    /// To watch streams.
    StreamsRead,
    /// To begin, speak on and end streams.
    StreamsWrite,
    /// To have events sent.
    NotificationsReceive,
    /// To look after the place. Ours: those who call agents do not need it.
    Operate,
}

impl Scope {
    /// Those of ACP, and so all but [`Operate`](Self::Operate).
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
