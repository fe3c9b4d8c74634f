//! What the workers are given: webhooks carried through the guarded way out, and whom to tell.

use async_trait::async_trait;
use interzone_edge::egress::Egress;
use interzone_edge::telemetry::Metrics;
use interzone_execution::webhooks::{self, WebhookOptions};
use interzone_execution::workers::{Carried, Carrier, WorkerMetrics};
use interzone_hub::{Hub, HubError, OutboxEntry};
use std::sync::Arc;
use std::time::Duration;

/// Carries webhooks.
pub(super) struct Webhooks {
    pub(super) egress: Egress,
    pub(super) options: WebhookOptions,
}

#[async_trait]
impl Carrier for Webhooks {
    async fn carry(&self, hub: &Hub, entry: &OutboxEntry) -> Result<Carried, HubError> {
        let arrived = webhooks::deliver(hub, &self.egress, entry, &self.options).await?;
        Ok(Carried::Settled { arrived })
    }
}

/// Passes on what the workers do.
pub(super) struct Told(pub(super) Arc<Metrics>);

impl WorkerMetrics for Told {
    fn queue(&self, waiting: u64, held: u64) {
        self.0.queue(waiting, held);
    }

    fn outbox(&self, waiting: u64, dead: u64) {
        self.0.outbox(waiting, dead);
    }

    fn agent_run(&self, agent: &str, outcome: &'static str, took: Duration) {
        self.0.agent_run(agent, outcome, took);
    }

    fn delivery(&self, channel: &'static str, outcome: &'static str) {
        if channel == webhooks::CHANNEL {
            self.0.webhook(outcome);
        }
    }
}
