//! The Verification Zone.
//!
//! It proves who asks, holds the secrets of Slack, and posts the answers. Rules about deliveries live in
//! the hub and SQL in the store; agents, tasks and whatever the Execution Zone does with a question never
//! enter here.

mod reply;
pub mod slack;
pub mod texts;

pub use texts::{Language, LeftOut, Refusal};
