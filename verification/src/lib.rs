//! The Verification Zone.
//!
//! It proves who asks, holds the secrets of Slack, and posts the answers. Rules about deliveries live in
//! the hub and SQL in the store; agents, tasks and whatever the Execution Zone does with a question never
//! enter here.

mod attachments;
mod context;
mod gates;
pub mod intake;
pub mod interactions;
pub mod policy;
mod question;
mod reply;
pub mod slack;
pub mod texts;
pub mod workers;

pub use attachments::FileLimits;
pub use gates::GateOptions;
pub use question::{PlaceKind, Question, SharedFile, thread_key};
pub use reply::{
    Desk, Feedbacks, Left, Live, POSTS, PlanError, Poster, ReplyOptions, answered, failed, refused,
    stopped,
};
pub use texts::{Language, LeftOut, Refusal};
