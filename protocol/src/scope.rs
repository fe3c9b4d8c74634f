//! OAuth scopes, the same for every dialect. The names are those of ACP, because its clients request them.

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
    /// The scopes of callers of agents: all but [`Operate`](Self::Operate).
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
