//! Store ports: atomicity, ordering and idempotency contracts.
//!
//! Rules for every method of every port:
//!
//! * A write is **durable** when it returns `Ok`: it survives a crash of the process or the machine and, where
//!   the engine runs apart, loss of the connection. It is **atomic**.
//! * An `Err` means that nothing was written: a store that cannot tell whether a commit happened finds out
//!   before it returns. The one exception is [`InDoubt`](StoreError::InDoubt), returned only if the engine
//!   stays unreachable for too long.
//! * A write is visible to every read that starts after the write returned, on every node.
//! * No method blocks without bound: a store that makes no progress returns `Unavailable` or `Full`.

mod commit;
mod conversation;
mod record;
mod request_log;
mod store;

pub use commit::{Commit, EventRow, Fence, IdempotencyClaim, Op};
pub use conversation::{ConversationPage, ConversationStore};
pub use record::{MemoryRecordStore, RecordStore, StoredRecord};
pub use request_log::{RequestLogEntry, RequestLogStore, RequestQuery};
pub use store::{
    DeadLetterQuery, Maintenance, OutboxClaim, OutboxStore, QuotaStore, ReadMemory, Store,
    StreamStore, SubscriptionQuery, TaskRead, TaskStore, TopicStore, WorkClaim, WorkItem,
    WorkStore,
};

use interzone_protocol::vocab::SubscriptionId;

/// Error of a store operation. Nothing was written, except possibly for
/// [`InDoubt`](StoreError::InDoubt).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Concurrent modification: read again, decide again, retry.
    #[error("concurrent modification")]
    Conflict,
    /// The idempotency key is already claimed; contains the value stored with it.
    #[error("the idempotency key is already claimed")]
    KeyTaken {
        /// The key.
        key: String,
        /// The value of the first claim.
        value: String,
    },
    /// The lease under which this was written is no longer held.
    #[error("the lease is lost: another node may have claimed the work")]
    Fenced,
    /// The subscriptions changed since they were last read.
    #[error("the subscriptions have changed")]
    StaleSubscriptions,
    /// A value is larger than the store accepts.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// Name of the value.
        what: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// The store has no space left; retry when there is.
    #[error("the store is full: free some space, and writes resume without a restart")]
    Full,
    /// The store cannot be reached or is overloaded; retry later.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The connection was lost during a commit and stays lost: it is unknown whether the commit happened. Read
    /// before repeating it.
    #[error("it is unknown whether this was written: {0}")]
    InDoubt(String),
    /// The store cannot be used in its current state; an operator must intervene.
    #[error("the store cannot be used: {0}")]
    Unusable(String),
    /// Stored data is invalid.
    #[error("stored data cannot be read: {0}")]
    Corrupt(String),
}

impl StoreError {
    /// Returns true if the same call may succeed later without other changes.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Full | Self::Unavailable(_))
    }
}

/// Change notification from the store.
///
/// Hints may be lost, late, repeated or spurious. The stored data is authoritative, so receivers also poll at
/// intervals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeHint {
    /// A subject's log has reached at least this sequence number.
    Subject(crate::Subject, u64),
    /// There may be work to claim.
    Work,
    /// There may be outbox entries to deliver.
    Outbox,
    /// There may be signals for this subscription.
    Signals(SubscriptionId),
    /// Subscriptions have changed.
    Subscriptions,
    /// Any of the above may have happened: hints were lost.
    Everything,
}
