//! How much the workers do at once, how long they wait, and whom they tell.

use crate::intake::Intake;
use interzone_edge::budget::MemoryBudget;
use interzone_edge::telemetry::Metrics;
use interzone_hub::{Retention, RetryPolicy};
use interzone_protocol::vocab::AgentId;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How the workers of a node work.
#[derive(Clone, Debug)]
pub struct WorkerOptions {
    /// The node's name, which no other node has.
    pub node: String,
    /// How long a task is held without a renewal, where [leases end](interzone_hub::ports::Upkeep::leases_end).
    /// There a node that dies holds up its tasks this long.
    pub lease: Duration,
    /// How many runs there are at once, of all agents together.
    pub runs: usize,
    /// How long one turn of an agent may take.
    pub turn_timeout: Duration,
    /// The same, for agents that differ.
    pub turn_timeouts: BTreeMap<AgentId, Duration>,
    /// How long an agent that was told to stop may go on before it is cut off. Longer than a command
    /// agent waits for its program.
    pub stop_grace: Duration,
    /// How often the workers look by themselves, for what nobody told them of.
    pub look_every: Duration,
    /// How long a task that is begun as it is made may be worked at before that is written by itself,
    /// and not along with what comes of it.
    pub settle_after: Duration,
    /// How webhooks are carried.
    pub webhooks: CarrierOptions,
    /// How agents' answers are carried to streams.
    pub streams: CarrierOptions,
    /// What is kept for how long.
    pub retention: Retention,
    /// How often what is old is removed.
    pub sweep_every: Duration,
    /// How often queues are measured.
    pub gauges_every: Duration,
    /// Who takes attachments in before an agent gets them; without it they are given as they came.
    pub intake: Option<Arc<Intake>>,
    /// Memory for what agents are given: the messages of a task and its attachments, while it is worked at.
    pub memory: MemoryBudget,
}

impl WorkerOptions {
    /// The usual settings for a node with this name.
    pub fn new(node: impl Into<String>) -> Self {
        Self {
            node: node.into(),
            lease: Duration::from_secs(15),
            runs: 256,
            turn_timeout: Duration::from_secs(15 * 60),
            turn_timeouts: BTreeMap::new(),
            stop_grace: Duration::from_secs(8),
            look_every: Duration::from_secs(1),
            settle_after: Duration::from_millis(50),
            webhooks: CarrierOptions {
                concurrency: 64,
                hold: Duration::from_secs(40),
                retry: RetryPolicy::default(),
            },
            // The stream is in the same store: if one cannot be reached, neither can the other, and
            // then nothing is claimed. What fails is tried again soon, for somebody watches.
            streams: CarrierOptions {
                concurrency: 64,
                hold: Duration::from_secs(10),
                retry: RetryPolicy {
                    first: Duration::from_millis(100),
                    longest: Duration::from_secs(10),
                    attempts: 20,
                },
            },
            retention: Retention::default(),
            sweep_every: Duration::from_secs(60),
            gauges_every: Duration::from_secs(15),
            intake: None,
            memory: MemoryBudget::default(),
        }
    }

    pub(super) fn turn_timeout_of(&self, agent: &AgentId) -> Duration {
        let own = self.turn_timeouts.get(agent).copied();
        own.unwrap_or(self.turn_timeout)
    }
}

/// How one channel of the outbox is carried.
#[derive(Clone, Copy, Debug)]
pub struct CarrierOptions {
    /// How many entries are on their way at once.
    pub concurrency: usize,
    /// How long an entry is held while it is carried. It must be longer than carrying can take;
    /// after three quarters of it the attempt is broken off.
    pub hold: Duration,
    /// When to try again.
    pub retry: RetryPolicy,
}

/// Who wants to know what the workers do. The words are few and ours, fit to be labels.
pub trait WorkerMetrics: Send + Sync {
    /// How many tasks wait for an agent, and how many are held by one.
    fn queue(&self, waiting: u64, held: u64) {
        let _ = (waiting, held);
    }

    /// How many deliveries wait, and how many were given up.
    fn outbox(&self, waiting: u64, dead: u64) {
        let _ = (waiting, dead);
    }

    /// A run of an agent ended.
    fn agent_run(&self, agent: &str, outcome: &'static str, took: Duration) {
        let _ = (agent, outcome, took);
    }

    /// An attempt to carry an entry of this channel ended: `arrived`, `failed` or `broke`.
    fn delivery(&self, channel: &'static str, outcome: &'static str) {
        let _ = (channel, outcome);
    }
}

/// Nobody wants to know.
impl WorkerMetrics for () {}

/// The node's own figures.
impl WorkerMetrics for Metrics {
    fn queue(&self, waiting: u64, held: u64) {
        Self::queue(self, waiting, held);
    }

    fn outbox(&self, waiting: u64, dead: u64) {
        Self::outbox(self, waiting, dead);
    }

    fn agent_run(&self, agent: &str, outcome: &'static str, took: Duration) {
        Self::agent_run(self, agent, outcome, took);
    }

    fn delivery(&self, channel: &'static str, outcome: &'static str) {
        // What goes back to a stream stays in the house.
        if channel == super::WEBHOOK_CHANNEL {
            self.webhook(outcome);
        }
    }
}
