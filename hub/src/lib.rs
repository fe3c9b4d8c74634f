//! Domain core shared by all protocol dialects: tasks, streams, topics, artifacts, agents, inbox and
//! outbox.
//!
//! The hub contains pure rules and the ports that adapters implement. It has no HTTP, SQL, Slack or
//! dialect code, starts no background work, and reads neither the system clock nor the environment.
//!
//! [`Hub`] is the entry point. Each method authorizes the [`Caller`], applies a rule to the stored
//! state, and commits all consequences atomically: the state, its events, outbox entries and topic
//! signals. On a write conflict (optimistic concurrency) it reads again and retries.

mod access;
mod agent;
mod bus;
mod clock;
mod conversation;
mod error;
mod event;
mod fairness;
mod gcra;
mod hub;
mod lease;
mod limits;
mod log_throttle;
mod offload;
mod outbox;
pub mod ports;
mod retention;
mod stream;
mod task;
mod topic;
mod transitions;

pub use access::Caller;
pub use agent::{
    Agent, AgentError, AgentInfo, AgentProfile, Registry, Route, Skill, Turn, TurnOutcome,
    TurnOutput, failure_code, failure_message,
};
pub use clock::{Clock, IdSource, RandomIds, SystemClock};
pub use conversation::{
    Conversation, ConversationQuery, Feedback, ThreadKey, ThreadOrigin, ThreadTask,
};
pub use error::HubError;
pub use event::{Event, EventBody, Subject};
pub use fairness::{RunShares, WorkOwner, next_turn, principal_share, turn_cost};
pub use gcra::{Charge, Rate};
pub use hub::{
    BusyPolicy, Dispatch, Hub, IdempotencyKey, LeasedEntry, NewMessage, NewOutboxEntry,
    NewPushSubscription, NewStream, NewSubscription, NewTask, PersonReader, PublishResult,
    PushCursor, PushDelivery, PushSubscriptionPage, Run, RunFuture, RunSlot, STREAM_CHANNEL,
    SentMessage, SlotProvider, StartedTask, TaskDetail, TaskPage, TaskView, TurnStart, Watch,
    WatchItem, adopt_message,
};
pub use lease::Lease;
pub use limits::Limits;
pub use log_throttle::LogThrottle;
pub use offload::{
    Blob, BlobContent, BlobId, FETCH_URL_FIELD, HasParts, INLINE_LIMIT, InvalidBlobId, Offloaded,
};
pub use outbox::{DeliveryResult, DeliveryState, DeliveryStatus, OutboxEntry, RetryPolicy};
pub use ports::ReadMemory;
pub use retention::{Purged, Retention};
pub use stream::{Stream, StreamQuery};
pub use task::{
    PushSubscription, SealedSecrets, SnapshotRendering, Task, TaskCursor, TaskQuery, TaskSnapshot,
};
pub use topic::{
    AckOutcome, Signal, SignalBody, SignalDelivery, Subscription, SubscriptionState, TopicTrie,
};
pub use transitions::{can_stream_transition, can_task_transition};
