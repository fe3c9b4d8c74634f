//! Webhooks: signed delivery of a task's events to subscription URLs.
//!
//! The body for an event is the same on every attempt, byte for byte. Each notification has its own id, so that
//! receivers can detect duplicates; a delivered notification is not sent again, even if another one of the same
//! event is retried.

mod deliver;
mod sign;

pub use deliver::WebhookDelivery;

use interzone_protocol::acp::TaskEvent;
use serde::{Deserialize, Serialize};

/// Outbox channel of webhooks.
pub const WEBHOOK_CHANNEL: &str = "webhook";

/// Destination of a subscription and the events it receives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WebhookTarget {
    /// The URL.
    pub(crate) url: String,
    /// The events.
    pub(crate) events: Vec<TaskEvent>,
}
