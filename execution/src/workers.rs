//! Workers: the background tasks of a node.
//!
//! They run agents, deliver outbox entries, remove expired data and collect gauges. The hub decides what happens to a
//! task or a delivery; the workers decide when, and with how much concurrency.

mod capacity;
mod claimer;
mod housekeeping;
mod options;
mod task_runner;

pub use options::{WorkerMetrics, WorkerOptions};

use crate::webhooks::WEBHOOK_CHANNEL;
use async_trait::async_trait;
use capacity::RunCapacity;
use claimer::Claimer;
use interzone_delivery::{
    AttemptResult, DeliveryHandler, DeliveryOutcome, HEARTBEAT_TIMEOUT, OutboxWorker, Unhealthy,
    WorkerGroup,
};
use interzone_hub::ports::ChangeHint;
use interzone_hub::{Hub, HubError, OutboxEntry, STREAM_CHANNEL, SlotProvider, WorkOwner};
use interzone_protocol::vocab::AgentId;
use std::sync::Arc;
use std::time::Duration;
use task_runner::TaskRunner;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

/// Time for the workers to stop after the grace period, in addition to the time they wait for agents.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// All workers of a node.
///
/// Dropping them aborts everything, as if the node had died; [`Workers::join`] stops them gracefully.
pub struct Workers {
    group: WorkerGroup,
    run_counter: RunCounter,
}

/// Counter of the agents running on a node.
#[derive(Clone)]
pub struct RunCounter {
    /// Maximum number of concurrent runs.
    limit: usize,
    slots: Arc<Semaphore>,
}

impl RunCounter {
    /// Returns the current number.
    pub fn count(&self) -> usize {
        self.limit.saturating_sub(self.slots.available_permits())
    }
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
        let kill_timeout = options.stop_grace.saturating_add(SHUTDOWN_GRACE);
        let mut group = WorkerGroup::new(&stop, kill_timeout);
        let stop = group.stop_token();
        let limit = options.runs.max(1);
        let run_counter = RunCounter {
            limit,
            slots: Arc::new(Semaphore::new(limit)),
        };
        let options = Arc::new(options);
        let wakeups = Wakeups::default();

        // Subscribed before the first poll, so that no notification is missed.
        let notified = wakeups.clone();
        let forwarding = hub.forward_changes(stop.clone(), move |hints| notified.notify(hints));
        group.spawn("wakes", Duration::MAX, |heartbeat| async move {
            forwarding.await;
            drop(heartbeat);
        });

        let runner = Arc::new(TaskRunner {
            options: options.clone(),
            metrics: metrics.clone(),
            kill: group.kill_token(),
        });
        let (node_slots, wakeup) = (run_counter.slots.clone(), wakeups.work.clone());
        let capacity = RunCapacity::new(
            &hub,
            options.clone(),
            runner,
            node_slots,
            wakeup,
            stop.clone(),
        );
        let claimer = Claimer::new(hub.clone(), Arc::clone(&capacity));
        // Provides run slots for direct dispatch. The hub does not keep it alive; the claimer's task does.
        let slot_provider: Arc<SlotProvider> =
            Arc::new(move |agent: &AgentId, owner: &WorkOwner| capacity.try_acquire(agent, owner));
        hub.set_slot_provider(&slot_provider);
        group.spawn("agents", HEARTBEAT_TIMEOUT, |heartbeat| async move {
            claimer.run(heartbeat).await;
            drop(slot_provider);
        });

        let streams: Arc<dyn DeliveryHandler> = Arc::new(StreamDelivery(hub.clone()));
        for (name, channel, handler, delivery, wakeup) in [
            (
                "webhooks",
                WEBHOOK_CHANNEL,
                webhooks,
                options.webhooks,
                wakeups.webhooks,
            ),
            (
                "streams",
                STREAM_CHANNEL,
                streams,
                options.streams,
                wakeups.streams,
            ),
        ] {
            let metrics = metrics.clone();
            let outbox = OutboxWorker {
                hub: hub.clone(),
                channel,
                handler,
                options: delivery,
                poll_interval: options.poll_interval,
                drain_on_stop: false,
                on_attempt: Arc::new(move |result, _| {
                    metrics.delivery(channel, attempt_label(result));
                }),
            };
            let (stop, kill) = (stop.clone(), group.kill_token());
            group.spawn(name, HEARTBEAT_TIMEOUT, |heartbeat| {
                outbox.run(wakeup, heartbeat, stop, kill)
            });
        }

        let max_silence = options.sweep_interval.saturating_add(HEARTBEAT_TIMEOUT);
        group.spawn("sweep", max_silence, |heartbeat| {
            housekeeping::run_sweep(hub.clone(), options.clone(), heartbeat, stop.clone())
        });
        let max_silence = options.gauges_interval.saturating_add(HEARTBEAT_TIMEOUT);
        group.spawn("gauges", max_silence, |heartbeat| {
            housekeeping::run_gauges(hub, options, metrics, heartbeat, stop)
        });
        Self { group, run_counter }
    }

    /// Checks that every worker is alive and makes progress.
    ///
    /// # Errors
    /// Names the worker that is not.
    pub fn check_health(&self) -> Result<(), Unhealthy> {
        self.group.check_health()
    }

    /// Returns the number of agents running on this node.
    pub fn running(&self) -> usize {
        self.run_counter.count()
    }

    /// Returns a handle that counts the running agents.
    pub fn run_counter(&self) -> RunCounter {
        self.run_counter.clone()
    }

    /// Stops the workers: nothing new starts, and running work may finish within the grace period. Then agents are
    /// stopped and their tasks released, so that another node, or the next start of this one, claims them at once.
    pub async fn join(self, grace: Duration) {
        self.group.join(grace).await;
    }
}

impl From<Workers> for WorkerGroup {
    fn from(workers: Workers) -> Self {
        workers.group
    }
}

/// Returns the metrics label of an attempt.
const fn attempt_label(result: AttemptResult) -> &'static str {
    match result {
        AttemptResult::Delivered => "delivered",
        AttemptResult::Retry | AttemptResult::Failed => "failed",
        AttemptResult::Panicked => "panicked",
    }
}

/// Delivers answers to the stream that created the task.
struct StreamDelivery(Hub);

#[async_trait]
impl DeliveryHandler for StreamDelivery {
    async fn deliver(&self, entry: &OutboxEntry) -> Result<DeliveryOutcome, HubError> {
        self.0.deliver_to_stream(entry).await?;
        Ok(DeliveryOutcome::Delivered)
    }
}

/// Notifications that wake the workers.
#[derive(Clone, Default)]
struct Wakeups {
    work: Arc<Notify>,
    webhooks: Arc<Notify>,
    streams: Arc<Notify>,
}

impl Wakeups {
    /// Notifies the workers of a batch of hints, each at most once: a pending notification is not counted.
    fn notify(&self, hints: &[ChangeHint]) {
        let (mut work, mut outbox) = (false, false);
        for hint in hints {
            match hint {
                ChangeHint::Work => work = true,
                ChangeHint::Outbox => outbox = true,
                ChangeHint::Everything => (work, outbox) = (true, true),
                ChangeHint::Subject(..) | ChangeHint::Signals(_) | ChangeHint::Subscriptions => {}
            }
        }
        if work {
            self.work.notify_one();
        }
        if outbox {
            self.webhooks.notify_one();
            self.streams.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
