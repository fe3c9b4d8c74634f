//! What happens.
//!
//! The hub is the one domain that all dialects share: tasks, streams, topics, artifacts, agents,
//! inbox and outbox. It holds pure rules, and the ports that the outside fills. No HTTP, no SQL, no
//! Slack and no dialect may enter; it starts no background work, and reads neither the clock nor the
//! environment.

mod clock;
mod event;
mod outbox;
mod packed;
pub mod ports;
mod quota;
mod retention;
mod stream;
mod task;
mod topic;

pub use clock::{Clock, IdSource, RandomIds, SystemClock};
pub use event::{Event, EventBody, Subject};
pub use outbox::{OutboxEntry, RetryPolicy, Settlement};
pub use packed::{Blob, BlobId, HasParts, INLINE_LIMIT, NotABlobId, Packed};
pub use quota::{Charge, Rate};
pub use retention::{Purged, Retention};
pub use stream::Stream;
pub use task::{Push, Task, TaskCursor, TaskQuery};
pub use topic::{
    Acked, Signal, SignalBody, SignalDelivery, Subscription, SubscriptionState, TopicTrie,
};
