//! Workers: the background tasks of a node.
//!
//! They run agents, deliver outbox entries, remove expired data and collect gauges. The hub decides what happens to a
//! task or a delivery; the workers decide when, and with how much concurrency.

mod capacity;
mod claimer;
mod housekeeping;
mod options;
mod outbox;
mod run_output;
mod streams;
mod task_runner;
mod wakeups;

pub use options::{DeliveryOptions, WorkerMetrics, WorkerOptions};
pub use outbox::{DeliveryHandler, DeliveryOutcome};

use crate::webhooks::WEBHOOK_CHANNEL;
use capacity::RunCapacity;
use claimer::Claimer;
use interzone_edge::worker_health::{HealthProbe, Heartbeat, Unhealthy};
use interzone_hub::ports::StoreError;
use interzone_hub::{Hub, HubError, STREAM_CHANNEL, SlotProvider, WorkOwner};
use interzone_protocol::vocab::AgentId;
use outbox::OutboxWorker;
use std::sync::Arc;
use std::time::Duration;
use streams::StreamDelivery;
use task_runner::TaskRunner;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Time for the workers to stop after the grace period, in addition to the time they wait for agents.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Time without a heartbeat after which a polling loop counts as stuck.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(60);

/// All workers of a node.
///
/// Dropping them aborts everything, as if the node had died; [`Workers::join`] stops them gracefully.
pub struct Workers {
    loops: JoinSet<()>,
    liveness: Vec<Arc<HealthProbe>>,
    stop: CancellationToken,
    kill: CancellationToken,
    kill_timeout: Duration,
    /// Maximum number of concurrent runs.
    runs: usize,
    run_slots: Arc<Semaphore>,
    /// Provides run slots for direct dispatch; kept alive here.
    _slot_provider: Option<Arc<SlotProvider>>,
}

impl Workers {
    /// Starts the workers of a node. Needs a Tokio runtime. They run until `stop` is cancelled.
    pub fn start(
        hub: Hub,
        webhooks: Arc<dyn DeliveryHandler>,
        options: WorkerOptions,
        metrics: Arc<dyn WorkerMetrics>,
        stop: CancellationToken,
    ) -> Self {
        let mut workers = Self {
            loops: JoinSet::new(),
            liveness: Vec::new(),
            stop: stop.child_token(),
            kill: CancellationToken::new(),
            kill_timeout: options.stop_grace.saturating_add(SHUTDOWN_GRACE),
            runs: options.runs.max(1),
            run_slots: Arc::new(Semaphore::new(options.runs.max(1))),
            _slot_provider: None,
        };
        let options = Arc::new(options);
        let wakeups = Wakeups::default();

        // Subscribed before the first poll, so that no notification is missed.
        let (notified, stop) = (wakeups.clone(), workers.stop.clone());
        let forwarding = hub.forward_changes(stop, move |wakes| notified.notify(wakes));
        let heartbeat = workers.add_heartbeat("wakes", Duration::MAX);
        workers.loops.spawn(async move {
            forwarding.await;
            drop(heartbeat);
        });

        let heartbeat = workers.add_heartbeat("agents", HEARTBEAT_TIMEOUT);
        let runner = Arc::new(TaskRunner {
            options: options.clone(),
            metrics: metrics.clone(),
            kill: workers.kill.clone(),
        });
        let (node_slots, wakeup, stop) = (
            workers.run_slots.clone(),
            wakeups.work.clone(),
            workers.stop.clone(),
        );
        let capacity = RunCapacity::new(&hub, options.clone(), runner, node_slots, wakeup, stop);
        let claimer = Claimer::new(hub.clone(), Arc::clone(&capacity));
        workers.loops.spawn(claimer.run(heartbeat));
        let slot_provider: Arc<SlotProvider> =
            Arc::new(move |agent: &AgentId, owner: &WorkOwner| capacity.try_acquire(agent, owner));
        hub.set_slot_provider(&slot_provider);
        workers._slot_provider = Some(slot_provider);

        let stream_delivery: Arc<dyn DeliveryHandler> = Arc::new(StreamDelivery);
        for (name, channel, handler, limits, wakeup) in [
            (
                "webhooks",
                WEBHOOK_CHANNEL,
                webhooks,
                options.webhooks,
                wakeups.webhooks.clone(),
            ),
            (
                "streams",
                STREAM_CHANNEL,
                stream_delivery,
                options.streams,
                wakeups.streams.clone(),
            ),
        ] {
            let heartbeat = workers.add_heartbeat(name, HEARTBEAT_TIMEOUT);
            let outbox = OutboxWorker {
                hub: hub.clone(),
                channel,
                handler,
                limits,
                poll_interval: options.poll_interval,
                metrics: metrics.clone(),
            };
            let (stop, kill) = (workers.stop.clone(), workers.kill.clone());
            workers
                .loops
                .spawn(outbox.run(wakeup, heartbeat, stop, kill));
        }

        let heartbeat = workers.add_heartbeat(
            "sweep",
            options.sweep_interval.saturating_add(HEARTBEAT_TIMEOUT),
        );
        let (sweep_hub, stop) = (hub.clone(), workers.stop.clone());
        workers.loops.spawn(housekeeping::run_sweep(
            sweep_hub,
            options.clone(),
            heartbeat,
            stop,
        ));

        let heartbeat = workers.add_heartbeat(
            "gauges",
            options.gauges_interval.saturating_add(HEARTBEAT_TIMEOUT),
        );
        let stop = workers.stop.clone();
        workers.loops.spawn(housekeeping::run_gauges(
            hub, options, metrics, heartbeat, stop,
        ));
        workers
    }

    fn add_heartbeat(&mut self, name: &'static str, timeout: Duration) -> Heartbeat {
        let (heartbeat, liveness) = Heartbeat::new(name, timeout);
        self.liveness.push(liveness);
        heartbeat
    }

    /// Checks that every worker is alive and makes progress.
    ///
    /// # Errors
    /// Names the worker that is not.
    pub fn healthy(&self) -> Result<(), Unhealthy> {
        self.liveness
            .iter()
            .try_for_each(|liveness| liveness.check())
    }

    /// Returns the number of agents running on this node.
    pub fn running(&self) -> usize {
        self.runs.saturating_sub(self.run_slots.available_permits())
    }

    /// Stops the workers: nothing new starts, and running work may finish within the grace period. Then agents are
    /// stopped and their tasks released, so that another node, or the next start of this one, claims them at once.
    pub async fn join(mut self, grace: Duration) {
        self.stop.cancel();
        if tokio::time::timeout(grace, self.join_all()).await.is_ok() {
            return;
        }
        self.kill.cancel();
        if tokio::time::timeout(self.kill_timeout, self.join_all())
            .await
            .is_err()
        {
            tracing::error!("workers did not stop in time, aborting");
        }
    }

    async fn join_all(&mut self) {
        while let Some(joined) = self.loops.join_next().await {
            if let Err(error) = joined {
                tracing::error!(%error, "worker panicked");
            }
        }
    }
}

/// True if a retry may help. If it is unknown whether a write succeeded, a retry finds out: a task that has ended, or
/// a delivery that was completed, reports so.
fn is_retryable(error: &HubError) -> bool {
    error.is_transient() || matches!(error, HubError::Store(StoreError::InDoubt(_)))
}

/// Notifications that wake the workers.
#[derive(Clone, Default)]
struct Wakeups {
    work: Arc<Notify>,
    webhooks: Arc<Notify>,
    streams: Arc<Notify>,
}

#[cfg(test)]
mod tests;
