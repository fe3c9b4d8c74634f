//! Validated types that every dialect and the hub share.
//!
//! Each value is checked on construction. The JSON form is Interzone's own, in which values are stored and given to
//! command agents: it has the members of all dialects, and every dialect converts at its endpoint. Methods, error codes, the clock and state transitions are
//! defined elsewhere.

mod artifact;
mod extra_fields;
mod id;
mod json;
mod message;
mod part;
mod priority;
mod provider;
mod role;
mod secret;
mod state;
mod string_newtype;
mod timestamp;
mod topic;

pub use crate::string_newtype;
pub use artifact::Artifact;
pub use extra_fields::ExtraFields;
pub(crate) use extra_fields::{FieldName, FieldSlot, serialize_some};
pub use id::{
    AgentId, ArtifactId, ContextId, DeliveryId, InvalidId, MessageId, PrincipalId, SessionId,
    SignalId, StreamId, SubscriptionId, TaskId,
};
pub use json::{InvalidJson, Metadata, VerbatimJson};
pub use message::{EmptyMessage, Message};
pub use part::{Encoding, Part, PartKind};
pub use priority::Priority;
pub use provider::Provider;
pub use role::Role;
pub use secret::Secret;
pub use state::{StreamState, TaskState};
pub use timestamp::{InvalidTimestamp, Timestamp};
pub use topic::{InvalidTopic, Topic, TopicErrorKind, TopicPattern};

#[cfg(test)]
mod tests;
