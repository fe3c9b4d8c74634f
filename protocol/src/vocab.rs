//! Validated types that every dialect and the hub share.
//!
//! Each value is checked on construction. The JSON form is ACP's, which command agents also use; the
//! other dialects convert at their endpoint. Methods, error codes, the clock and state transitions are
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
