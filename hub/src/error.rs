//! Why the hub did not do what it was asked.
//!
//! Every reason is listed, and whoever turns them into a dialect's codes must name each: a new one
//! does not build until it has a code. Nothing here says more than the caller may know.

use crate::ports::StoreError;
use interzone_protocol::vocab::{StreamId, StreamState, SubscriptionId, TaskId, TaskState};

use crate::topic::SubscriptionState;

/// Why the hub did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// There is no such task, or it is somebody else's.
    #[error("there is no task {0}")]
    TaskNotFound(TaskId),
    /// The task is finished.
    #[error("task {id} is finished: it is {}", state.name())]
    TaskFinished {
        /// The task.
        id: TaskId,
        /// How it ended.
        state: TaskState,
    },
    /// A task in this state cannot enter that one.
    #[error("a task that is {} cannot become {}", from.name(), to.name())]
    IllegalMove {
        /// The state it is in.
        from: TaskState,
        /// The state it cannot enter.
        to: TaskState,
    },
    /// There is no such stream, or the caller has nothing to do with it.
    #[error("there is no stream {0}")]
    StreamNotFound(StreamId),
    /// The stream takes nothing now.
    #[error("stream {id} takes no messages: it is {}", state.name())]
    StreamNotActive {
        /// The stream.
        id: StreamId,
        /// Where it stands.
        state: StreamState,
    },
    /// There is no such subscription, or it is somebody else's.
    #[error("there is no subscription {0}")]
    SubscriptionNotFound(SubscriptionId),
    /// The subscription is not in a state in which this can be done.
    #[error("subscription {id} is {}", state.name())]
    SubscriptionNotReady {
        /// The subscription.
        id: SubscriptionId,
        /// Where it stands.
        state: SubscriptionState,
    },
    /// No agent answers to what was asked for.
    #[error("no agent is available for this; leave the choice to us, or name one that is")]
    AgentUnavailable,
    /// The caller may not do this.
    #[error("you may not do this; ask an operator")]
    NotAllowed,
    /// Something is larger than is allowed.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// What.
        what: &'static str,
        /// How large it may be.
        limit: usize,
    },
    /// There are more of something than are allowed.
    #[error("there can be at most {limit} {what}")]
    TooMany {
        /// What.
        what: &'static str,
        /// How many there may be.
        limit: usize,
    },
    /// Something was given that cannot be used.
    #[error("{field}: {reason}")]
    Invalid {
        /// What.
        field: &'static str,
        /// Why it cannot, and what can.
        reason: &'static str,
    },
    /// The work is no longer ours: it was cancelled, or its lease is over.
    #[error("this run has been stopped")]
    Stopped,
    /// Others kept changing the same thing at the same time.
    #[error("too much happens to this at once; try again")]
    Contended,
    /// As much is being read for callers as memory allows.
    #[error("too much is being read at this moment; try again")]
    NoMemory,
    /// The store did not do it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl HubError {
    /// Whether the same call may work later, all else unchanged.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Contended | Self::NoMemory => true,
            Self::Store(error) => error.is_transient(),
            _ => false,
        }
    }
}
