//! The way back to a stream: what an agent says about what was asked there.

use super::outbox::{Carried, Carrier};
use async_trait::async_trait;
use interzone_hub::{Hub, HubError, OutboxEntry};

/// Carries agents' answers to the streams on which they were asked.
pub(super) struct StreamCarrier;

#[async_trait]
impl Carrier for StreamCarrier {
    async fn carry(&self, hub: &Hub, entry: &OutboxEntry) -> Result<Carried, HubError> {
        hub.carry_to_stream(entry).await?;
        Ok(Carried::Arrived)
    }
}
