//! The words that every dialect shares, and the hub with them.
//!
//! Each is checked when it is made, so whoever holds one need not check it again. Their JSON form is
//! ACP's, which is also what command agents read and write; the other dialects convert at their
//! door. Nothing here knows a method, an error code, the clock or a rule about what may follow what.

mod artifact;
mod id;
mod json;
mod members;
mod message;
mod part;
mod priority;
mod role;
mod state;
mod timestamp;
mod topic;

pub use artifact::Artifact;
pub use id::{
    AgentId, ArtifactId, ContextId, DeliveryId, InvalidId, MessageId, PrincipalId, SessionId,
    SignalId, StreamId, SubscriptionId, TaskId,
};
pub use json::{InvalidJson, Json, Metadata};
pub use members::Members;
pub(crate) use members::list_to;
pub use message::{Message, NoParts};
pub use part::{Encoding, Part, PartKind};
pub use priority::Priority;
pub use role::Role;
pub use state::{StreamState, TaskState};
pub use timestamp::{InvalidTimestamp, Timestamp};
pub use topic::{InvalidTopic, Topic, TopicFault, TopicPattern};

#[cfg(test)]
mod tests;
