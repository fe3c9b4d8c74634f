//! Protocol between the zones: `execute_task` and its companion methods.
//!
//! Names use underscores, as in the founding contract. An explicit null counts as absent when read and
//! is never sent; unknown fields are ignored. User-facing texts are not defined here, only their keys
//! ([`UserMessageKey`]).

pub mod codes;
mod error_reason;
mod events;
mod method;
mod params;
mod results;

pub use error_reason::{ErrorReason, UserMessageKey};
pub use events::{PROGRESS_METHOD, TaskProgress};
pub use method::Method;
pub use params::{
    Attachment, BotToken, ContextMessage, ContextRole, ExecuteTaskParams, FeedbackParams,
    FeedbackVerdict, TaskIdParams,
};
pub use results::{
    ArtifactPart, CancelResult, ErrorObject, ExecuteResult, ExecuteStatus, FeedbackResult,
    SharedStr, SkippedAttachment, TaskOutcome, TaskResult, TaskResultStatus, ZoneArtifact,
};
