//! ACP wire types: methods, params, objects and results, as defined by the protocol's
//! `contracts`.
//!
//! An explicit null counts as absent when read and is never sent. Unknown fields are ignored in params
//! and preserved in messages, parts, artifacts and metadata.

mod card;
pub mod codes;
mod events;
mod method;
mod objects;
mod params;
mod request_log;
mod results;
mod wire;

pub use card::{AgentCard, Authentication, Capabilities, CardMetadata, CardSkill};
pub use events::{
    StreamChunk, StreamStateParams, TaskEvent, TaskNotification, TaskStatusParams, TaskTextParams,
    extension_methods,
};
pub use method::Method;
pub use objects::{StreamObject, StreamStatus, SubscriptionObject, TaskObject, TaskStatus};
pub use params::{
    StreamEndParams, StreamMessageParams, StreamStartParams, TasksCancelParams, TasksCreateParams,
    TasksGetParams, TasksListParams, TasksSendParams, TasksSubscribeParams, TasksUnsubscribeParams,
};
pub use request_log::{RequestList, RequestRecord, RequestsFindParams, TaskTrace, TraceEvent};
pub use results::{MethodResult, TaskList};
pub use wire::{artifact_from_json, artifact_to_json, message_from_json, message_to_json};

#[cfg(test)]
mod tests;
