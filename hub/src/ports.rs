//! The ports that a store fills: what is atomic, what is ordered, what may be repeated.
//!
//! Rules for every method of every port:
//!
//! * A write is **durable** when it returns `Ok`: it survives the process, the machine and, where
//!   the engine runs apart, the connection. It is applied **whole or not at all**.
//! * An `Err` means that nothing was written: a store that cannot tell whether a commit happened
//!   finds out before it answers. Only if its engine stays away for too long does it say
//!   [`InDoubt`](StoreError::InDoubt), which is the one exception.
//! * What was written is seen by every read that begins after the write returned, on every node.
//! * No method waits without bound: a store that cannot get on answers `Unavailable` or `Full`.

mod commit;
mod pair;
mod quota;
mod record;
mod store;
mod talk;
mod task_read;
mod work;

pub use commit::{ClaimKey, Commit, EventRow, Fence, Op};
pub use pair::{Pair, PairQuery, PairStore};
pub use quota::QuotaStore;
pub use record::{Record, RecordStore};
pub use store::{
    DeadLetterQuery, OutboxClaim, OutboxStore, Store, StreamStore, SubscriptionQuery, TaskStore,
    TopicStore, Upkeep, WorkStore,
};
pub use talk::{Conversations, TalkStore};
pub use task_read::TaskRead;
pub use work::{WorkClaim, WorkItem};

use interzone_protocol::vocab::SubscriptionId;

/// Why a store did not do what it was asked. Nothing was written, but for
/// [`InDoubt`](StoreError::InDoubt).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Somebody else wrote first: read again, decide again, try again.
    #[error("it was changed meanwhile")]
    Conflict,
    /// A claim was taken before; this is what it was taken for.
    #[error("this has been claimed before")]
    Claimed {
        /// The key.
        key: String,
        /// The value that the first claim left.
        value: String,
    },
    /// The lease under which this was written is no longer held.
    #[error("the lease is lost: another node may be at it")]
    Fenced,
    /// The subscriptions changed since they were last read.
    #[error("the subscriptions have changed")]
    StaleSubscriptions,
    /// Something is larger than a store keeps.
    #[error("{what} is larger than {limit} bytes")]
    TooLarge {
        /// What.
        what: &'static str,
        /// How large it may be.
        limit: usize,
    },
    /// There is no room left to write; try again when there is.
    #[error("the store is full: free some space, and it goes on by itself")]
    Full,
    /// The store cannot be reached or cannot get on now; try again later.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The engine went away in the middle of a commit and stays away: it cannot be found out whether
    /// the commit happened. Look before you repeat it.
    #[error("it cannot be found out whether this was written: {0}")]
    InDoubt(String),
    /// The store cannot be used as it is; nobody but an operator can help.
    #[error("the store cannot be used: {0}")]
    Unusable(String),
    /// What is stored cannot be read.
    #[error("stored data cannot be read: {0}")]
    Corrupt(String),
}

impl StoreError {
    /// Whether the same call may work later, all else unchanged.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Full | Self::Unavailable(_))
    }
}

/// Something that may interest those who wait.
///
/// Wakes are hints: they may be lost, late, repeated, or about nothing. What is stored is the truth,
/// so whoever waits for a wake also looks by itself now and then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A subject's log has grown to at least this number.
    Subject(crate::Subject, u64),
    /// There may be work to claim.
    Work,
    /// There may be something to carry out.
    Outbox,
    /// There may be signals for this subscription.
    Signals(SubscriptionId),
    /// Subscriptions have changed.
    Subscriptions,
    /// Anything may have happened: wakes were lost.
    Everything,
}
