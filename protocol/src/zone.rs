//! What the zones say to each other: `execute_task` and what belongs to it.
//!
//! Names are spelled as the founding contract spells them, with underscores. An explicit null counts
//! as absent on the way in and is never sent on the way out; members that we do not know are ignored.
//! What a method does is not known here, nor what a user is shown: only by which key it is found.

pub mod codes;
mod events;
mod method;
mod params;
mod results;
mod words;

pub use events::{PROGRESS, TaskProgress};
pub use method::Method;
pub use params::{
    Attachment, BotToken, ContextMessage, ContextRole, ExecuteTaskParams, FeedbackParams,
    TaskIdParams, Verdict,
};
pub use results::{
    ArtifactPart, CancelResult, ExecuteResult, ExecuteStatus, FeedbackResult, SharedText, Skipped,
    TaskOutcome, TaskResult, TaskResultStatus, WireFault, ZoneArtifact,
};
pub use words::{ErrorWord, MessageKey};
