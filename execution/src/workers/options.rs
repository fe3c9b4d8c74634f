//! Worker options: concurrency, timeouts, intervals and metrics.

use crate::attachments::AttachmentLoader;
use interzone_delivery::DeliveryOptions;
use interzone_edge::budget::MemoryBudget;
use interzone_edge::telemetry::Metrics;
use interzone_hub::{Retention, RetryPolicy};
use interzone_protocol::vocab::AgentId;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// Options of a node's workers.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WorkerOptions {
    /// Unique name of the node.
    #[serde(skip)]
    pub node: String,
    /// Duration of a task lease without renewal, in stores whose
    /// [leases expire](interzone_hub::ports::Maintenance::leases_expire).
    /// After a node fails, its tasks wait this long in such stores.
    pub lease: Duration,
    /// Maximum concurrent runs of all agents.
    #[serde(skip)]
    pub runs: usize,
    /// Timeout of one turn of an agent.
    pub turn_timeout: Duration,
    /// Turn timeouts of individual agents.
    #[serde(skip)]
    pub turn_timeouts: BTreeMap<AgentId, Duration>,
    /// Time an agent may take to stop before it is aborted. Longer than a command agent waits for its process.
    #[serde(skip)]
    pub stop_grace: Duration,
    /// Poll interval, for changes without notification.
    #[serde(skip)]
    pub poll_interval: Duration,
    /// Delay after which a directly dispatched task is moved to `Working` by a write of its own instead of
    /// together with its output.
    #[serde(skip)]
    pub working_delay: Duration,
    /// Delivery of webhooks.
    #[serde(skip)]
    pub webhooks: DeliveryOptions,
    /// Delivery of answers to streams.
    #[serde(skip)]
    pub streams: DeliveryOptions,
    /// Retention of stored data.
    #[serde(skip)]
    pub retention: Retention,
    /// Interval of the retention sweep.
    #[serde(skip)]
    pub sweep_interval: Duration,
    /// Interval of the queue gauges.
    #[serde(skip)]
    pub gauges_interval: Duration,
    /// Attachment loader; without it agents get attachments unchanged.
    #[serde(skip)]
    pub attachments: Option<Arc<AttachmentLoader>>,
    /// Memory budget for agent input: the messages of a task and its attachments while it runs.
    #[serde(skip)]
    pub memory: MemoryBudget,
}

impl Default for WorkerOptions {
    /// Default options for a node with a random name: two nodes with the same name would take over each other's work.
    fn default() -> Self {
        Self::new(Uuid::new_v4().simple().to_string())
    }
}

impl WorkerOptions {
    /// Default options for a node with this name, which no other node may have.
    pub fn new(node: impl Into<String>) -> Self {
        Self {
            node: node.into(),
            lease: Duration::from_secs(10),
            runs: 256,
            turn_timeout: Duration::from_secs(10 * 60),
            turn_timeouts: BTreeMap::new(),
            stop_grace: Duration::from_secs(8),
            poll_interval: Duration::from_secs(1),
            working_delay: Duration::from_millis(50),
            webhooks: DeliveryOptions {
                concurrency: 64,
                lease: Duration::from_secs(40),
                attempt_timeout: Duration::from_secs(30),
                retry: RetryPolicy::default(),
                max_deferred_age: None,
            },
            // The stream is in the same store: if the store is down, nothing is claimed either. Failures are
            // retried soon, since users watch streams.
            streams: DeliveryOptions {
                concurrency: 64,
                lease: Duration::from_secs(10),
                attempt_timeout: Duration::from_millis(7_500),
                retry: RetryPolicy {
                    initial_delay: Duration::from_millis(100),
                    max_delay: Duration::from_secs(10),
                    max_attempts: 20,
                },
                max_deferred_age: None,
            },
            retention: Retention::default(),
            sweep_interval: Duration::from_secs(60),
            gauges_interval: Duration::from_secs(15),
            attachments: None,
            memory: MemoryBudget::default(),
        }
    }

    pub(super) fn turn_timeout_of(&self, agent: &AgentId) -> Duration {
        let for_agent = self.turn_timeouts.get(agent).copied();
        for_agent.unwrap_or(self.turn_timeout)
    }
}

/// Metrics of the workers. Outcomes come from a small fixed set, fit for labels.
pub trait WorkerMetrics: Send + Sync {
    /// Sets the number of waiting and of leased tasks.
    fn queue(&self, waiting: u64, leased: u64) {
        let _ = (waiting, leased);
    }

    /// Sets the number of pending and of dead-lettered deliveries.
    fn outbox(&self, waiting: u64, dead: u64) {
        let _ = (waiting, dead);
    }

    /// Records a finished run of an agent.
    fn agent_run(&self, agent: &str, outcome: &'static str, duration: Duration) {
        let _ = (agent, outcome, duration);
    }

    /// Records a delivery attempt on this channel: `delivered`, `failed` or `panicked`.
    fn delivery(&self, channel: &'static str, outcome: &'static str) {
        let _ = (channel, outcome);
    }
}

/// Discards all metrics.
impl WorkerMetrics for () {}

/// Records into the node's metrics.
impl WorkerMetrics for Metrics {
    fn queue(&self, waiting: u64, held: u64) {
        Self::set_queue(self, waiting, held);
    }

    fn outbox(&self, waiting: u64, dead: u64) {
        Self::set_outbox(self, waiting, dead);
    }

    fn agent_run(&self, agent: &str, outcome: &'static str, took: Duration) {
        Self::record_agent_run(self, agent, outcome, took);
    }

    fn delivery(&self, channel: &'static str, outcome: &'static str) {
        // Deliveries to streams are internal and not counted.
        if channel == super::WEBHOOK_CHANNEL {
            self.record_webhook(outcome);
        }
    }
}
