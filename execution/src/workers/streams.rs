//! Delivery of agents' answers to streams.

use super::outbox::{DeliveryHandler, DeliveryOutcome};
use async_trait::async_trait;
use interzone_hub::{Hub, HubError, OutboxEntry};

/// Delivers answers to the stream that created the task.
pub(super) struct StreamDelivery;

#[async_trait]
impl DeliveryHandler for StreamDelivery {
    async fn deliver(&self, hub: &Hub, entry: &OutboxEntry) -> Result<DeliveryOutcome, HubError> {
        hub.deliver_to_stream(entry).await?;
        Ok(DeliveryOutcome::Delivered)
    }
}
