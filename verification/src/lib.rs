//! The Verification Zone.
//!
//! It proves who asks, holds the secrets of Slack, and posts the answers. Rules about deliveries live in
//! the hub and SQL in the store; agents, tasks and whatever the Execution Zone does with a question never
//! enter here.

mod ask;
mod attachments;
mod context;
mod doors;
mod errands;
mod gates;
pub mod intake;
pub mod interactions;
mod options;
pub mod policy;
mod question;
mod reply;
mod signs;
pub mod slack;
pub mod texts;
pub mod workers;
mod zone;

pub use attachments::FileLimits;
pub use doors::router;
pub use gates::GateOptions;
pub use options::{AskOptions, Check, ZoneOptions};
pub use question::{Forwarded, PlaceKind, Question, SharedFile, thread_key};
pub use reply::{
    Carried, Desk, FEEDBACK_ACTION, FeedbackGiven, Feedbacks, Left, LeftOutFile, Live, POSTS,
    PlanError, Poster, ReplyOptions, STOP_ACTION, Ways, answered, failed, refused, stopped,
};
pub use texts::{Language, LeftOut, Refusal};
pub use zone::{ASK_CHANNEL, ERRAND_CHANNEL, Taken, Zone};
