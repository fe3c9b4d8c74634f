//! The Verification Zone.
//!
//! Authenticates Slack requests, holds the Slack secrets and posts the answers. Delivery rules live in the hub, SQL in
//! the store; agents and tasks live in the Execution Zone.

mod ask;
mod attachments;
mod context;
mod gates;
mod http;
pub mod intake;
pub mod interactions;
mod jobs;
mod options;
pub mod policy;
mod question;
mod reply;
pub mod slack;
mod state;
pub mod texts;
mod unicode_hygiene;
pub mod workers;

pub use self::http::router;
pub use attachments::FileLimits;
pub use gates::GateOptions;
pub use options::{AskOptions, DependencyCheck, VerificationOptions};
pub use question::{ConversationKind, ForwardedMessage, Question, SharedFile, thread_key};
pub use reply::{
    FEEDBACK_ACTION, FeedbackStore, LiveReply, LiveReplyState, POST_CHANNEL, PlanError,
    PostHandler, ReplyOptions, ReplyService, STOP_ACTION, SkippedFile, SlackFeedback,
    TokenProvider, plan_answer, plan_failure, plan_refusal, plan_stop,
};
pub use state::{ASK_CHANNEL, IngestResult, JOB_CHANNEL, VerificationState};
pub use texts::{Language, Refusal, SkipReason};
