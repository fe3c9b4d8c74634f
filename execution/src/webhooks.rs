//! Webhooks: a task's events, posted to where a subscription wants them, signed.
//!
//! What is sent for an event is the same on every attempt, byte for byte. Each notification has an id
//! of its own, so that a receiver can tell a repetition; one that arrived is not sent again, even if
//! another of the same event has to be.

mod deliver;
mod sign;

pub use deliver::WebhookCarrier;

use interzone_protocol::acp::TaskEvent;
use serde::{Deserialize, Serialize};

/// The outbox channel that webhooks leave by.
pub const CHANNEL: &str = "webhook";

/// Where a subscription's events go, and which.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    /// The address.
    pub(crate) url: String,
    /// The events.
    pub(crate) events: Vec<TaskEvent>,
}
