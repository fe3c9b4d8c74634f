//! ACP on the wire: its methods, scopes, params, objects and results, as `contracts` of the protocol
//! settle them.
//!
//! An explicit null counts as absent on the way in and is never sent on the way out. Members that we
//! do not know are ignored in params, and kept in messages, parts, artifacts and metadata. What a
//! method does is not known here, nor who may call it beyond the scope it names.

mod card;
pub mod codes;
mod events;
mod method;
mod objects;
mod pairs;
mod params;
mod results;

pub use card::{AgentCard, Authentication, Capabilities, CardMetadata, CardSkill, Provider};
pub use events::{
    StreamChunk, StreamMove, TaskEvent, TaskLine, TaskNotification, TaskText, watched,
};
pub use method::{Method, Scope};
pub use objects::{Status, StreamObject, StreamStatus, SubscriptionObject, TaskObject};
pub use pairs::{PairList, PairObject, PairsFindParams, TaskTrace, TraceEvent};
pub use params::{
    StreamEndParams, StreamMessageParams, StreamStartParams, TasksCancelParams, TasksCreateParams,
    TasksGetParams, TasksListParams, TasksSendParams, TasksSubscribeParams, TasksUnsubscribeParams,
};
pub use results::{MethodResult, TaskList};

#[cfg(test)]
mod tests;
