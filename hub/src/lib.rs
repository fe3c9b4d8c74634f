//! What happens.
//!
//! The hub is the one domain that all dialects share: tasks, streams, topics, artifacts, agents,
//! inbox and outbox. It holds pure rules, and the ports that the outside fills. No HTTP, no SQL, no
//! Slack and no dialect may enter; it starts no background work, and reads neither the clock nor the
//! environment.
//!
//! [`Hub`] is the way in. Each of its methods first decides whether the [`Caller`] may, then applies
//! a rule to what is stored, and commits everything that follows from it at once: the state, its
//! events, what must leave by the outbox, the signals on topics. If somebody else was faster, it
//! decides again.

mod access;
mod agent;
mod bus;
mod clock;
mod error;
mod event;
mod failure;
mod fairness;
mod hub;
mod lease;
mod limits;
mod memory;
mod outbox;
mod packed;
pub mod ports;
mod quota;
mod repeats;
mod retention;
mod stream;
mod talk;
mod task;
mod topic;
mod transitions;

pub use access::Caller;
pub use agent::{Agent, AgentError, AgentInfo, Outcome, Output, Registry, Route, Skill, Turn};
pub use clock::{Clock, IdSource, RandomIds, SystemClock};
pub use error::HubError;
pub use event::{Event, EventBody, Subject};
pub use failure::{failure, failure_word};
pub use fairness::{RunShares, WorkOwner, next_turn, principal_share, turn_cost};
pub use hub::{
    Begins, Begun, Birth, Delivered, Desk, HeldEntry, Hub, NewEntry, NewPush, NewStream,
    NewSubscription, NewTask, Once, PersonReader, Published, Run, STREAM_CHANNEL, Seat, Seen,
    TaskDetail, TaskPage, TaskView, TurnStart, Watch,
};
pub use lease::Lease;
pub use limits::Limits;
pub use memory::ReadMemory;
pub use outbox::{Carried, Fate, OutboxEntry, RetryPolicy, Settlement};
pub use packed::{Blob, BlobId, BlobText, FETCH, HasParts, INLINE_LIMIT, NotABlobId, Packed};
pub use quota::{Charge, Rate};
pub use repeats::Repeats;
pub use retention::{Purged, Retention};
pub use stream::{Stream, StreamQuery};
pub use talk::{Asking, Conversation, Feedback, Question, TalkQuery, Thread};
pub use task::{Push, Task, TaskCursor, TaskQuery, WholeTask, Written};
pub use topic::{
    Acked, Signal, SignalBody, SignalDelivery, Subscription, SubscriptionState, TopicTrie,
};
pub use transitions::{stream_may_move, task_may_move};
