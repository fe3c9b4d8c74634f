//! Errors of the hub.
//!
//! The enum is exhaustive: dialects must map every variant to an error code, so a new variant does not
//! compile until it has one. Messages contain nothing that the caller may not know.

use crate::ports::StoreError;
use interzone_protocol::vocab::{StreamId, StreamState, SubscriptionId, TaskId, TaskState};

use crate::topic::SubscriptionState;

/// Error of a hub operation.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// The task does not exist or belongs to another principal.
    #[error("there is no task {0}")]
    TaskNotFound(TaskId),
    /// The task is finished.
    #[error("task {id} is finished: it is {}", state.name())]
    TaskFinished {
        /// The task.
        id: TaskId,
        /// Its final state.
        state: TaskState,
    },
    /// The state transition is not allowed.
    #[error("a task that is {} cannot become {}", from.name(), to.name())]
    IllegalTransition {
        /// The current state.
        from: TaskState,
        /// The requested state.
        to: TaskState,
    },
    /// The task belongs to another conversation than the message names.
    #[error("task {0} belongs to another context; omit the context id, or give the task's")]
    ContextMismatch(TaskId),
    /// The idempotency key was used for a call with another content.
    #[error("this idempotency key was used for another call; use a new key for each call")]
    IdempotencyKeyReused,
    /// The stream does not exist, or the caller is neither its owner nor a participant.
    #[error("there is no stream {0}")]
    StreamNotFound(StreamId),
    /// The stream does not accept messages in its current state.
    #[error("stream {id} takes no messages: it is {}", state.name())]
    StreamNotActive {
        /// The stream.
        id: StreamId,
        /// Its state.
        state: StreamState,
    },
    /// The subscription does not exist or belongs to another principal.
    #[error("there is no subscription {0}")]
    SubscriptionNotFound(SubscriptionId),
    /// The subscription's state does not allow the operation.
    #[error("subscription {id} is {}", state.name())]
    SubscriptionNotReady {
        /// The subscription.
        id: SubscriptionId,
        /// Its state.
        state: SubscriptionState,
    },
    /// No available agent matches the request.
    #[error("no agent is available for this request; omit the agent or name an available one")]
    AgentUnavailable,
    /// The caller may not do this.
    #[error("you may not do this; ask an operator")]
    NotAllowed,
    /// A value is larger than allowed.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// Name of the value.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// There are more items than allowed.
    #[error("there can be at most {limit} {what}")]
    TooMany {
        /// Name of the items.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A value is invalid.
    #[error("{field}: {reason}")]
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// The reason, and what is valid.
        reason: &'static str,
    },
    /// The run is no longer valid: it was canceled, or its lease was lost.
    #[error("this run has been stopped")]
    Stopped,
    /// Concurrent writers kept changing the same object.
    #[error("too many concurrent changes to this object; try again")]
    Contended,
    /// The memory budget for reads is used up.
    #[error("too many large reads in progress; try again")]
    NoMemory,
    /// The store operation failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl HubError {
    /// Returns true if the same call may succeed later without other changes.
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Contended | Self::NoMemory => true,
            Self::Store(error) => error.is_transient(),
            _ => false,
        }
    }

    /// Returns true if a retry may help. If it is unknown whether a write succeeded, a retry finds out: a task that has
    /// ended, or a delivery that was completed, reports so.
    pub const fn is_retryable(&self) -> bool {
        self.is_transient() || matches!(self, Self::Store(StoreError::InDoubt(_)))
    }
}
